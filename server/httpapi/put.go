package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// rawPutInput documents a put.
type rawPutInput struct {
	TubePath
	Priority    uint32 `query:"priority" doc:"for a raw body, as are the others"`
	Delay       string `query:"delay"`
	At          int64  `query:"at"`
	TTR         string `query:"ttr"`
	Key         string `query:"key"`
	OnDuplicate string `query:"on_duplicate" enum:"keep,replace,fail"`
	KeyTTL      string `query:"key_ttl"`
	Retry       string `query:"retry" doc:"durations with commas"`
	Max         uint32 `query:"max"`
	Dead        string `query:"dead"`
	Body        newJob
}

// TubePath is the tube in a path.
type TubePath struct {
	Tube string `path:"tube" maxLength:"200" doc:"with / written as %2F"`
}

// putOutput documents the answer to a put.
type putOutput struct{ Body putAnswer }

// putAnswer is what has become of a put.
type putAnswer struct {
	ID        uint64 `json:"id" doc:"of the new job, or of that which has the key"`
	State     string `json:"state" enum:"ready,delayed,reserved,buried,gone" doc:"gone: that job is, but its key is taken still"`
	Duplicate bool   `json:"duplicate" doc:"nothing was put: a job has the key"`
}

// jsonLimit is the largest body that describes a job, in bytes: whatever needs more can be
// put raw.
func (d *Door) jsonLimit() int64 { return 2*int64(d.queue.MaxJobSize()) + 64<<10 }

func (d *Door) put(w http.ResponseWriter, r *http.Request) {
	op, err := d.readPut(w, r)
	if err == nil {
		err = checkPut(r.Context(), &op)
	}
	if err == nil {
		var answers []storage.Answer
		if answers, err = d.queue.Do(context.WithoutCancel(r.Context()), op); err == nil {
			err = putFailure(&answers[0])
			op.Answer = answers[0]
		}
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusCreated, append(appendPutAnswer([]byte{'{'}, &op), '}'))
}

// readPut returns the operation that a request asks for.
func (d *Door) readPut(w http.ResponseWriter, r *http.Request) (op storage.Op, err error) {
	name := r.PathValue("tube")
	if contentType(r) == jsonType {
		if r.URL.RawQuery != "" {
			return op, invalid("the query says how to put a raw body; with JSON, all is in the body")
		}
		err = readJSON(w, r, d.jsonLimit(), func(text []byte) error {
			op, err = parseJob(name, text)
			return err
		})
		return op, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return op, invalid("the query is broken: %v", err)
	}
	t, err := termsIn(query)
	if err != nil {
		return op, err
	}
	body, err := readBody(w, r, int64(d.queue.MaxJobSize()), nil)
	if err != nil {
		return op, err
	}
	return t.op(name, body)
}

// parseJob returns the operation that puts a job which JSON describes.
func parseJob(name string, text []byte) (storage.Op, error) {
	var j newJob
	if err := unmarshal(text, &j); err != nil {
		return storage.Op{}, err
	}
	return j.op(name)
}

// putFailure says why nothing was put, unless another job was kept.
func putFailure(a *storage.Answer) error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Result != nil && a.Result.Outcome == tube.PutDuplicate:
		p := newProblem(http.StatusConflict, "DUPLICATE", "the job %d has the key", a.ID)
		p.ID = a.ID
		return p
	}
	return nil
}

// appendPutAnswer writes the fields of a putAnswer.
func appendPutAnswer(b []byte, op *storage.Op) []byte {
	a := &op.Answer
	state, kept := stateOfPut(op), false
	if a.Result != nil && a.Result.Outcome != tube.PutNew {
		state, kept = stateWord(a.Result.State), true
	}
	b = append(b, `"id":`...)
	b = strconv.AppendUint(b, a.ID, 10)
	b = append(b, `,"state":"`...)
	b = append(b, state...)
	b = append(b, `","duplicate":`...)
	return strconv.AppendBool(b, kept)
}

// stateOfPut is the state that a job was put in. With a due time it is told by the clock of
// this machine, which may be a little off that of the store.
func stateOfPut(op *storage.Op) string {
	delayed := op.Delay > 0
	if op.Args != nil && op.Args.Tags.HasDelay {
		delayed = op.Args.Tags.Delay > 0
	}
	if op.Args != nil && op.Args.Tags.HasAt {
		delayed = op.Args.Tags.At > tube.Instant(time.Now().UnixNano())
	}
	if delayed {
		return tube.Delayed.String()
	}
	return tube.Ready.String()
}

// stateWord names a state.
func stateWord(s tube.State) string {
	if s == tube.Gone {
		return "gone"
	}
	return s.String()
}

// writeJSON answers with a document.
func writeJSON(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h["Content-Type"] = jsonTypes
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	w.WriteHeader(status)
	w.Write(text)
}

var jsonTypes = []string{jsonType}
