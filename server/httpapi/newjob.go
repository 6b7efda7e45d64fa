package httpapi

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// What a put does not say.
const (
	usualPriority = tube.UrgentBelow // the most urgent of those that are not urgent
	usualTTR      = 60               // seconds
)

// Terms are what a put says of a job beside its body.
type Terms struct {
	Priority    *uint32    `json:"priority,omitempty" doc:"0 is the most urgent; 1024 unless said"`
	Delay       *duration  `json:"delay,omitempty" doc:"how long until the job is ready"`
	At          *int64     `json:"at,omitempty" doc:"when the job is ready, in milliseconds since the Unix epoch; instead of delay" minimum:"0" maximum:"9223372036853"`
	TTR         *duration  `json:"ttr,omitempty" doc:"how long a worker has for the job, in whole seconds; 60 unless said"`
	Key         *string    `json:"key,omitempty" doc:"the name of the job in its tube" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
	OnDuplicate *duplicate `json:"on_duplicate,omitempty" doc:"what happens if a job has the key"`
	KeyTTL      *duration  `json:"key_ttl,omitempty" doc:"how long the key stays taken when the job is gone"`
	Retry       []duration `json:"retry,omitempty" doc:"how long to wait after the first, second … failure" maxItems:"32"`
	Max         *uint32    `json:"max,omitempty" doc:"how often the job is delivered at most" minimum:"1" maximum:"1000000"`
	Dead        *string    `json:"dead,omitempty" doc:"the tube where the job goes when it is exhausted, instead of being buried" minLength:"1" maxLength:"200"`
}

// newJob is a job that is to be put.
type newJob struct {
	Body   jsonValue `json:"body,omitempty" doc:"a string is the body; of any other value its JSON is"`
	Base64 *[]byte   `json:"body_base64,omitempty" doc:"the body, in base64; instead of body"`
	Terms
}

// op returns the operation that puts the job.
func (j *newJob) op(name string) (storage.Op, error) {
	var body []byte
	switch {
	case j.Body != nil && j.Base64 != nil:
		return storage.Op{}, invalid("body_base64: there is a body already")
	case j.Base64 != nil:
		body = *j.Base64
	case j.Body == nil:
		return storage.Op{}, invalid("body: it is missing")
	case j.Body[0] == '"':
		var err error
		if body, err = jsontext.AppendUnquote(nil, j.Body); err != nil {
			return storage.Op{}, invalid("body: %v", err)
		}
	default:
		body = j.Body
	}
	return j.Terms.op(name, body)
}

// op returns the operation that puts a job with this body.
func (t *Terms) op(name string, body []byte) (storage.Op, error) {
	if body == nil {
		body = []byte{}
	}
	op := storage.Op{Kind: storage.Put, Tube: name, Pri: usualPriority, TTR: usualTTR, Body: body}
	if t.Priority != nil {
		op.Pri = *t.Priority
	}
	if t.TTR != nil {
		seconds := time.Duration(*t.TTR) / time.Second
		if seconds*time.Second != time.Duration(*t.TTR) || seconds < tube.MinTTR || seconds > math.MaxUint32 {
			return op, invalid("ttr: it has to be one second or more, and whole seconds")
		}
		op.TTR = uint32(seconds)
	}
	tags, err := t.tags()
	if err != nil {
		return op, err
	}
	if delay := tags.Delay; tags.HasDelay && delay%time.Second == 0 {
		op.Delay, tags.Delay, tags.HasDelay = uint32(delay/time.Second), 0, false
	}
	if t.tagged() || tags.HasDelay {
		op.Args = &storage.Args{Tags: tags}
	}
	return op, nil
}

// tagged tells whether there is more than priority, delay and TTR.
func (t *Terms) tagged() bool {
	return t.At != nil || t.Key != nil || t.OnDuplicate != nil || t.KeyTTL != nil || t.Retry != nil || t.Max != nil || t.Dead != nil
}

// tags returns what is beyond beanstalkd, and the delay.
func (t *Terms) tags() (*tube.Tags, error) {
	tags := new(tube.Tags)
	if t.Delay != nil {
		tags.Delay, tags.HasDelay = time.Duration(*t.Delay), true
	}
	if t.At != nil {
		if t.Delay != nil {
			return nil, invalid("at: there is a delay already")
		}
		if *t.At < 0 || *t.At > protocol.MaxTime {
			return nil, invalid("at: it is not from 0 to %d", protocol.MaxTime)
		}
		tags.At, tags.HasAt = tube.Instant(*t.At)*tube.Instant(time.Millisecond), true
	}
	if t.Key != nil {
		if !validKey(*t.Key) {
			return nil, invalidKey(*t.Key)
		}
		tags.Key = *t.Key
	}
	if t.OnDuplicate != nil {
		tags.OnDuplicate = tube.OnDuplicate(*t.OnDuplicate)
	}
	var err error
	tags.Rules, err = rulesOf(t.Retry, t.Max, t.Dead, t.KeyTTL)
	return tags, err
}

// rulesOf returns what tags say about failures and keys; nil is what they do not say.
func rulesOf(retry []duration, most *uint32, dead *string, keyTTL *duration) (r tube.Rules, err error) {
	if retry != nil {
		if len(retry) == 0 || len(retry) > protocol.MaxRetry {
			return r, invalid("retry: it has to have 1 to %d durations", protocol.MaxRetry)
		}
		for _, wait := range retry {
			r.Retry = append(r.Retry, time.Duration(wait))
		}
	}
	if most != nil {
		if *most < 1 || *most > protocol.MaxDeliveries {
			return r, invalid("max: it has to be from 1 to %d", protocol.MaxDeliveries)
		}
		r.Max = *most
	}
	if dead != nil {
		if !protocol.ValidName([]byte(*dead)) {
			return r, invalidTube("dead", *dead)
		}
		r.Dead = *dead
	}
	if keyTTL != nil {
		r.KeyTTL, r.HasKeyTTL = time.Duration(*keyTTL), true
	}
	return r, nil
}

// validKey tells whether a job may have this key.
func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= protocol.MaxKey
}

func invalidKey(key string) *problem {
	return invalid("key: %q has not 1 to %d printable ASCII characters without space", key, protocol.MaxKey)
}

// termsIn returns what a query says of a job, whose body is that of the request.
func termsIn(query url.Values) (*Terms, error) {
	t := new(Terms)
	for name, values := range query {
		if err := t.set(name, values[0]); err != nil {
			return nil, invalid("%s: %v", name, err)
		}
	}
	return t, nil
}

// set takes a parameter of a query.
func (t *Terms) set(name, value string) (err error) {
	switch name {
	case "priority":
		t.Priority, err = parsed(value, parseUint32)
	case "delay":
		t.Delay, err = parsed(value, parseDuration)
	case "at":
		t.At, err = parsed(value, func(v string) (int64, error) { return strconv.ParseInt(v, 10, 64) })
	case "ttr":
		t.TTR, err = parsed(value, parseDuration)
	case "key":
		t.Key = &value
	case "on_duplicate":
		t.OnDuplicate, err = parsed(value, parseDuplicate)
	case "key_ttl":
		t.KeyTTL, err = parsed(value, parseDuration)
	case "retry":
		t.Retry = make([]duration, 1+strings.Count(value, ","))
		for i, one := range strings.Split(value, ",") {
			if t.Retry[i], err = parseDuration(one); err != nil {
				return err
			}
		}
	case "max":
		t.Max, err = parsed(value, parseUint32)
	case "dead":
		t.Dead = &value
	}
	return err
}

// parsed returns a pointer to what a word means.
func parsed[T any](word string, parse func(string) (T, error)) (*T, error) {
	v, err := parse(word)
	return &v, err
}

func parseUint32(word string) (uint32, error) {
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", word, uint32(math.MaxUint32))
	}
	return uint32(n), nil
}

// duration is one as people write it: with a unit, or else in seconds.
type duration time.Duration

func parseDuration(word string) (duration, error) {
	d, ok := protocol.ParseDuration(word)
	if !ok {
		return 0, fmt.Errorf("%q is not a duration: a whole number of seconds, or with ms, s, m, h or d, at most ten years", word)
	}
	return duration(d), nil
}

// UnmarshalJSONFrom takes a string, or a number of seconds.
func (d *duration) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if kind := token.Kind(); kind != '"' && kind != '0' {
		return fmt.Errorf("a duration is a string or a number")
	}
	*d, err = parseDuration(token.String())
	return err
}

// MarshalJSON writes a whole number of the largest unit.
func (d duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, protocol.Durations([]time.Duration{time.Duration(d)})), nil
}

// Schema implements huma.SchemaProvider.
func (duration) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Pattern: durationPattern}, {Type: huma.TypeInteger, Minimum: &zero}},
		Description: "a whole number with a unit (ms, s, m, h, d), or else of seconds; at most ten years",
		Examples:    []any{"90s"},
	}
}

const durationPattern = "^[0-9]+(ms|s|m|h|d)?$"

// duplicate is what happens if a job has the key of a new one.
type duplicate tube.OnDuplicate

var duplicates = map[string]tube.OnDuplicate{"keep": tube.Keep, "replace": tube.Replace, "fail": tube.Fail}

func parseDuplicate(word string) (duplicate, error) {
	d, known := duplicates[word]
	if !known {
		return 0, fmt.Errorf("%q is none of keep, replace and fail", word)
	}
	return duplicate(d), nil
}

// UnmarshalJSONFrom takes one of the words.
func (d *duplicate) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var word string
	err := strict.UnmarshalDecode(dec, &word)
	if err == nil {
		*d, err = parseDuplicate(word)
	}
	return err
}

// MarshalJSON writes the word.
func (d duplicate) MarshalJSON() ([]byte, error) {
	for word, is := range duplicates {
		if is == tube.OnDuplicate(d) {
			return strconv.AppendQuote(nil, word), nil
		}
	}
	return []byte("null"), nil
}

// Schema implements huma.SchemaProvider.
func (duplicate) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{"keep", "replace", "fail"}, Description: "what happens if a job has the key; keep unless said"}
}

// jsonValue is any JSON value as it was written; nil: there is none.
type jsonValue []byte

// UnmarshalJSONFrom takes any value.
func (v *jsonValue) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	text, err := dec.ReadValue()
	*v = append([]byte(nil), text...)
	return err
}

// Schema implements huma.SchemaProvider.
func (jsonValue) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "a string is the body; of any other value its JSON is"}
}
