package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// maxBatchBytes is the largest body of a batch, in bytes, unless the limit for a single job is
// higher.
const maxBatchBytes = 16 << 20

// batchInput documents a batch of puts.
type batchInput struct {
	TubePath
	Body []newJob `maxItems:"1000"`
}

// batchOutput documents the answer to a batch.
type batchOutput struct{ Body []batchAnswer }

// batchAnswer is the result of one job of a batch.
type batchAnswer struct {
	Status    int    `json:"status" doc:"the status that the request for this job alone would have got"`
	ID        uint64 `json:"id,omitempty"`
	State     string `json:"state,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Code      string `json:"code,omitempty" doc:"the code of the problem, if there is one"`
	Detail    string `json:"detail,omitempty"`
}

// batchItem is a job of a batch: its operation, or the error that prevents it.
type batchItem struct {
	op  storage.Op
	err error
}

func (svc *service) putBatch(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("tube")
	svc.batch(w, r, appendPutAnswer, http.StatusCreated, func(text []byte) (storage.Op, error) {
		op, err := parseJob(name, text)
		if err == nil && len(op.Body) > svc.queue.MaxJobSize() {
			err = queue.ErrTooBig
		}
		if err == nil {
			err = checkPut(r.Context(), &op)
		}
		return op, err
	})
}

// finishBatchInput documents a batch of deletes.
type finishBatchInput struct {
	Body []finishJob `maxItems:"1000"`
}

// finishJob is a job to delete.
type finishJob struct {
	ID    uint64 `json:"id"`
	Lease string `json:"lease,omitempty" doc:"without a lease, deletes a job that is not reserved"`
	ResultOptions
}

func (svc *service) finishBatch(w http.ResponseWriter, r *http.Request) {
	holder := holderName(r.Context())
	svc.batch(w, r, appendID, http.StatusNoContent, func(text []byte) (storage.Op, error) {
		var j finishJob
		if err := unmarshal(text, &j); err != nil {
			return storage.Op{}, err
		}
		lease := &j.Lease
		if j.Lease == "" {
			lease = nil
		}
		return j.op(lease, holder)
	})
}

// op returns the operation that deletes the job, or finishes it with a result.
func (j *finishJob) op(lease *string, holder string) (storage.Op, error) {
	result, err := j.bytes()
	switch {
	case err != nil:
		return storage.Op{}, err
	case result == nil:
		return moveOp(tube.Delete, j.ID, lease, holder)
	case lease == nil:
		return storage.Op{}, invalid("lease: it is missing, and a result needs it")
	}
	op, err := moveOp(tube.Finish, j.ID, lease, holder)
	if err == nil {
		op.Args.Data = result
	}
	return op, err
}

func appendID(b []byte, op *storage.Op) []byte {
	b = append(b, `"id":`...)
	return strconv.AppendUint(b, op.ID, 10)
}

// batch handles a batch request. parse returns the operation of a job, write appends the fields
// of its result, and status is the status of a job that succeeded.
func (svc *service) batch(w http.ResponseWriter, r *http.Request, write func([]byte, *storage.Op) []byte, status int, parse func([]byte) (storage.Op, error)) {
	var all []batchItem
	err := readJSON(w, r, max(maxBatchBytes, svc.jsonLimit()), func(text []byte) (err error) {
		all, err = parseBatch(text, parse)
		return err
	})
	if err == nil && status == http.StatusNoContent {
		err = svc.checkFinishes(r.Context(), all)
		svc.noteJobs(r.Context(), "delete", withoutLease(all)...)
	}
	if err == nil {
		err = svc.execute(r.Context(), all)
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	b := make([]byte, 0, 64*len(all)+2)
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = svc.appendItem(b, &all[i], write, status)
	}
	writeJSON(w, http.StatusOK, append(b, ']'))
}

// appendItem appends a batchAnswer.
func (svc *service) appendItem(b []byte, o *batchItem, write func([]byte, *storage.Op) []byte, status int) []byte {
	if o.err == nil {
		b = append(b, `{"status":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ',')
		return append(write(b, &o.op), '}')
	}
	p := problemOf(o.err)
	text, err := json.Marshal(batchAnswer{Status: p.Status, ID: p.ID, Code: p.Code, Detail: p.Detail})
	if err != nil {
		return append(b, '{', '}') // impossible: strings and numbers can always be encoded
	}
	return append(b, text...)
}

// parseBatch parses a JSON array of jobs. An element that is valid JSON but not a valid job
// fails on its own, not the whole batch.
func parseBatch(text []byte, parse func([]byte) (storage.Op, error)) (all []batchItem, err error) {
	var elements []jsontext.Value
	if err := strict.Unmarshal(text, &elements); err != nil {
		return nil, jsonProblem(err)
	}
	if len(elements) > maxBatch {
		return nil, invalid("there are %d jobs; the limit is %d per request", len(elements), maxBatch)
	}
	all = make([]batchItem, len(elements))
	for i, element := range elements {
		all[i].op, all[i].err = parse(element)
	}
	return all, nil
}

// withoutLease returns the jobs of a batch that are deleted although the client has not reserved them.
func withoutLease(all []batchItem) (ids []uint64) {
	for i := range all {
		if all[i].err == nil && all[i].op.Holder != tube.LeaseHolder {
			ids = append(ids, all[i].op.ID)
		}
	}
	return ids
}

// checkFinishes sets the error of each job of a batch that the user may not finish.
func (svc *service) checkFinishes(ctx context.Context, all []batchItem) error {
	u := access.UserIn(ctx)
	if u == nil || u.Everywhere()&access.Work != 0 {
		return nil
	}
	var lookups []storage.Op
	for i := range all {
		if all[i].err == nil {
			lookups = append(lookups, storage.Op{Kind: storage.JobStats, ID: all[i].op.ID})
		}
	}
	if len(lookups) == 0 {
		return nil
	}
	answers, err := svc.queue.Do(ctx, lookups...)
	if err != nil {
		return err
	}
	next := 0
	for i := range all {
		if all[i].err != nil {
			continue
		}
		a := &answers[next]
		next++
		if all[i].err = answerError(a); all[i].err != nil {
			continue
		}
		if all[i].err = requireOnJobTube(u, access.Work, a.Job.Tube); errors.Is(all[i].err, errForbidden) {
			all[i].err = forbidden()
		}
	}
	return nil
}

// execute submits the operations to the store and stores their answers in all.
func (svc *service) execute(ctx context.Context, all []batchItem) error {
	ops := make([]storage.Op, 0, len(all))
	for i := range all {
		if all[i].err == nil {
			ops = append(ops, all[i].op)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	answers, err := svc.queue.Do(context.WithoutCancel(ctx), ops...)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].err != nil {
			continue
		}
		a := &answers[0]
		answers = answers[1:]
		all[i].op.Answer = *a
		all[i].err = putFailure(a)
		if isNotKept(a) {
			all[i].err = queue.ErrNotKept
		} else if a.Err == nil && a.NotFound {
			all[i].err = queue.ErrNotFound
		}
	}
	return nil
}
