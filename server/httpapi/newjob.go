package httpapi

import (
	"math"
	"net/url"
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
	var body []byte
	switch {
	case j.Body != nil && j.Base64 != nil:
		return storage.Op{}, invalid("body_base64: there is already a body")
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

// Terms are the options of a put.
type Terms struct {
	Priority    *uint32    `json:"priority,omitempty" doc:"0 is the most urgent; the default is 1024"`
	Delay       *duration  `json:"delay,omitempty" doc:"time until the job is ready"`
	At          *int64     `json:"at,omitempty" doc:"when the job becomes ready, in milliseconds since the Unix epoch; instead of delay" minimum:"0" maximum:"9223372036853"`
	TTR         *duration  `json:"ttr,omitempty" doc:"time to run (visibility timeout), in whole seconds; the default is 60"`
	Key         *string    `json:"key,omitempty" doc:"deduplication key: at most one job of a tube has it" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
	OnDuplicate *duplicate `json:"on_duplicate,omitempty" doc:"what to do if a job already has the key"`
	KeyTTL      *duration  `json:"key_ttl,omitempty" doc:"how long the key stays taken after the job is gone"`
	Retry       []duration `json:"retry,omitempty" doc:"the delays after the first, second, … failure" maxItems:"32"`
	Max         *uint32    `json:"max,omitempty" doc:"the maximum number of deliveries" minimum:"1" maximum:"1000000"`
	Dead        *string    `json:"dead,omitempty" doc:"the dead-letter tube of the job; without it an exhausted job is buried" minLength:"1" maxLength:"200"`
}

// op returns the operation that puts a job with this body.
func (t *Terms) op(name string, body []byte) (storage.Op, error) {
	if body == nil {
		body = []byte{}
	}
	op := storage.Op{Kind: storage.Put, Tube: name, Pri: defaultPriority, TTR: defaultTTR, Body: body}
	if t.Priority != nil {
		op.Pri = *t.Priority
	}
	if t.TTR != nil {
		seconds := time.Duration(*t.TTR) / time.Second
		if seconds*time.Second != time.Duration(*t.TTR) || seconds < tube.MinTTR || seconds > math.MaxUint32 {
			return op, invalid("ttr: it must be a whole number of seconds, at least 1")
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
	if t.hasTags() || tags.HasDelay {
		op.Args = &storage.Args{Tags: tags}
	}
	return op, nil
}

// hasTags reports whether there is an option besides priority, delay and TTR.
func (t *Terms) hasTags() bool {
	return t.At != nil || t.Key != nil || t.OnDuplicate != nil || t.KeyTTL != nil || t.Retry != nil || t.Max != nil || t.Dead != nil
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

// rulesOf returns the rules for retries, dead letters and keys. A nil argument is one that is
// not set.
func rulesOf(retry []duration, most *uint32, dead *string, keyTTL *duration) (r tube.Rules, err error) {
	if retry != nil {
		if len(retry) == 0 || len(retry) > protocol.MaxRetry {
			return r, invalid("retry: it must have 1 to %d durations", protocol.MaxRetry)
		}
		for _, wait := range retry {
			r.Retry = append(r.Retry, time.Duration(wait))
		}
	}
	if most != nil {
		if *most < 1 || *most > protocol.MaxDeliveries {
			return r, invalid("max: it must be from 1 to %d", protocol.MaxDeliveries)
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

// validKey reports whether key is a valid deduplication key.
func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= protocol.MaxKey
}

func invalidKey(key string) *problem {
	return invalid("key: %q is not a key: 1 to %d printable ASCII characters without spaces", key, protocol.MaxKey)
}

// parseTerms returns the options in the query of a put whose request body is the job body.
func parseTerms(query url.Values) (*Terms, error) {
	t := new(Terms)
	for name, values := range query {
		if err := t.set(name, values[0]); err != nil {
			return nil, invalid("%s: %v", name, err)
		}
	}
	return t, nil
}

// set sets an option to the value of a query parameter.
func (t *Terms) set(name, value string) (err error) {
	switch name {
	case "priority":
		t.Priority, err = parsed(value, parseUint32)
	case "delay":
		t.Delay, err = parsed(value, parseDuration)
	case "at":
		t.At, err = parsed(value, parseTime)
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

// parsed returns a pointer to the parsed word.
func parsed[T any](word string, parse func(string) (T, error)) (*T, error) {
	v, err := parse(word)
	return &v, err
}
