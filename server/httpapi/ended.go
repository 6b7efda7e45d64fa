package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file has the operations about the ends of jobs: results, records, and waiting for them.

func (svc *service) endedOperations() []*row {
	result := direct[resultInput, resultOutput](svc, Operation{"GET", "/v1/jobs/{id}/result", rightOf(protocol.StatsEnded), OfJob}, doc("result", "Get what has become of a job, with its result", 200,
		"Waits until the job has ended, or is parked. The result needs the right read."), svc.result)
	result.ofRecord, result.extraStatuses, result.noBody = true, []int{409, 429}, "the job has not ended within the wait"
	finish := direct[finishWithInput, noOutput](svc, Operation{"POST", "/v1/jobs/{id}/finish", rightOf(protocol.FinishLease), OfJob}, doc("finishWithResult", "Finish a leased job with a result", 204,
		"With the content type application/json the request body has the result. With any other content type it is the result."), svc.finishWithResult)
	finish.anyBody, finish.extraStatuses = true, []int{409, 413}
	finish.extraBodies = rawBody()
	ended := typed(svc, Operation{"GET", "/v1/tubes/{tube}/ended", rightOf(protocol.ListEnded), InPath}, doc("ended", "List the records of the ended jobs of a tube", 200,
		"The newest first. With a filter, a request examines a part of the records; the answer has the cursor for the next part."), svc.ended)
	results := typed(svc, Operation{"GET", "/v1/batches/{batch}/results", rightOf(protocol.ListEnded), OfBatch}, doc("results", "List the records of the ended members of a batch", 200,
		"As those of a tube, without those of tubes whose jobs the user may not list."), svc.results)
	ended.extraStatuses, results.extraStatuses = []int{429}, []int{429}
	return []*row{result, finish, ended, results}
}

// EndedInfo is the record of a job that has ended, or says that a job is parked.
type EndedInfo struct {
	ID         uint64            `json:"id"`
	Tube       string            `json:"tube"`
	How        string            `json:"how" enum:"done,deleted,expired,dead,moved,parked" doc:"parked: it has not ended, but does not go on by itself"`
	Key        string            `json:"key,omitempty"`
	Group      string            `json:"group,omitempty"`
	Batch      string            `json:"batch,omitempty"`
	Schedule   string            `json:"schedule,omitempty"`
	Nominal    int64             `json:"nominal_ms,omitempty" doc:"the time of the schedule; as all times here in milliseconds since the Unix epoch"`
	Put        int64             `json:"put_ms,omitempty" doc:"when it was put"`
	Started    int64             `json:"first_start_ms,omitempty" doc:"when its first delivery began, if that was its last"`
	At         int64             `json:"ended_ms,omitempty" doc:"when it ended"`
	Until      int64             `json:"until_ms,omitempty" doc:"until when the record is kept"`
	Deliveries uint32            `json:"deliveries"`
	Failures   uint32            `json:"failures"`
	Holder     string            `json:"holder,omitempty" doc:"the name of the connection or of the user that held it"`
	Reason     string            `json:"reason,omitempty" doc:"why it failed the last time that a reason was given; of a parked job, why it is parked"`
	ToTube     string            `json:"to_tube,omitempty" doc:"of one that is dead or moved: the tube where it is another job"`
	ToID       uint64            `json:"to_id,omitempty"`
	Meta       map[string]string `json:"meta,omitempty"`
	Bytes      int               `json:"result_bytes" doc:"length of the result"`
	Result     *string           `json:"result,omitempty" doc:"of one that is done: its result, if it is UTF-8"`
	Base64     string            `json:"result_base64,omitempty" doc:"if it is not" format:"base64"`
	Hidden     bool              `json:"hidden,omitempty" doc:"the user lacks the right read, so meta, reason and result are left out"`
}

// endedInfoOf describes the record of a job for the user of a request.
func endedInfoOf(ctx context.Context, record *tube.Ended) EndedInfo {
	view := access.SightIn(ctx, record.Tube)
	e := view.Ended(record)
	info := EndedInfo{
		ID: e.ID, Tube: e.Tube, How: e.How.String(), Key: e.Key, Group: e.Group, Batch: e.Batch,
		Put: msOf(e.Put), Started: msOf(e.Started), At: msOf(e.At), Until: msOf(e.Until), Deliveries: e.Deliveries, Failures: e.Failures,
		Holder: e.Holder, Reason: e.Reason, ToTube: e.ToTube, ToID: e.ToID, Bytes: len(e.Result),
	}
	notes := notesOf(&tube.Metadata{Notes: &tube.Notes{Meta: e.Meta}, Occurrence: e.Occurrence})
	info.Meta, info.Schedule, info.Nominal = notes.Meta, notes.Schedule, notes.Nominal
	if info.Hidden = !view.SeesContent(); info.Hidden {
		info.Bytes = len(record.Result)
	} else if e.How == tube.Done {
		info.Result, info.Base64 = textOrBase64(e.Result)
	}
	return info
}

// resultInput documents a question for a result.
type resultInput struct {
	JobPath
	Wait string `query:"wait" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"how long to wait for the end of the job, at most an hour" example:"30s"`
}

// resultOutput documents the answer.
type resultOutput struct{ Body EndedInfo }

func (svc *service) result(w http.ResponseWriter, r *http.Request) {
	id, err := readID(r)
	var wait time.Duration
	if err == nil {
		wait, err = waitIn(r.URL.Query())
	}
	if err == nil && wait > 0 {
		err = readRest(r)
	}
	var e *tube.Ended
	if err == nil {
		var release func()
		if release, err = svc.admitWait(r, wait); err == nil {
			defer release()
			e, err = svc.awaitEnd(r, id, wait)
		}
	}
	switch {
	case errors.Is(err, queue.ErrTimedOut), errors.Is(err, httpserve.ErrEnding), errors.Is(err, errACLChanged):
		w.WriteHeader(http.StatusNoContent)
	case err != nil:
		svc.fail(w, r, err)
	default:
		svc.writeEnded(w, r, e)
	}
}

// waitIn returns the wait in a query, 0 if there is none.
func waitIn(query url.Values) (time.Duration, error) {
	if !query.Has("wait") {
		return 0, nil
	}
	wait, err := parseDuration(query.Get("wait"))
	switch {
	case err != nil:
		return 0, invalid("wait: %v", err)
	case time.Duration(wait) > maxWait:
		return 0, invalid("wait: it must be at most an hour")
	}
	return time.Duration(wait), nil
}

// admitWait counts a request among those that wait until release is called, if it waits.
func (svc *service) admitWait(r *http.Request, wait time.Duration) (release func(), err error) {
	if wait == 0 {
		return func() {}, nil
	}
	client := ""
	if svc.access != nil {
		client = svc.clientOf(r)
	}
	if !svc.waiting.Acquire(client) {
		return nil, tooMany("too many requests are waiting for jobs")
	}
	return func() { svc.waiting.Release(client) }, nil
}

// awaitEnd waits for the end of a job until the client disconnects or the server shuts down. The error is then httpserve.ErrEnding.
func (svc *service) awaitEnd(r *http.Request, id uint64, wait time.Duration) (*tube.Ended, error) {
	present, cancel := httpserve.UntilEnding(r)
	defer cancel()
	ctx, end := untilACLChange(present)
	defer end()
	e, err := svc.queue.WaitEnd(ctx, id, wait)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return e, err
}

func (svc *service) writeEnded(w http.ResponseWriter, r *http.Request, e *tube.Ended) {
	text, err := json.Marshal(endedInfoOf(r.Context(), e))
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, text)
}

// defaultKeep is how long the record of a job is kept whose put waits for its end, if nothing else is said.
const defaultKeep = time.Minute

// addKeep makes sure that a job whose put waits for its end leaves a record.
func (svc *service) addKeep(ctx context.Context, op *storage.Op) error {
	if op.Args == nil {
		op.Args = &storage.Args{Tags: new(tube.Tags)}
	}
	keep := &op.Args.Tags.Rules.Keep
	if *keep != field.NoLifetime {
		return nil
	}
	names, err := svc.queue.Policies(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if prefix, is := strings.CutSuffix(name, "*"); name != op.Tube && !(is && strings.HasPrefix(op.Tube, prefix)) {
			continue
		}
		p, err := svc.queue.Policy(ctx, name)
		if err == nil && p.Keep != field.NoLifetime {
			return nil
		}
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
	}
	*keep = field.LifetimeOf(defaultKeep)
	return nil
}

// prepareWait prepares a put for the wait for the end of its job. Until release is called, its request counts among those that wait.
func (svc *service) prepareWait(r *http.Request, op *storage.Op, wait time.Duration) (release func(), err error) {
	if !mayOn(r.Context(), access.Read, op.Tube) {
		return nil, forbidden()
	}
	if err := svc.addKeep(r.Context(), op); err != nil {
		return nil, err
	}
	return svc.admitWait(r, wait)
}

// answerPut answers a put that may wait for the end of the job: with its record if it has ended, and otherwise as any put, because the
// job was put, whatever has become of the wait.
func (svc *service) answerPut(w http.ResponseWriter, r *http.Request, op *storage.Op, wait time.Duration) {
	if wait > 0 {
		if e, err := svc.awaitEnd(r, op.Answer.ID, wait); err == nil {
			svc.writeEnded(w, r, e)
			return
		}
	}
	writeJSON(w, http.StatusCreated, append(appendPutAnswer([]byte{'{'}, op), '}'))
}

// finishWithInput documents a finish; its body can also be the result itself.
type finishWithInput struct {
	JobPath
	Lease string `query:"lease" required:"true" maxLength:"32"`
	Body  ResultOptions
}

// ResultOptions are a result in a request.
type ResultOptions struct {
	Result jsonValue `json:"result,omitempty" doc:"a string is the result itself; of any other value the JSON text is the result"`
	Base64 *[]byte   `json:"result_base64,omitempty" doc:"the result in base64, instead of result"`
}

// bytes returns the result; nil if none is given.
func (o *ResultOptions) bytes() (result []byte, err error) {
	if o.Result == nil && o.Base64 == nil {
		return nil, nil
	}
	j := newJob{Body: o.Result, Base64: o.Base64}
	if result, err = j.body(); err != nil {
		return nil, invalid("result_base64: there is already a result")
	}
	if len(result) > tube.MaxResult {
		return nil, &http.MaxBytesError{Limit: tube.MaxResult}
	}
	return result, nil
}

func (svc *service) finishWithResult(w http.ResponseWriter, r *http.Request) {
	op, err := readMove(r, tube.Finish)
	if err == nil {
		op.Args.Data, err = readResult(w, r)
	}
	if err == nil {
		err = svc.doMove(r.Context(), op)
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// maxResultJSON is how long the JSON of a result can be, in bytes: an escape of six can stand for each byte, and there are its names.
const maxResultJSON = 6*tube.MaxResult + 1<<10

// readResult reads the body of a finish.
func readResult(w http.ResponseWriter, r *http.Request) (result []byte, err error) {
	if contentType(r) != jsonType {
		return readBody(w, r, tube.MaxResult, nil)
	}
	err = readJSON(w, r, maxResultJSON, func(text []byte) (err error) {
		var o ResultOptions
		if err = unmarshal(text, &o); err == nil {
			result, err = o.bytes()
		}
		return err
	})
	return result, err
}

// EndedFilter says which records are listed.
type EndedFilter struct {
	How    string `query:"how" enum:"done,deleted,expired,dead,moved" doc:"only jobs that have ended so"`
	Reason string `query:"reason" maxLength:"200" doc:"only jobs whose last reason contains this, in upper or lower case"`
	Since  uint64 `query:"since" doc:"only jobs that have ended at this time or later, in milliseconds since the Unix epoch"`
	Until  uint64 `query:"until" doc:"only jobs that have ended at this time or before"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"a page can have fewer although there are more"`
}

// filters reports whether records can be left out.
func (f *EndedFilter) filters() bool {
	return f.How != "" || f.Reason != "" || f.Since > 0 || f.Until > 0
}

// matches reports whether a record is listed.
func (f *EndedFilter) matches(e *tube.Ended) bool {
	at := uint64(msOf(e.At))
	return (f.How == "" || f.How == e.How.String()) && at >= f.Since && (f.Until == 0 || at <= f.Until) &&
		(f.Reason == "" || strings.Contains(strings.ToLower(e.Reason), strings.ToLower(f.Reason)))
}

// setBackAtMost is by how much a clock is set back at most where a list with an until begins: the order of the records follows the latest time
// that there ever was, see tube.Ended.Seq.
const setBackAtMost = time.Hour

// start returns the cursor of the first record that is examined.
func (f *EndedFilter) start() string {
	if latest := f.Until + uint64(setBackAtMost.Milliseconds()); f.Cursor == "" && f.Until > 0 && latest < 1<<53 {
		return strconv.FormatUint(latest*1000, 10)
	}
	return f.Cursor
}

type endedInput struct {
	TubePath
	EndedFilter
}

type resultsInput struct {
	BatchPath
	EndedFilter
}

type endedOutput struct{ Body endedPage }

// endedPage is a page of records.
type endedPage struct {
	Ended    []EndedInfo `json:"ended" nullable:"false"`
	Examined int         `json:"examined" doc:"the number of records that were examined"`
	Next     string      `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (svc *service) ended(ctx context.Context, in *endedInput) (*endedOutput, error) {
	return svc.listEnded(ctx, in.Tube, "", &in.EndedFilter)
}

func (svc *service) results(ctx context.Context, in *resultsInput) (*endedOutput, error) {
	if err := in.checkName(ctx); err != nil {
		return nil, err
	}
	return svc.listEnded(ctx, "", in.Batch, &in.EndedFilter)
}

// listEnded lists records of a tube, or of a batch if that is not "". With a filter it is a search.
func (svc *service) listEnded(ctx context.Context, tubeName, batch string, f *EndedFilter) (*endedOutput, error) {
	if f.filters() {
		endSearch, err := svc.searches.admit(ctx, clientIn(ctx))
		if err != nil {
			return nil, err
		}
		defer endSearch()
	}
	page, end := endedPage{Ended: []EndedInfo{}, Next: f.start()}, time.Now().Add(searchLimit)
	for {
		step := time.Now()
		found, next, err := svc.queue.Ended(ctx, tubeName, batch, min(int(f.Limit)-len(page.Ended), maxBatch), page.Next)
		if err == nil {
			err = yield(ctx, step)
		}
		if err != nil {
			return nil, err
		}
		page.Next = next
		for _, e := range found {
			page.Examined++
			if e.Seq/1000 < f.Since { // those that follow have ended before that, too
				page.Next = ""
				break
			}
			if mayOn(ctx, access.List, e.Tube) && f.matches(access.SightIn(ctx, e.Tube).Ended(e)) {
				page.Ended = append(page.Ended, endedInfoOf(ctx, e))
			}
		}
		if page.Next == "" || !f.filters() || page.Examined >= maxExamined || len(page.Ended) >= int(f.Limit) || time.Now().After(end) {
			return &endedOutput{page}, nil
		}
	}
}

// mayOn reports whether the user of a request has a right on a tube.
func mayOn(ctx context.Context, need Right, name string) bool {
	u := access.UserIn(ctx)
	return u == nil || u.On(name)&need != 0
}

// requireOnRecord is requireOnJob for a job, or the record of one.
func (svc *service) requireOnRecord(ctx context.Context, u *access.User, need access.Right, id uint64) error {
	err := svc.requireOnJob(ctx, u, need, id)
	if !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	e, none := svc.queue.WaitEnd(ctx, id, 0)
	switch {
	case errors.Is(none, queue.ErrTimedOut), errors.Is(none, queue.ErrNotKept), none == nil && e.How == tube.StillParked:
		return err // there is a job: the user has no right on its tube
	case none != nil:
		return none
	}
	return requireOnJobTube(u, need, e.Tube)
}
