package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Job is a job as it is handed out.
type Job struct {
	ID   uint64
	Body []byte // must not be changed

	// Lease is the token of a job that was reserved for tube.LeaseHolder; else 0.
	Lease uint64
}

// jobIn returns the job of an answer.
func jobIn(a *storage.Answer) Job {
	j := Job{ID: a.ID, Body: a.Body}
	if a.Result != nil {
		j.Lease = a.Result.Lease
	}
	return j
}

// Reserve takes the next job of the tubes for the holder, and waits up to wait for
// one: 0 does not wait, storage.Forever sets no limit. All reserves that wait, of all
// doors, are served in the order of their arrival.
//
// Reserve returns ErrTimedOut if there was no job. It returns ErrDeadlineSoon if the
// TTR of another job that the holder has reserved is about to end. If ctx ends, it
// returns the error of ctx. A job that is found at the same moment is given back:
// whenever Reserve returns an error, the holder has no job from this call.
//
// Who waits for a lease has no connection that watches the tubes, so it counts as one that
// does for as long as it waits.
func (q *Queue) Reserve(ctx context.Context, holder tube.Holder, tubes []string, wait time.Duration) (Job, error) {
	tubes = slices.Clone(tubes) // the store may look at them after ctx has ended
	hints := q.WakeUps()
	take := storage.Op{Kind: storage.Take, Holder: holder, Tubes: tubes, Wait: wait > 0}
	answer, err := q.one(ctx, take)
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
		defer q.attend(tubes)()
	}
	soon := answer.Soon
	answer, err = q.await(ctx, holder, tubes, hints, min(wait, soon))
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

// maxAttended is how many tubes are attended at once. Others have their turn before the next
// ones.
const maxAttended = 250

// attend has the store count one more who watches tubes, until leave. Neither waits for the
// store.
func (q *Queue) attend(tubes []string) (leave func()) {
	counted := make(chan struct{})
	count := func(delta int) {
		for part := range slices.Chunk(tubes, maxAttended) {
			storage.DoWait(q.store, []storage.Op{{Kind: storage.Ref, Tubes: part, Role: tube.Watching, Delta: delta}})
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

// await waits for a job and returns what has become of that.
func (q *Queue) await(ctx context.Context, holder tube.Holder, tubes []string, hints uint64, limit time.Duration) (storage.Answer, error) {
	ended := make(chan struct{})
	w := q.NewWaiter(holder, func() { close(ended) })
	w.Wait(tubes, hints, limit)
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

// abandon ends a wait whose caller is gone. If a round is taking a job for it, or has
// taken one, the job is given back.
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
