package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
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

// maxWait is the longest wait of a reserve.
const maxWait = time.Hour

// reserveInput documents a reserve.
type reserveInput struct {
	Tube []string `query:"tube,explode" doc:"the tubes to reserve from; the default is the tube default" maxItems:"1000"`
	Wait string   `query:"wait" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"how long to wait for the first job, at most an hour" example:"30s"`
	N    int      `query:"n" minimum:"1" maximum:"1000" default:"1" doc:"the maximum number of jobs"`
}

// reserveOutput documents the answer to a reserve.
type reserveOutput struct{ Body []leasedJob }

// leasedJob is a job that was reserved with a lease.
type leasedJob struct {
	ID         uint64 `json:"id"`
	Lease      string `json:"lease" doc:"the token to delete, release, bury or touch the job"`
	Tube       string `json:"tube"`
	Body       string `json:"body,omitempty" doc:"if it is UTF-8"`
	Base64     string `json:"body_base64,omitempty" doc:"if it is not" format:"base64"`
	Priority   uint32 `json:"priority"`
	TTR        uint32 `json:"ttr" doc:"seconds"`
	TimeLeft   int64  `json:"time_left_ms" doc:"time until the lease ends"`
	Age        int64  `json:"age" doc:"seconds since the put"`
	Deliveries uint32 `json:"deliveries" doc:"including this one"`
	Failures   uint32 `json:"failures"`
	Key        string `json:"key,omitempty"`
	Group      string `json:"group,omitempty"`

	CheckpointBytes int    `json:"checkpoint_bytes,omitempty" doc:"size of the checkpoint that a delivery before has saved"`
	Checkpoint      string `json:"checkpoint,omitempty" doc:"it; missing if the answer would be too large, or the store could not read it at that moment: then get it before you begin" format:"base64"`

	Retry []duration `json:"retry,omitempty" nullable:"false"`
	NotesInfo
}

// reserveRequest has the parameters of a reserve.
type reserveRequest struct {
	tubes []string
	wait  time.Duration
	n     int
}

func (svc *service) reserve(w http.ResponseWriter, r *http.Request) {
	request, err := readReserve(r)
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	waiting := r
	if request.wait > 0 {
		if err := readRest(r); err != nil {
			svc.fail(w, r, err)
			return
		}
		client := ""
		if svc.access != nil {
			client = svc.clientOf(r)
		}
		if !svc.waiting.Acquire(client) {
			svc.fail(w, r, tooMany("too many requests are waiting for jobs"))
			return
		}
		defer svc.waiting.Release(client)
		closable, end := svc.reserves.add(svc.queue.NewHolder(), r, request.tubes)
		defer end()
		waiting = closable
	}
	jobs, err := svc.reserveJobs(waiting, request)
	switch {
	case errors.Is(err, errWaitClosed), errors.Is(err, queue.ErrTimedOut), errors.Is(err, queue.ErrDeadlineSoon), errors.Is(err, httpserve.ErrEnding), errors.Is(err, errACLChanged):
		w.WriteHeader(http.StatusNoContent)
		return
	case err != nil:
		svc.fail(w, r, err)
		return
	case r.Context().Err() != nil: // the client has disconnected
		svc.queue.GiveBackLeases(jobs)
		return
	}
	svc.writeLeased(w, jobs)
}

// reserveJobs reserves jobs until the client disconnects or the server shuts down. The error is
// then httpserve.ErrEnding.
func (svc *service) reserveJobs(r *http.Request, request reserveRequest) ([]queue.Leased, error) {
	if request.wait == 0 {
		return svc.queue.ReserveLeases(context.WithoutCancel(r.Context()), request.tubes, request.n, 0)
	}
	present, cancel := httpserve.UntilEnding(r)
	defer cancel()
	ctx, end := untilACLChange(present)
	defer end()
	jobs, err := svc.queue.ReserveLeases(ctx, request.tubes, request.n, request.wait)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return jobs, err
}

// writeLeased answers with jobs. If the answer cannot be written, the jobs are given back.
func (svc *service) writeLeased(w http.ResponseWriter, jobs []queue.Leased) {
	size := 2
	for i := range jobs {
		size += len(jobs[i].Body) + 256 + base64.StdEncoding.EncodedLen(len(jobs[i].Checkpoint))
	}
	b := append(make([]byte, 0, size), '[')
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLeased(b, &jobs[i])
		jobs[i].Body, jobs[i].Checkpoint = nil, nil // b has copies; a slow client should not hold both in memory
	}
	b = append(b, ']')
	h := w.Header()
	h["Content-Type"] = jsonTypes
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(b); err != nil {
		svc.queue.GiveBackLeases(jobs)
	}
}

// appendLeased appends a leasedJob.
func appendLeased(b []byte, j *queue.Leased) []byte {
	s := j.Stats
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, j.ID, 10)
	b = append(b, `,"lease":"`...)
	b = protocol.AppendLease(b, j.Lease)
	b = append(b, `","tube":"`...)
	b = append(b, s.Tube...) // tube names need no quoting
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
	if metadata.Group != "" {
		b = append(b, `,"group":`...)
		b, _ = jsontext.AppendQuote(b, metadata.Group) // valid UTF-8
	}
	if size := metadata.CheckpointSize(); size > 0 {
		b = strconv.AppendInt(append(b, `,"checkpoint_bytes":`...), int64(size), 10)
	}
	if len(j.Checkpoint) > 0 {
		b = append(b, `,"checkpoint":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, j.Checkpoint), '"')
	}
	return append(appendNotes(b, s), '}')
}

// appendNotes appends the members of a leasedJob that most jobs do not have.
func appendNotes(b []byte, s *tube.JobStats) []byte {
	rest := struct {
		Retry retries `json:"retry,omitzero"`
		NotesInfo
	}{Retry: retriesOf(&s.Rules), NotesInfo: notesOf(s.Metadata)}
	if rest.Retry.IsZero() && rest.Schedule == "" && s.Metadata.AllNotes() == (*tube.Metadata)(nil).AllNotes() {
		return b
	}
	text, err := json.Marshal(rest)
	if err != nil || len(text) < 3 {
		return b
	}
	return append(append(b, ','), text[1:len(text)-1]...)
}

// appendBody appends a body as the member body, or as body_base64 if it is not UTF-8.
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

// readReserve parses the query of a reserve. row.checkQuery has refused unknown parameters.
func readReserve(r *http.Request) (request reserveRequest, err error) {
	request.n = 1
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return request, invalid("the query cannot be parsed: %v", err)
	}
	if request.tubes, err = tubesIn(query); err != nil {
		return request, err
	}
	if len(request.tubes) == 0 {
		request.tubes = []string{tube.Default}
	}
	if query.Has("wait") {
		wait, err := parseDuration(query.Get("wait"))
		if err != nil {
			return request, invalid("wait: %v", err)
		}
		if request.wait = time.Duration(wait); request.wait > maxWait {
			return request, invalid("wait: it must be at most an hour")
		}
	}
	if query.Has("n") {
		if request.n, err = strconv.Atoi(query.Get("n")); err != nil || request.n < 1 || request.n > maxBatch {
			return request, invalid("n: it must be from 1 to %d", maxBatch)
		}
	}
	return request, nil
}
