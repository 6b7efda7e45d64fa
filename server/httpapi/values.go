package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"redstalk/protocol"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file has the values that several operations have in their paths, queries and bodies.

// maxBatch is the maximum number of jobs in a request.
const maxBatch = 1000

// TubePath is the tube in a path.
type TubePath struct {
	Tube string `path:"tube" maxLength:"200" doc:"write / as %2F"`
}

// JobPath is the job in a path.
type JobPath struct {
	ID uint64 `path:"id"`
}

// noOutput documents an answer without a body.
type noOutput struct{}

// readID returns the job id in a path.
func readID(r *http.Request) (uint64, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, invalid("id: %q is not a job id", r.PathValue("id"))
	}
	return id, nil
}

// maxTubes is the maximum number of tubes in a request.
const maxTubes = 1000

// tubesIn returns the tubes in a query.
func tubesIn(query url.Values) ([]string, error) {
	names := query["tube"]
	if len(names) > maxTubes {
		return nil, invalid("tube: there are %d; the limit is %d per request", len(names), maxTubes)
	}
	for _, name := range names {
		if !protocol.ValidName([]byte(name)) {
			return nil, invalidTube("tube", name)
		}
	}
	return names, nil
}

// invalidTube returns the problem for a parameter that is not a tube name.
func invalidTube(parameter, name string) *problem {
	return invalid("%s: "+notTube, parameter, name, protocol.MaxName)
}

// notTube says of a word that it is not a tube name, whose longest length follows.
const notTube = "%q is not a tube name: 1 to %d letters, digits and -+/;.$_(), not starting with -"

// stateNames maps the values of the parameter state to states.
var stateNames = map[string]tube.State{"": tube.Gone, "ready": tube.Ready, "reserved": tube.Reserved, "delayed": tube.Delayed, "buried": tube.Buried}

func parseUint32(word string) (uint32, error) {
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", word, uint32(math.MaxUint32))
	}
	return uint32(n), nil
}

func parseUint64(word string) (uint64, error) { return strconv.ParseUint(word, 10, 64) }

func parsePercent(word string) (uint8, error) {
	n, err := strconv.ParseUint(word, 10, 8)
	if err != nil || n > 100 {
		return 0, fmt.Errorf("%q is not a number from 0 to 100", word)
	}
	return uint8(n), nil
}

// parseTime parses a time in milliseconds since the Unix epoch.
func parseTime(word string) (int64, error) {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time: a whole number of milliseconds since the Unix epoch, such as 1767225600000", word)
	}
	return n, nil
}

// parseSeconds parses a duration of whole seconds, for fields that the beanstalk protocol has
// in seconds only.
func parseSeconds(name, word string) (uint32, error) {
	d, ok := field.ParseDuration(word)
	if !ok || d%time.Second != 0 || d/time.Second > math.MaxUint32 {
		return 0, invalid("%s: %q is not a duration in whole seconds", name, word)
	}
	return uint32(d / time.Second), nil
}

// duration is a time.Duration that is written with a unit, or in seconds without one.
type duration time.Duration

func parseDuration(word string) (duration, error) {
	d, ok := field.ParseDuration(word)
	if !ok {
		return 0, fmt.Errorf("%q is not a duration: a whole number of seconds, or one with the unit ms, s, m, h or d; at most ten years", word)
	}
	return duration(d), nil
}

// UnmarshalJSONFrom decodes a string, or a number of seconds.
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

// MarshalJSON encodes the duration as a whole number of the largest possible unit.
func (d duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, field.Durations(time.Duration(d))), nil
}

// Schema implements huma.SchemaProvider.
func (duration) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Pattern: durationPattern}, {Type: huma.TypeInteger, Minimum: &zero}},
		Description: "a whole number with a unit (ms, s, m, h, d), or a number of seconds; at most ten years",
		Examples:    []any{"90s"},
	}
}

const durationPattern = "^[0-9]+(ms|s|m|h|d)?$"

// retries are the waits after failures: an array of durations, or exp(FIRST,LONGEST,COUNT).
type retries struct {
	waits   []time.Duration
	doubled uint8 // see tube.Rules
}

// retriesOf returns the waits of rules.
func retriesOf(r *tube.Rules) retries { return retries{r.Retry, r.Doubled} }

// IsZero reports whether there are no waits.
func (r retries) IsZero() bool { return len(r.waits) == 0 }

func parseRetries(word string) (r retries, err error) {
	var ok bool
	if r.waits, r.doubled, ok = field.ParseRetry([]byte(word)); !ok {
		return r, fmt.Errorf("%q is not 1 to %d durations, or exp(FIRST,LONGEST,COUNT)", word, field.MaxRetry)
	}
	return r, nil
}

// UnmarshalJSONFrom decodes an array of durations, or a string.
func (r *retries) UnmarshalJSONFrom(dec *jsontext.Decoder) (err error) {
	if dec.PeekKind() == '"' {
		var word string
		if err = strict.UnmarshalDecode(dec, &word); err == nil {
			*r, err = parseRetries(word)
		}
		return err
	}
	var list []duration
	if err = strict.UnmarshalDecode(dec, &list); err != nil {
		return err
	}
	if len(list) == 0 || len(list) > field.MaxRetry {
		return fmt.Errorf("there must be 1 to %d durations", field.MaxRetry)
	}
	for _, wait := range list {
		r.waits = append(r.waits, time.Duration(wait))
	}
	return nil
}

// MarshalJSON encodes an array of durations, or exp(FIRST,LONGEST,COUNT).
func (r retries) MarshalJSON() ([]byte, error) {
	if r.doubled > 0 {
		return strconv.AppendQuote(nil, field.RetryText(r.waits, r.doubled)), nil
	}
	list := make([]duration, len(r.waits))
	for i, wait := range r.waits {
		list[i] = duration(wait)
	}
	return strict.Marshal(list)
}

// Schema implements huma.SchemaProvider.
func (retries) Schema(registry huma.Registry) *huma.Schema {
	least, most := 1, field.MaxRetry
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeArray, Items: duration(0).Schema(registry), MinItems: &least, MaxItems: &most},
			{Type: huma.TypeString, Pattern: `^exp\([^,()]+,[^,()]+,[0-9]+\)$`},
		},
		Description: "the delays after the first, second, … failure; or exp(FIRST,LONGEST,COUNT): the delay doubles from FIRST up to LONGEST, COUNT times",
		Examples:    []any{"exp(10s,1h,25)"},
	}
}

// duplicate is a tube.OnDuplicate in JSON: what to do if a job already has the key of a put.
type duplicate tube.OnDuplicate

func parseDuplicate(word string) (duplicate, error) {
	d, known := field.ParseOnDuplicate(word)
	if !known {
		return 0, fmt.Errorf("%q is not keep, replace or fail", word)
	}
	return duplicate(d), nil
}

// UnmarshalJSONFrom decodes keep, replace or fail.
func (d *duplicate) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var word string
	err := strict.UnmarshalDecode(dec, &word)
	if err == nil {
		*d, err = parseDuplicate(word)
	}
	return err
}

// MarshalJSON encodes keep, replace or fail.
func (d duplicate) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, field.OnDuplicateWords[d]), nil
}

// Schema implements huma.SchemaProvider.
func (duplicate) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: "what to do if a job already has the key; the default is keep"}
	for _, word := range field.OnDuplicateWords[1:] {
		s.Enum = append(s.Enum, word)
	}
	return s
}

// jsonValue is the text of any JSON value. It is nil if there is none.
type jsonValue []byte

// UnmarshalJSONFrom copies the text of any value.
func (v *jsonValue) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	text, err := dec.ReadValue()
	*v = append([]byte(nil), text...)
	return err
}

// Schema implements huma.SchemaProvider.
func (jsonValue) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "a string is the body itself; of any other value the JSON text is the body"}
}
