package ruffianjiang

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/server/gateway"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

// params are the parameters of a request: those of the URL's query, then those of the form.
type params struct{ query, form url.Values }

// maxFormMemory limits how much of a multipart form is kept in memory, in bytes. The whole
// body is limited too.
const maxFormMemory = 1 << 20

// readParams reads the parameters of a request.
func readParams(w http.ResponseWriter, r *http.Request, limit int64) (*params, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errors.New("the query cannot be read")
	}
	p := &params{query: query}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == "multipart/form-data" {
		err = r.ParseMultipartForm(maxFormMemory)
		if r.MultipartForm != nil {
			p.form = r.MultipartForm.Value
			defer r.MultipartForm.RemoveAll()
		}
	} else {
		err = r.ParseForm()
		p.form = r.PostForm
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, fmt.Errorf("the request has more than %d bytes", limit)
	case err != nil:
		return nil, errors.New("the form cannot be read")
	}
	return p, nil
}

// get returns a parameter, and whether it is there. Of several with the same name it is the
// first one, as in the old program for numbers and dates.
func (p *params) get(name string) (value string, ok bool) {
	all := p.all(name)
	if len(all) == 0 {
		return "", false
	}
	return strings.ToValidUTF8(all[0], "\uFFFD"), true
}

func (p *params) all(name string) []string { return slices.Concat(p.query[name], p.form[name]) }

// text returns a parameter that must be there. If there are several with the same name, they
// are joined with commas, as in the old program for texts.
func (p *params) text(name string) (string, error) {
	all := p.all(name)
	if len(all) == 0 {
		return "", missing("String", name)
	}
	return strings.ToValidUTF8(strings.Join(all, ","), "\uFFFD"), nil
}

// number returns a parameter that must be a 64-bit number.
func (p *params) number(name string) (int64, error) {
	v, ok := p.get(name)
	if v = strings.TrimSpace(v); !ok || v == "" {
		return 0, missing("Long", name)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, notANumber(v)
	}
	return n, nil
}

// legacyError is an error in the words of the old program.
type legacyError string

func (t legacyError) Error() string { return string(t) }

func missing(kind, name string) error {
	return legacyError("Required " + kind + " parameter '" + name + "' is not present")
}

// notANumber is the old program's error for a malformed number.
func notANumber(v string) error {
	return legacyError("Failed to convert value of type 'java.lang.String' to required type 'java.lang.Long'; " +
		"nested exception is java.lang.NumberFormatException: For input string: \"" + v + "\"")
}

// push has the parameters of a push.
type push struct {
	topic   string
	due     int64 // milliseconds since the Unix epoch
	ttr     uint32
	message string
	key     string // "": none
	tags    tube.Tags
}

// readPush reads the parameters of a push, in the order of the old program, and then the
// extensions.
func readPush(p *params, zone *time.Location) (*push, error) {
	topic, err := p.text("topic")
	if err != nil {
		return nil, err
	}
	when, ok := p.get("delayTime")
	if when = strings.TrimSpace(when); !ok || when == "" {
		return nil, missing("Long", "delayTime")
	}
	due, err := readDue(when, zone)
	if err != nil {
		return nil, err
	}
	ttr, err := p.number("ttrTime")
	if err != nil {
		return nil, err
	}
	message, err := p.text("message")
	switch {
	case err != nil:
		return nil, err
	case topic == "":
		return nil, errors.New("topic must not be empty")
	case ttr < 0 || ttr > 1<<32-1:
		return nil, errors.New("ttrTime is from 0 to 4294967295 seconds")
	}
	u := &push{topic: topic, due: due, ttr: uint32(ttr), message: message}
	return u, u.readExtensions(p)
}

// readExtensions reads the parameters that the old program did not have.
func (u *push) readExtensions(p *params) (err error) {
	u.key, _ = p.get("key")
	if word, ok := p.get("on-duplicate"); ok {
		what, ok := field.ParseOnDuplicate(word)
		if !ok {
			return errors.New("on-duplicate is keep, replace or fail")
		}
		u.tags.OnDuplicate = tube.OnDuplicate(what)
	}
	if list, ok := p.get("retry"); ok {
		if u.tags.Retry, err = readRetry(list); err != nil {
			return err
		}
	}
	if v, ok := p.get("max"); ok {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil || n == 0 || n > field.MaxDeliveries {
			return fmt.Errorf("max is from 1 to %d deliveries", field.MaxDeliveries)
		}
		u.tags.Max = uint32(n)
	}
	if dead, ok := p.get("dead"); ok {
		u.tags.Dead = gateway.Tube(dead)
	}
	return nil
}

// readRetry parses the waits after the failures of a job: durations separated by commas. In
// braces it is the list of a notification, {0,0,2m,10m}, of which the first element is never
// used and the second one is the wait before the first delivery, which delayTime says.
func readRetry(list string) ([]time.Duration, error) {
	inner, braces := strings.CutPrefix(list, "{")
	words := strings.Split(strings.TrimSuffix(inner, "}"), ",")
	if braces != strings.HasSuffix(list, "}") || braces && len(words) < 3 {
		return nil, errors.New("retry in braces is a list of at least three durations, such as {0,0,2m,10m}")
	}
	if braces {
		words = words[2:]
	}
	if len(words) > field.MaxRetry {
		return nil, fmt.Errorf("retry has at most %d durations", field.MaxRetry)
	}
	waits := make([]time.Duration, len(words))
	for i, word := range words {
		var ok bool
		if waits[i], ok = field.ParseDuration(strings.TrimSpace(word)); !ok {
			return nil, fmt.Errorf("retry: %q is no duration such as 10m", word)
		}
	}
	return waits, nil
}

const (
	maxWait  = 24 * time.Hour
	maxGroup = 1000
)

// readPop reads the parameters of a pop that the old program did not have. n is 0 if one job
// is wanted, and not a list.
func readPop(p *params) (n int, wait time.Duration, err error) {
	if v, ok := p.get("n"); ok {
		if n, err = strconv.Atoi(v); err != nil || n < 1 || n > maxGroup {
			return 0, 0, fmt.Errorf("n is from 1 to %d jobs", maxGroup)
		}
	}
	if v, ok := p.get("wait"); ok {
		var ok bool
		if wait, ok = field.ParseDuration(v); !ok {
			return 0, 0, fmt.Errorf("wait: %q is no duration such as 30s", v)
		}
	}
	return n, min(wait, maxWait, storage.Forever), nil
}
