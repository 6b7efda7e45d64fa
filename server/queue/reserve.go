package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Job is a reserved or peeked job.
type Job struct {
	ID   uint64
	Body []byte // must not be changed

	// Lease is the token of a job that was reserved for tube.LeaseHolder; otherwise 0.
	Lease uint64
}

// jobIn returns the job in an answer.
func jobIn(a *storage.Answer) Job {
	j := Job{ID: a.ID, Body: a.Body}
	if a.Result != nil {
		j.Lease = a.Result.Lease
	}
	return j
}

// Reserve takes the next job of the tubes for the holder. If there is none, it waits up to
// wait: 0 does not wait, storage.Forever waits without limit. The waiting reserves of all
// listeners are served in the order of their arrival.
//
// Reserve returns ErrTimedOut if there was no job. It returns ErrDeadlineSoon if the TTR of
// another job that the holder has reserved is about to end. If ctx ends, it returns the
// error of ctx. A job that is found at the same moment is given back: whenever Reserve
// returns an error, the holder has no job from this call.
//
// A caller that waits for a lease has no connection that watches the tubes, so the caller
// itself counts as watching them while it waits.
func (q *Queue) Reserve(ctx context.Context, holder tube.Holder, tubes []string, wait time.Duration) (Job, error) {
	tubes = slices.Clone(tubes) // the store may read them after ctx has ended
	wakeUps := q.WakeUps()
	take := storage.Op{Kind: storage.Take, Holder: holder, Tubes: tubes, Wait: wait > 0}
	answer, err := q.doOne(ctx, take)
	switch {
	case err == nil:
		return jobIn(&answer), nil
	case !errors.Is(err, ErrNotFound):
		return Job{}, err
	case answer.Soon <= 0:
		return Job{}, ErrDeadlineSoon
	case wait <= 0:
		q.Wanted(tubes)
		return Job{}, ErrTimedOut
	}
	if holder == tube.LeaseHolder {
		defer q.refTubes(tubes)()
	}
	soon := answer.Soon
	answer, err = q.waitForJob(ctx, &take, wakeUps, min(wait, soon))
	switch {
	case err != nil:
		return Job{}, err
	case !answer.NotFound:
		return jobIn(&answer), nil
	case soon <= wait:
		return Job{}, ErrDeadlineSoon
	}
	return Job{}, ErrTimedOut
}

// maxTubesPerRef limits the tubes of one Ref operation, so that other callers are served in
// between.
const maxTubesPerRef = 250

// refTubes makes the store count one more client that watches the tubes, until unref is
// called. Neither of them waits for the store.
func (q *Queue) refTubes(tubes []string) (unref func()) {
	counted := make(chan struct{})
	count := func(delta int) {
		for part := range slices.Chunk(tubes, maxTubesPerRef) {
			storage.DoWait(q.through, []storage.Op{{Kind: storage.Ref, Tubes: part, Role: tube.Watching, Delta: delta}})
		}
	}
	go func() {
		defer close(counted)
		count(+1)
	}()
	return func() {
		go func() {
			<-counted
			count(-1)
		}()
	}
}

// waitForJob waits for the job of a take and returns the outcome.
func (q *Queue) waitForJob(ctx context.Context, take *storage.Op, wakeUps uint64, limit time.Duration) (storage.Answer, error) {
	ended := make(chan struct{})
	w := q.NewWaiter(take.Holder, func() { close(ended) })
	w.Wait(take, wakeUps, limit)
	select {
	case <-ended:
		answer, _ := w.Outcome()
		return answer, nil
	case <-ctx.Done():
		q.abandon(w, ended)
		return storage.Answer{}, ctx.Err()
	case <-q.closing:
		q.abandon(w, ended)
		return storage.Answer{}, ErrClosed
	}
}

// abandon ends a wait whose caller has left. If a dispatch is taking a job for it, or
// has taken one, the job is given back.
func (q *Queue) abandon(w *Waiter, ended <-chan struct{}) {
	if w.Cancel() {
		return
	}
	go func() {
		<-ended
		answer, _ := w.Outcome()
		q.giveBack([]storage.Op{{Kind: storage.Take, Holder: w.holder, Answer: answer}})
	}()
}
