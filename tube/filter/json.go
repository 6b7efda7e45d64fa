package filter

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// decode returns a JSON value, with its numbers as they are written.
func decode(text []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err = d.Token(); err != io.EOF {
		return nil, strconv.ErrSyntax // something follows
	}
	return value, nil
}

// contains reports whether a value, or one within it, covers the wanted one.
func contains(value, want any) bool {
	within := func(one any) bool { return contains(one, want) }
	if covers(value, want) {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), within)
	case []any:
		return slices.ContainsFunc(v, within)
	}
	return false
}

// covers reports whether a value is the wanted one, or has all that it has.
func covers(value, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		v, is := value.(map[string]any)
		for name, one := range w {
			has, found := v[name]
			is = is && found && covers(has, one)
		}
		return is
	case []any:
		v, is := value.([]any)
		for _, one := range w {
			is = is && slices.ContainsFunc(v, func(has any) bool { return covers(has, one) })
		}
		return is
	case json.Number:
		v, is := value.(json.Number)
		return is && canonical(v) == canonical(w)
	}
	return value == want
}

// number is a decimal number: 0.DIGITS times ten to the power of exponent, without zeros at either end.
type number struct {
	negative bool
	digits   string
	exponent int
}

// canonical returns the value of a number, without rounding. An exponent that does not fit an int32 counts as the largest one.
func canonical(n json.Number) number {
	text, power, _ := strings.Cut(strings.ToLower(n.String()), "e")
	exponent, _ := strconv.ParseInt(power, 10, 32)
	text, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return number{}
	}
	first := len(whole) - (len(whole+fraction) - len(digits)) // how many digits are before the point
	return number{negative, strings.TrimRight(digits, "0"), first + int(exponent)}
}

// anyString reports whether a string in a value, or a name in an object, is wanted.
func anyString(value any, wanted func(string) bool) bool {
	switch v := value.(type) {
	case string:
		return wanted(v)
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return anyString(one, wanted) })
	case map[string]any:
		for name, one := range v {
			if wanted(name) || anyString(one, wanted) {
				return true
			}
		}
	}
	return false
}
