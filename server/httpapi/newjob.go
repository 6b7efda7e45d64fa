package httpapi

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// The defaults of a put.
const (
	defaultPriority = tube.UrgentBelow // the first priority that does not count as urgent
	defaultTTR      = 60               // seconds
)

// newJob is the JSON description of a job to put.
type newJob struct {
	Body   jsonValue `json:"body,omitempty" doc:"a string is the body itself; of any other value the JSON text is the body"`
	Base64 *[]byte   `json:"body_base64,omitempty" doc:"the body in base64, instead of body"`
	Terms
}

// op returns the operation that puts the job.
func (j *newJob) op(name string) (storage.Op, error) {
	body, err := j.body()
	if err != nil {
		return storage.Op{}, err
	}
	return j.Terms.op(name, body)
}

// body returns the body of the job.
func (j *newJob) body() ([]byte, error) {
	switch {
	case j.Body != nil && j.Base64 != nil:
		return nil, invalid("body_base64: there is already a body")
	case j.Base64 != nil:
		return *j.Base64, nil
	case j.Body == nil:
		return nil, invalid("body: it is missing")
	case j.Body[0] != '"':
		return j.Body, nil
	}
	body, err := jsontext.AppendUnquote(nil, j.Body)
	if err != nil {
		return nil, invalid("body: %v", err)
	}
	return body, nil
}

// Terms are the options of a put.
type Terms struct {
	Priority *uint32   `json:"priority,omitempty" doc:"0 is the most urgent; the default is 1024"`
	Delay    *duration `json:"delay,omitempty" doc:"time until the job is ready"`
	At       *int64    `json:"at,omitempty" doc:"when the job becomes ready, in milliseconds since the Unix epoch; instead of delay" minimum:"0" maximum:"9223372036853"`
	TTR      *duration `json:"ttr,omitempty" doc:"time to run (visibility timeout), in whole seconds; the default is 60"`
	Key      *string   `json:"key,omitempty" doc:"deduplication key: at most one job of a tube has it" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
	Group    *string   `json:"group,omitempty" doc:"the group of the job in its tube" minLength:"1" maxLength:"128"`

	Meta  map[string]string `json:"meta,omitempty" doc:"names with values for the worker: at most 16, with 1,024 bytes together"`
	Trace *string           `json:"trace,omitempty" minLength:"55" maxLength:"55" doc:"a W3C traceparent for the worker"`

	Batch    *string   `json:"batch,omitempty" minLength:"1" maxLength:"100" doc:"the batch of which the job is a member"`
	BatchTTL *duration `json:"batch_ttl,omitempty" doc:"how long that batch, or the one after which the job runs, can stay unsealed"`
	After    *string   `json:"after,omitempty" minLength:"1" maxLength:"100" doc:"the batch whose members must all be done before the job runs"`
	AfterAll *string   `json:"after_all,omitempty" minLength:"1" maxLength:"100" doc:"the batch whose members must all have ended, even parked or gone, before the job runs; instead of after"`
	RuleOptions
}

// RuleOptions are the options that a put and a policy have.
type RuleOptions struct {
	Retry       retries    `json:"retry,omitzero"`
	Jitter      *uint8     `json:"jitter,omitempty" maximum:"100" doc:"by how many per cent each delay is spread; 10 by default for exp, else 0"`
	Max         *uint32    `json:"max,omitempty" minimum:"1" maximum:"1000000" doc:"the maximum number of deliveries of a job"`
	Dead        *string    `json:"dead,omitempty" minLength:"1" maxLength:"200" doc:"the dead-letter tube for exhausted jobs; without it they are buried"`
	Expire      *duration  `json:"expire,omitempty" doc:"how long a job is worth doing, from when it is first due; 0 for ever"`
	OnExpire    *string    `json:"on_expire,omitempty" enum:"delete,park" doc:"what happens when that is over; the default is delete"`
	Keep        *duration  `json:"keep,omitempty" doc:"how long the record of a job is kept after its end; without it, or with 0, there is none"`
	KeyTTL      *duration  `json:"key_ttl,omitempty" doc:"how long a key stays taken after its job is gone"`
	OnDuplicate *duplicate `json:"on_duplicate,omitempty" doc:"what to do if a job already has the key of a put"`
}

// op returns the operation that puts a job with this body.
func (t *Terms) op(name string, body []byte) (storage.Op, error) {
	if body == nil {
		body = []byte{}
	}
	op := storage.Op{Kind: storage.Put, Tube: name, Body: body}
	var err error
	if op.Pri, op.TTR, err = t.priorityAndTTR(); err != nil {
		return op, err
	}
	tags, err := t.tags()
	if err != nil {
		return op, err
	}
	if delay := tags.Delay; tags.HasDelay && delay%time.Second == 0 {
		op.Delay, tags.Delay, tags.HasDelay = uint32(delay/time.Second), 0, false
	}
	if !reflect.ValueOf(tags).Elem().IsZero() {
		op.Args = &storage.Args{Tags: tags}
	}
	return op, nil
}

// priorityAndTTR returns the priority, and the TTR in seconds.
func (t *Terms) priorityAndTTR() (pri, ttr uint32, err error) {
	pri, ttr = defaultPriority, defaultTTR
	if t.Priority != nil {
		pri = *t.Priority
	}
	if t.TTR != nil {
		seconds := time.Duration(*t.TTR) / time.Second
		if seconds*time.Second != time.Duration(*t.TTR) || seconds < tube.MinTTR || seconds > math.MaxUint32 {
			return 0, 0, invalid("ttr: it must be a whole number of seconds, at least 1")
		}
		ttr = uint32(seconds)
	}
	return pri, ttr, nil
}

// tags returns the options that beanstalkd does not have, and the delay.
func (t *Terms) tags() (*tube.Tags, error) {
	tags := new(tube.Tags)
	if t.Delay != nil {
		tags.Delay, tags.HasDelay = time.Duration(*t.Delay), true
	}
	if t.At != nil {
		if t.Delay != nil {
			return nil, invalid("at: there is already a delay")
		}
		if *t.At < 0 || *t.At > protocol.MaxTime {
			return nil, invalid("at: it must be from 0 to %d", protocol.MaxTime)
		}
		tags.At, tags.HasAt = tube.Instant(*t.At)*tube.Instant(time.Millisecond), true
	}
	if t.Key != nil {
		if !protocol.ValidKey([]byte(*t.Key)) {
			return nil, invalidKey(*t.Key)
		}
		tags.Key = *t.Key
	}
	if t.Group != nil {
		if tags.Group = *t.Group; !protocol.ValidGroup(tags.Group) {
			return nil, invalidGroup(tags.Group)
		}
	}
	if err := t.addBatch(tags); err != nil {
		return nil, err
	}
	if err := t.addNotes(tags); err != nil {
		return nil, err
	}
	var p tube.Policy
	err := ruleOptions.read(&t.RuleOptions, &p)
	tags.Rules, tags.Expire, tags.OnDuplicate = p.Rules, p.Expire, p.OnDuplicate
	return tags, err
}

// addBatch adds the batch of the job, and the one after which it runs.
func (t *Terms) addBatch(tags *tube.Tags) error {
	after := t.After
	if tags.AfterAll = t.AfterAll != nil; tags.AfterAll {
		after = t.AfterAll
	}
	switch {
	case t.After != nil && t.AfterAll != nil:
		return invalid("after_all: there is already an after")
	case after != nil && t.At != nil:
		return invalid("at: a job after a batch has no time; it can have a delay")
	case after != nil && t.Batch != nil && *after == *t.Batch:
		return invalid("%s: the job would wait for itself, it is a member of that batch", afterField(tags.AfterAll))
	case t.BatchTTL != nil && t.Batch == nil && after == nil:
		return invalid("batch_ttl: there is no batch")
	case t.BatchTTL != nil && *t.BatchTTL <= 0:
		return invalid("batch_ttl: it must be more than 0")
	}
	for _, b := range []struct {
		field string
		name  *string
		to    *string
	}{{"batch", t.Batch, &tags.Batch}, {afterField(tags.AfterAll), after, &tags.After}} {
		if b.name == nil {
			continue
		}
		if err := checkBatch(b.field, *b.name); err != nil {
			return err
		}
		*b.to = *b.name
	}
	if t.BatchTTL != nil {
		tags.BatchTTL = time.Duration(*t.BatchTTL)
	}
	return nil
}

// afterField returns the field with the batch after which a job runs.
func afterField(all bool) string {
	if all {
		return "after_all"
	}
	return "after"
}

// addNotes adds meta, in the order of the names, and the trace.
func (t *Terms) addNotes(tags *tube.Tags) error {
	var meta []protocol.Meta
	for _, name := range slices.Sorted(maps.Keys(t.Meta)) {
		meta = append(meta, protocol.Meta{Name: name, Value: t.Meta[name]})
		tags.Meta = append(tags.Meta, tube.Meta{Name: name, Value: t.Meta[name]})
	}
	if !protocol.ValidMeta(meta) {
		return invalid("meta: it must have at most %d names of letters, digits, - and _ that differ in more than case, with values without control characters, %d bytes together",
			protocol.MaxMeta, protocol.MaxMetaBytes)
	}
	if t.Trace != nil {
		if tags.Trace = *t.Trace; !protocol.ValidTrace(tags.Trace) {
			return invalid("trace: %q is not a W3C traceparent of 55 characters", tags.Trace)
		}
	}
	return nil
}

func invalidKey(key string) *problem {
	return invalid("key: %q is not a key: 1 to %d printable ASCII characters without spaces", key, protocol.MaxKey)
}

// parseTerms returns the options in the query of a put whose request body is the job body.
func parseTerms(query url.Values) (*Terms, error) {
	t := new(Terms)
	for name, values := range query {
		for _, value := range values { // only meta can be repeated
			if err := t.set(name, value); err != nil {
				return nil, invalid("%s: %v", name, err)
			}
		}
	}
	return t, nil
}

// optionFields returns the fields of a struct of options by their names in the tag json or query.
func optionFields(of reflect.Type, key string) map[string]reflect.StructField {
	fields := make(map[string]reflect.StructField)
	for _, field := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(field.Tag.Get(key), ","); name != "" {
			fields[name] = field
		}
	}
	return fields
}

var termFields = optionFields(reflect.TypeFor[Terms](), "json")

// set sets an option to the value of a query parameter.
func (t *Terms) set(name, value string) error {
	return setOption(reflect.ValueOf(t).Elem().FieldByIndex(termFields[name].Index).Addr().Interface(), value)
}

// addMeta adds NAME=VALUE.
func addMeta(to *map[string]string, word string) error {
	name, value, found := strings.Cut(word, "=")
	if _, twice := (*to)[name]; !found || twice {
		return fmt.Errorf("%q is not NAME=VALUE with a new name", word)
	}
	if *to == nil {
		*to = make(map[string]string)
	}
	(*to)[name] = value
	return nil
}

// parsed returns a pointer to the parsed word.
func parsed[T any](word string, parse func(string) (T, error)) (*T, error) {
	v, err := parse(word)
	return &v, err
}
