package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"redstalk/protocol"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/tube"
)

const (
	// maxWait is how long a reserve may wait.
	maxWait = time.Hour

	// maxTubes is how many tubes a request may name.
	maxTubes = 1000
)

// reserveInput documents a reserve.
type reserveInput struct {
	Tube []string `query:"tube,explode" doc:"where to look; default unless said" maxItems:"1000"`
	Wait string   `query:"wait" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"how long to wait for the first job, at most an hour" example:"30s"`
	N    int      `query:"n" minimum:"1" maximum:"1000" default:"1" doc:"how many jobs at most"`
}

// reserveOutput documents the answer to a reserve.
type reserveOutput struct{ Body []leasedJob }

// leasedJob is a job that was reserved.
type leasedJob struct {
	ID         uint64 `json:"id"`
	Lease      string `json:"lease" doc:"what finishes, releases, buries and touches the job"`
	Tube       string `json:"tube"`
	Body       string `json:"body,omitempty" doc:"if it is UTF-8"`
	Base64     string `json:"body_base64,omitempty" doc:"if it is not" format:"base64"`
	Priority   uint32 `json:"priority"`
	TTR        uint32 `json:"ttr" doc:"seconds"`
	TimeLeft   int64  `json:"time_left_ms" doc:"until the lease ends"`
	Age        int64  `json:"age" doc:"seconds since the put"`
	Deliveries uint32 `json:"deliveries" doc:"this one included"`
	Failures   uint32 `json:"failures"`
	Key        string `json:"key,omitempty"`
}

// reserving is what a reserve asks for.
type reserving struct {
	tubes []string
	wait  time.Duration
	n     int
}

func (d *Door) reserve(w http.ResponseWriter, r *http.Request) {
	asked, err := readReserve(r)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if asked.wait > 0 {
		if err := readRest(r); err != nil {
			d.fail(w, r, err)
			return
		}
		who := ""
		if d.config.Access != nil {
			who = d.clientOf(r)
		}
		if !d.waiting.take(who) {
			d.fail(w, r, tooMany("too many requests wait for jobs already"))
			return
		}
		defer d.waiting.leave(who)
	}
	jobs, err := d.reserveJobs(r, asked)
	switch {
	case errors.Is(err, queue.ErrTimedOut), errors.Is(err, queue.ErrDeadlineSoon), errors.Is(err, httpserve.ErrEnding), errors.Is(err, errChanged):
		w.WriteHeader(http.StatusNoContent)
		return
	case err != nil:
		d.fail(w, r, err)
		return
	case r.Context().Err() != nil: // the client is gone
		d.queue.GiveBackLeases(jobs)
		return
	}
	d.answerLeased(w, jobs)
}

// reserveJobs reserves until the client is gone, or the door ends: then with the error
// serving.ErrEnding.
func (d *Door) reserveJobs(r *http.Request, asked reserving) ([]queue.Leased, error) {
	if asked.wait == 0 {
		return d.queue.ReserveLeases(context.WithoutCancel(r.Context()), asked.tubes, asked.n, 0)
	}
	present, cancel := httpserve.UntilEnding(r)
	defer cancel()
	ctx, end := untilChange(present)
	defer end()
	jobs, err := d.queue.ReserveLeases(ctx, asked.tubes, asked.n, asked.wait)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return jobs, err
}

// answerLeased answers with jobs. What cannot be written is given back.
func (d *Door) answerLeased(w http.ResponseWriter, jobs []queue.Leased) {
	size := 2
	for i := range jobs {
		size += len(jobs[i].Body) + 256
	}
	b := append(make([]byte, 0, size), '[')
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLeased(b, &jobs[i])
		jobs[i].Body = nil // b is enough for a client that reads slowly
	}
	b = append(b, ']')
	h := w.Header()
	h["Content-Type"] = jsonTypes
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(b); err != nil {
		d.queue.GiveBackLeases(jobs)
	}
}

// appendLeased writes a leasedJob.
func appendLeased(b []byte, j *queue.Leased) []byte {
	s := j.Stats
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, j.ID, 10)
	b = append(b, `,"lease":"`...)
	b = strconv.AppendUint(b, j.Lease, 10)
	b = append(b, `","tube":"`...)
	b = append(b, s.Tube...) // has only bytes that need no quoting
	b = append(b, '"', ',')
	b = appendBody(b, j.Body)
	b = append(b, `,"priority":`...)
	b = strconv.AppendUint(b, uint64(s.Pri), 10)
	b = append(b, `,"ttr":`...)
	b = strconv.AppendUint(b, uint64(s.TTR), 10)
	b = append(b, `,"time_left_ms":`...)
	b = strconv.AppendInt(b, int64(s.TimeLeft/time.Millisecond), 10)
	b = append(b, `,"age":`...)
	b = strconv.AppendInt(b, int64(s.Age/time.Second), 10)
	b = append(b, `,"deliveries":`...)
	metadata := metadataOf(s)
	b = strconv.AppendUint(b, uint64(metadata.Deliveries(&s.Counters)), 10)
	b = append(b, `,"failures":`...)
	b = strconv.AppendUint(b, uint64(metadata.Failures(&s.Counters)), 10)
	if metadata.Key != "" {
		b = append(b, `,"key":`...)
		b, _ = jsontext.AppendQuote(b, metadata.Key) // printable ASCII
	}
	return append(b, '}')
}

// factsOf returns the facts of a job, which are none if it has none.
func metadataOf(s *tube.JobStats) *tube.Metadata {
	if s.Metadata == nil {
		return new(tube.Metadata)
	}
	return s.Metadata
}

// appendBody writes a body as the member body, or body_base64 if it is not UTF-8.
func appendBody(b, body []byte) []byte {
	begin := len(b)
	quoted, err := jsontext.AppendQuote(append(b, `"body":`...), body)
	if err == nil {
		return quoted
	}
	b = append(b[:begin], `"body_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, body)
	return append(b, '"')
}

// readReserve reads the query of a reserve, which has only parameters that there are.
func readReserve(r *http.Request) (asked reserving, err error) {
	asked.n = 1
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return asked, invalid("the query is broken: %v", err)
	}
	if asked.tubes, err = tubesIn(query); err != nil {
		return asked, err
	}
	if len(asked.tubes) == 0 {
		asked.tubes = []string{tube.Default}
	}
	if query.Has("wait") {
		wait, err := parseDuration(query.Get("wait"))
		if err != nil {
			return asked, invalid("wait: %v", err)
		}
		if asked.wait = time.Duration(wait); asked.wait > maxWait {
			return asked, invalid("wait: it may be an hour at most")
		}
	}
	if query.Has("n") {
		if asked.n, err = strconv.Atoi(query.Get("n")); err != nil || asked.n < 1 || asked.n > maxBatch {
			return asked, invalid("n: it has to be from 1 to %d", maxBatch)
		}
	}
	return asked, nil
}

// tubesIn returns the tubes that a query names.
func tubesIn(query url.Values) ([]string, error) {
	names := query["tube"]
	if len(names) > maxTubes {
		return nil, invalid("tube: there are %d; a request may name %d", len(names), maxTubes)
	}
	for _, name := range names {
		if !protocol.ValidName([]byte(name)) {
			return nil, invalidTube("tube", name)
		}
	}
	return names, nil
}

// tooMany is the problem that there is no room for another request of this kind now.
func tooMany(format string, args ...any) *problem {
	p := newProblem(http.StatusTooManyRequests, wordTooMany, format, args...)
	p.RetryAfter = retryAfter
	return p
}
