package httpapi

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file converts between structs of options and the fields of policies. The OpenAPI document has the structs, so they
// are written out; what is valid, and how a value is written, follows from the rows of package field.

// options are the fields of T that are rows of field.OfPolicy.
type options[T any] struct{ places [][]int } // for each row where it is in T; nil: T does not have it

var (
	ruleOptions   = optionsIn[RuleOptions]()
	limitOptions  = optionsIn[LimitOptions]()
	policyOptions = optionsIn[policyInfo]()
)

func optionsIn[T any]() (o options[T]) {
	fields := optionFields(reflect.TypeFor[T](), "json")
	for i := range field.OfPolicy {
		f := &field.OfPolicy[i]
		o.places = append(o.places, fields[f.JSON()].Index)
	}
	return o
}

// of describes what p sets.
func (o options[T]) of(p *tube.Policy) (shown T) {
	v := reflect.ValueOf(&shown).Elem()
	for i, place := range o.places {
		if text := field.OfPolicy[i].Format(p); place != nil && text != "" {
			setOption(v.FieldByIndex(place).Addr().Interface(), text) // it can be parsed: the row has written it
		}
	}
	return shown
}

// read sets the fields of p to the options that are given.
func (o options[T]) read(from *T, p *tube.Policy) error {
	v := reflect.ValueOf(from).Elem()
	if v.IsZero() {
		return nil
	}
	for i, place := range o.places {
		if place == nil || v.FieldByIndex(place).IsZero() {
			continue
		}
		f, text := &field.OfPolicy[i], optionText(v.FieldByIndex(place).Interface())
		if !f.Parse(p, []byte(text)) {
			return invalid("%s: %s", f.JSON(), mustBe(f, text))
		}
	}
	return nil
}

// optionText returns an option in the form of a tag.
func optionText(option any) string {
	switch v := option.(type) {
	case *uint8:
		return strconv.FormatUint(uint64(*v), 10)
	case *uint32:
		return strconv.FormatUint(uint64(*v), 10)
	case *uint64:
		return strconv.FormatUint(*v, 10)
	case *duration:
		return field.Durations(time.Duration(*v))
	case *duplicate:
		return field.OnDuplicateWords[*v]
	case retries:
		return field.RetryText(v.waits, v.doubled)
	case *string:
		return *v
	}
	panic(fmt.Sprintf("httpapi: an option of the type %T", option))
}

// setOption sets the option that to points to, from a query parameter or a tag.
func setOption(to any, text string) (err error) {
	switch option := to.(type) {
	case **uint8:
		*option, err = parsed(text, parsePercent)
	case **uint32:
		*option, err = parsed(text, parseUint32)
	case **uint64:
		*option, err = parsed(text, parseUint64)
	case **int64:
		*option, err = parsed(text, parseTime)
	case **duration:
		*option, err = parsed(text, parseDuration)
	case **duplicate:
		*option, err = parsed(text, parseDuplicate)
	case **string:
		*option = &text
	case *retries:
		*option, err = parseRetries(text)
	case *map[string]string:
		err = addMeta(option, text)
	}
	return err
}

// mustBe says what the value of a field must be, and text is not.
func mustBe(f *field.Field[tube.Policy], text string) string {
	switch f.Kind {
	case field.Number:
		return fmt.Sprintf("it must be from %d to %d", f.Min, f.Max)
	case field.Duration:
		return fmt.Sprintf("it must be from %s to %s", field.Durations(time.Duration(f.Min)*time.Millisecond), field.Durations(time.Duration(f.Max)*time.Millisecond))
	case field.Word:
		words := f.Words[1:]
		return fmt.Sprintf("%q is not %s or %s", text, strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
	case field.Rate:
		if f.Value == "RATE" {
			return fmt.Sprintf("it must be a rate such as 100, 100/s, 100/m or 100/h, at most %d", field.MaxLimit)
		}
		return fmt.Sprintf("it must be one or several different rates such as 100/s, 100/m or 1000/h, with commas, at most %d each", field.MaxLimit)
	case field.Retry:
		return fmt.Sprintf("%q is not 1 to %d durations, or exp(FIRST,LONGEST,COUNT)", text, field.MaxRetry)
	}
	if f.Value == "TUBE" {
		return fmt.Sprintf(notTube, text, protocol.MaxName)
	}
	return fmt.Sprintf("it must be an http or https URL without user and fragment, of at most %d bytes", field.MaxPushURL)
}
