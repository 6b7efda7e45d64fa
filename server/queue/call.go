package queue

import (
	"context"
	"errors"
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// Errors of the blocking calls. The calls also return errors of the store
// (storage.ErrNoSpace, storage.ErrUnavailable, storage.ErrClosed) and of a context that has
// ended.
var (
	// ErrNotFound: the job or tube does not exist, or the state of the job does not allow this,
	// or another holder has reserved the job.
	ErrNotFound = errors.New("not found")

	// ErrDraining refuses a put after Drain.
	ErrDraining = errors.New("draining: no job is taken in")

	// ErrTooBig refuses a put whose body is longer than MaxJobSize, or longer than the store
	// accepts.
	ErrTooBig = storage.ErrTooBig

	// ErrForbidden refuses a policy with a push that is not allowed: see MayPush.
	ErrForbidden = errors.New("this server must not push there")

	// ErrTimedOut: Reserve found no job within its time limit.
	ErrTimedOut = errors.New("timed out")

	// ErrDeadlineSoon: the TTR of a job that the holder has reserved is about to end, so Reserve
	// does not wait, or stops waiting.
	ErrDeadlineSoon = errors.New("a reservation is about to expire")

	// ErrNotKept: no record of the job will be kept when it ends.
	ErrNotKept = errors.New("the job has no keep: no record of it is kept")

	// ErrClosed: the queue was closed while a Reserve waited.
	ErrClosed = errors.New("the queue is closed")
)

// Do carries out operations one after the other, isolated as package storage describes, and
// returns their answers in the same order. The store owns the contents of the operations
// from then on: strings and slices in them must not be changed any more.
//
// If a put or a SetPolicy among them is to be refused, Do carries out none of them and
// returns ErrDraining, ErrTooBig or ErrForbidden.
//
// If ctx ends first, Do returns its error at once. The operations may still be carried out,
// now or later. Jobs that they reserve are then given back.
func (q *Queue) Do(ctx context.Context, ops ...storage.Op) ([]storage.Answer, error) {
	if err := q.refusal(ops); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return q.do(ctx, ops)
}

// do is Do without the refusals. It submits the operations to the store even if ctx has
// ended.
func (q *Queue) do(ctx context.Context, ops []storage.Op) ([]storage.Answer, error) {
	done := make(chan struct{})
	batch := &storage.Batch{Ops: slices.Clone(ops), Done: func() { close(done) }}
	if ctx.Done() == nil {
		q.through.Do(batch)
	} else {
		go q.through.Do(batch) // this can take as long as the store likes
	}
	select {
	case <-done:
	case <-ctx.Done():
		if slices.ContainsFunc(ops, reserves) {
			go func() {
				<-done
				q.giveBack(batch.Ops)
			}()
		}
		return nil, ctx.Err()
	}
	answers := make([]storage.Answer, len(ops))
	for i := range batch.Ops {
		answers[i] = batch.Ops[i].Answer
	}
	return answers, nil
}

// refusal returns the error with which operations are refused before they begin, or nil.
func (q *Queue) refusal(ops []storage.Op) error {
	for i := range ops {
		switch op := &ops[i]; {
		case op.Kind == storage.SetPolicy && !q.MayPush(op.Args.Policy):
			return ErrForbidden
		case op.Kind == storage.Put:
			if err := q.refusalOfPut(len(op.Body)); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusalOfPut returns the error with which a body of that size is refused, or nil.
func (q *Queue) refusalOfPut(bytes int) error {
	switch {
	case q.Draining():
		return ErrDraining
	case bytes > q.config.MaxJobSize:
		return ErrTooBig
	}
	return nil
}

// reserves reports whether an operation may reserve a job.
func reserves(op storage.Op) bool {
	return op.Kind == storage.Take || op.Kind == storage.Move && op.Move.Brings()
}

// giveBack makes jobs ready again that were reserved by operations whose caller no longer
// wants the answers. Only the reservation is counted. If the store fails, the jobs stay with
// their holders until these leave or the TTR ends.
func (q *Queue) giveBack(ops []storage.Op) {
	var moves []storage.Op
	for i := range ops {
		if op := &ops[i]; reserves(*op) && op.Answer.Err == nil && !op.Answer.NotFound {
			moves = append(moves, giveBackOf(op))
		}
	}
	if len(moves) == 0 {
		return
	}
	storage.DoWait(q.through, moves)
	for i := range moves {
		if err := moves[i].Answer.Err; err != nil && !errors.Is(err, storage.ErrClosed) {
			q.config.Log.Warn("a job whose caller is gone is given back late", "job", moves[i].ID, "err", err)
		}
	}
}

// giveBackOf returns the operation that gives back the job that op has reserved.
func giveBackOf(op *storage.Op) storage.Op {
	back := storage.Op{Kind: storage.Move, Move: tube.GiveBack, Holder: op.Holder, ID: op.Answer.ID}
	if op.Answer.Result != nil {
		back.Args = &storage.Args{Lease: op.Answer.Result.Lease}
	}
	return back
}

// doOne carries out one operation and turns a failed answer into an error.
func (q *Queue) doOne(ctx context.Context, op storage.Op) (storage.Answer, error) {
	answers, err := q.Do(ctx, op)
	if err != nil {
		return storage.Answer{}, err
	}
	return answers[0], failure(&answers[0])
}

func failure(a *storage.Answer) error {
	if a.Err == nil && a.Result != nil && a.Result.NotKept {
		return ErrNotKept
	}
	if a.Err == nil && a.NotFound {
		return ErrNotFound
	}
	return a.Err
}
