package queue

import (
	"context"
	"errors"
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// Errors of the blocking calls. Others are those of the store (storage.ErrNoSpace,
// storage.ErrUnavailable, storage.ErrClosed), and that of a context that has ended.
var (
	// ErrNotFound: there is no such job or tube, or the job is not in a state in
	// which this can be done, or is reserved by somebody else.
	ErrNotFound = errors.New("not found")

	// ErrDraining refuses a put after Drain.
	ErrDraining = errors.New("draining: no job is taken in")

	// ErrTooBig refuses the body of a put that is longer than MaxJobSize, or than the store takes it.
	ErrTooBig = storage.ErrTooBig

	// ErrForbidden refuses a policy with a push that is not allowed: see MayPush.
	ErrForbidden = errors.New("this server must not push there")

	// ErrTimedOut: Reserve has found no job in the time that it had.
	ErrTimedOut = errors.New("timed out")

	// ErrDeadlineSoon: the TTR of a job that the holder has reserved is about to
	// end, so that Reserve does not wait (any longer).
	ErrDeadlineSoon = errors.New("a reservation is about to expire")

	// ErrClosed: the queue was closed while a Reserve waited.
	ErrClosed = errors.New("the queue is closed")
)

// Do carries out operations one after the other, with nothing in between but what
// package storage says, and returns their answers in the same order. The contents
// of the operations are the store's for good: strings and slices in them must not
// be changed any more.
//
// With a put or a SetPolicy among them, Do refuses all of them with ErrDraining, ErrTooBig or
// ErrForbidden if that one is to be refused.
//
// If ctx ends first Do returns its error at once. The operations may be carried out
// all the same, now or later. Jobs that they reserve are then given back.
func (q *Queue) Do(ctx context.Context, ops ...storage.Op) ([]storage.Answer, error) {
	if err := q.refusal(ops); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return q.do(ctx, ops)
}

// do is Do without its refusals: it hands the operations to the store even if ctx
// has ended.
func (q *Queue) do(ctx context.Context, ops []storage.Op) ([]storage.Answer, error) {
	done := make(chan struct{})
	batch := &storage.Batch{Ops: slices.Clone(ops), Done: func() { close(done) }}
	batches := q.withHandOffs(batch)
	if ctx.Done() == nil {
		q.store.Do(batches...)
	} else {
		go q.store.Do(batches...) // which may take as long as the store likes
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

// refusal says why operations are not even begun.
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

// refusalOfPut says why a body of so many bytes is not put.
func (q *Queue) refusalOfPut(bytes int) error {
	switch {
	case q.Draining():
		return ErrDraining
	case bytes > q.config.MaxJobSize:
		return ErrTooBig
	}
	return nil
}

// reserves tells whether an operation may reserve a job.
func reserves(op storage.Op) bool {
	return op.Kind == storage.Take || op.Kind == storage.Move && op.Move == tube.ReserveJob
}

// giveBack makes the jobs ready again that were reserved by operations whose caller
// does not want the answers any more. Nothing is counted but the reservation. If the
// store fails the jobs stay with their holders, until these leave or the TTR ends.
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
	storage.DoWait(q.store, moves)
	for i := range moves {
		if err := moves[i].Answer.Err; err != nil && !errors.Is(err, storage.ErrClosed) {
			q.config.Log.Warn("a job whose caller is gone is given back late", "job", moves[i].ID, "err", err)
		}
	}
}

// giveBackOf returns what gives back the job that an operation has reserved.
func giveBackOf(op *storage.Op) storage.Op {
	back := storage.Op{Kind: storage.Move, Move: tube.GiveBack, Holder: op.Holder, ID: op.Answer.ID}
	if op.Answer.Result != nil {
		back.Args = &storage.Args{Lease: op.Answer.Result.Lease}
	}
	return back
}

// one carries out one operation, and makes errors of what its answer says.
func (q *Queue) one(ctx context.Context, op storage.Op) (storage.Answer, error) {
	answers, err := q.Do(ctx, op)
	if err != nil {
		return storage.Answer{}, err
	}
	return answers[0], failure(&answers[0])
}

func failure(a *storage.Answer) error {
	if a.Err == nil && a.NotFound {
		return ErrNotFound
	}
	return a.Err
}
