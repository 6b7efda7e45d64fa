package httpapi

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/tube"

	"github.com/danielgtaylor/huma/v2"
)

// putInput documents a put; its query parameters, for requests that are not JSON, are the options of Terms.
type putInput struct {
	TubePath
	Wait string `query:"wait" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"how long to wait for the end of the job, at most an hour; needs the right to read, too. Without keep, that is a minute" example:"30s"`
	Body newJob
}

// termsInQuery documents the query parameters of a put.
func termsInQuery(registry huma.Registry) (all []*huma.Param) {
	for _, name := range slices.Sorted(maps.Keys(termFields)) {
		schema := huma.SchemaFromField(registry, termFields[name], "")
		schema.Nullable = false
		p := &huma.Param{Name: name, In: "query", Description: schema.Description, Schema: schema}
		switch name {
		case "meta":
			explode := true
			p.Schema, p.Explode = &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}, &explode
			p.Description = "NAME=VALUE, any number of times"
		case "retry":
			p.Schema, p.Description = &huma.Schema{Type: huma.TypeString}, "durations separated by commas, or exp(FIRST,LONGEST,COUNT)"
		}
		all = append(all, p)
	}
	return all
}

// putOutput documents the answer to a put.
type putOutput struct{ Body putAnswer }

// putAnswer is the result of a put.
type putAnswer struct {
	ID        uint64 `json:"id" doc:"of the new job, or of the job that has the key"`
	State     string `json:"state" enum:"ready,delayed,reserved,buried,gone" doc:"gone: the job with the key is gone, but its key is still taken"`
	Duplicate bool   `json:"duplicate" doc:"true if nothing was put because a job has the key"`
}

// jsonLimit is the largest request body that describes a job in JSON, in bytes. A job whose
// JSON is larger can be put raw.
func (svc *service) jsonLimit() int64 { return 2*int64(svc.queue.MaxJobSize()) + 64<<10 }

func (svc *service) put(w http.ResponseWriter, r *http.Request) {
	op, wait, err := svc.readPut(w, r)
	if err == nil && wait > 0 {
		var release func()
		if release, err = svc.prepareWait(r, &op, wait); err == nil {
			defer release()
		}
	}
	if err == nil {
		err = checkPut(r.Context(), &op)
	}
	if err == nil {
		var answers []storage.Answer
		if answers, err = svc.queue.Do(context.WithoutCancel(r.Context()), op); err == nil {
			err = putFailure(&answers[0])
			op.Answer = answers[0]
		}
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	svc.answerPut(w, r, &op, wait)
}

// readPut parses a put, and how long it waits for the end of the job.
func (svc *service) readPut(w http.ResponseWriter, r *http.Request) (op storage.Op, wait time.Duration, err error) {
	name := r.PathValue("tube")
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return op, 0, invalid("the query cannot be parsed: %v", err)
	}
	if wait, err = waitIn(query); err != nil {
		return op, 0, err
	}
	delete(query, "wait")
	if contentType(r) == jsonType {
		if len(query) > 0 {
			return op, 0, invalid("query parameters are for raw bodies; with JSON, set the options in the body")
		}
		err = readJSON(w, r, svc.jsonLimit(), func(text []byte) error {
			op, err = parseJob(name, text)
			return err
		})
		return op, wait, err
	}
	t, err := parseTerms(query)
	if err != nil {
		return op, 0, err
	}
	body, err := readBody(w, r, int64(svc.queue.MaxJobSize()), nil)
	if err != nil {
		return op, 0, err
	}
	op, err = t.op(name, body)
	return op, wait, err
}

// parseJob parses the JSON description of a job to put.
func parseJob(name string, text []byte) (storage.Op, error) {
	var j newJob
	if err := unmarshal(text, &j); err != nil {
		return storage.Op{}, err
	}
	return j.op(name)
}

// appendPutAnswer appends the fields of a putAnswer.
func appendPutAnswer(b []byte, op *storage.Op) []byte {
	a := &op.Answer
	state, duplicate := stateWord(stateOfPut(op)), a.Outcome != tube.PutNew
	b = append(b, `"id":`...)
	b = strconv.AppendUint(b, a.ID, 10)
	b = append(b, `,"state":"`...)
	b = append(b, state...)
	b = append(b, `","duplicate":`...)
	return strconv.AppendBool(b, duplicate)
}

// stateOfPut returns the state of the job in the answer to a put.
func stateOfPut(op *storage.Op) tube.State {
	switch {
	case op.Args != nil:
		return op.Answer.State
	case op.Delay > 0:
		return tube.Delayed
	}
	return tube.Ready
}

// stateWord returns the name of a state in JSON.
func stateWord(s tube.State) string {
	if s == tube.Gone {
		return "gone"
	}
	return s.String()
}
