package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the requests that concern many jobs at once.

const (
	// maxBatch is how many jobs there may be in a request.
	maxBatch = 1000

	// maxBatchBytes is the largest body of a batch, in bytes, unless a single job may be
	// larger.
	maxBatchBytes = 16 << 20
)

// batchInput documents a batch of puts.
type batchInput struct {
	TubePath
	Body []newJob `maxItems:"1000"`
}

// batchOutput documents the answer to a batch.
type batchOutput struct{ Body []batchAnswer }

// batchAnswer is what has become of one job of a batch.
type batchAnswer struct {
	Status    int    `json:"status" doc:"what the job would have been answered by itself"`
	ID        uint64 `json:"id,omitempty"`
	State     string `json:"state,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Code      string `json:"code,omitempty" doc:"that of the problem, if there is one"`
	Detail    string `json:"detail,omitempty"`
}

// one is a job of a batch: an operation, or why there is none.
type one struct {
	op  storage.Op
	err error
}

func (d *Door) putBatch(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("tube")
	d.batch(w, r, appendPutAnswer, http.StatusCreated, func(text []byte) (storage.Op, error) {
		op, err := parseJob(name, text)
		if err == nil && len(op.Body) > d.queue.MaxJobSize() {
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

// finishJob is a job that is done.
type finishJob struct {
	ID    uint64 `json:"id"`
	Lease string `json:"lease,omitempty" doc:"without it: a job that nobody holds is removed"`
}

func (d *Door) finishBatch(w http.ResponseWriter, r *http.Request) {
	d.batch(w, r, appendID, http.StatusNoContent, func(text []byte) (storage.Op, error) {
		var j finishJob
		if err := unmarshal(text, &j); err != nil {
			return storage.Op{}, err
		}
		lease := &j.Lease
		if j.Lease == "" {
			lease = nil
		}
		return moveOf(tube.Delete, j.ID, lease)
	})
}

func appendID(b []byte, op *storage.Op) []byte {
	b = append(b, `"id":`...)
	return strconv.AppendUint(b, op.ID, 10)
}

// batch answers a request with many jobs, each of which parse makes an operation of. write
// writes the fields of what has come of one that was done; status is what it would have been
// answered by itself.
func (d *Door) batch(w http.ResponseWriter, r *http.Request, write func([]byte, *storage.Op) []byte, status int, parse func([]byte) (storage.Op, error)) {
	var all []one
	err := readJSON(w, r, max(maxBatchBytes, d.jsonLimit()), func(text []byte) (err error) {
		all, err = parseBatch(text, parse)
		return err
	})
	if err == nil && status == http.StatusNoContent {
		err = d.checkMoves(r.Context(), all)
	}
	if err == nil {
		err = d.carryOut(r.Context(), all)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	b := make([]byte, 0, 64*len(all)+2)
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.appendOne(b, &all[i], write, status)
	}
	writeJSON(w, http.StatusOK, append(b, ']'))
}

// appendOne writes a batchAnswer.
func (d *Door) appendOne(b []byte, o *one, write func([]byte, *storage.Op) []byte, status int) []byte {
	if o.err == nil {
		b = append(b, `{"status":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ',')
		return append(write(b, &o.op), '}')
	}
	p := problemOf(o.err)
	text, err := json.Marshal(batchAnswer{Status: p.Status, ID: p.ID, Code: p.Code, Detail: p.Detail})
	if err != nil {
		return append(b, '{', '}') // cannot be: strings and numbers have JSON
	}
	return append(b, text...)
}

// parseBatch reads an array. An element that is JSON but means nothing is answered for
// itself.
func parseBatch(text []byte, parse func([]byte) (storage.Op, error)) (all []one, err error) {
	var elements []jsontext.Value
	if err := strict.Unmarshal(text, &elements); err != nil {
		return nil, jsonProblem(err)
	}
	if len(elements) > maxBatch {
		return nil, invalid("there are %d jobs; a request may have %d", len(elements), maxBatch)
	}
	all = make([]one, len(elements))
	for i, element := range elements {
		all[i].op, all[i].err = parse(element)
	}
	return all, nil
}

// carryOut hands the operations to the store, and takes down what has come of them.
func (d *Door) carryOut(ctx context.Context, all []one) error {
	ops := make([]storage.Op, 0, len(all))
	for i := range all {
		if all[i].err == nil {
			ops = append(ops, all[i].op)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	answers, err := d.queue.Do(context.WithoutCancel(ctx), ops...)
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
		if a.Err == nil && a.NotFound {
			all[i].err = queue.ErrNotFound
		}
	}
	return nil
}
