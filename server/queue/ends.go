package queue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// endWaits has who waits for the ends of jobs.
type endWaits struct {
	mu   sync.Mutex
	jobs map[uint64]map[*endWait]struct{}
}

type endWait struct{ notify func() }

// AwaitEnd calls notify, which must not block, each time when a WaitEnded for the job, with Wait, should be repeated, until cancel is
// called, and perhaps once after that. It must be called before the first WaitEnded: then no end falls between the two.
func (q *Queue) AwaitEnd(id uint64, notify func()) (cancel func()) {
	w, all := &endWait{notify}, &q.endWaits
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.jobs == nil {
		all.jobs = make(map[uint64]map[*endWait]struct{})
	}
	if all.jobs[id] == nil {
		all.jobs[id] = make(map[*endWait]struct{})
	}
	all.jobs[id][w] = struct{}{}
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.jobs[id], w)
		if len(all.jobs[id]) == 0 {
			delete(all.jobs, id)
		}
	}
}

// JobEnded implements storage.Listener.
func (l listener) JobEnded(id uint64) {
	all := &l.q.endWaits
	all.mu.Lock()
	waits := slices.Collect(maps.Keys(all.jobs[id]))
	all.mu.Unlock()
	for _, w := range waits { // without the lock: what is notified can call AwaitEnd, and cancel
		w.notify()
	}
}

// HolderName returns the name of a client as records of jobs have it: its first tube.MaxHolder bytes.
func HolderName(name string) string {
	if len(name) > tube.MaxHolder {
		name = strings.ToValidUTF8(name[:tube.MaxHolder], "")
	}
	return name
}

// WaitEnd waits until a job has ended or is buried, and returns its record, which is that of tube.StillParked if it is buried. It
// returns ErrNotFound if there is neither the job nor a record of it, ErrNotKept if there will be no record, and ErrTimedOut after
// limit; with a limit of 0 it does not wait. While it waits, it does not mind that the store cannot answer.
func (q *Queue) WaitEnd(ctx context.Context, id uint64, limit time.Duration) (*tube.Ended, error) {
	again := make(chan struct{}, 1)
	cancel := q.AwaitEnd(id, func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	defer cancel()
	deadline := time.Now().Add(limit)
	for first := true; ; first = false {
		left := time.Until(deadline)
		e, err := q.askForEnd(ctx, id, left > 0)
		switch {
		case e != nil:
			return e, nil
		case left <= 0:
			return nil, cmp.Or(err, ErrTimedOut)
		case err != nil && (first || ctx.Err() != nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotKept)):
			return nil, err
		case err != nil:
			left = min(left, RetryEndWait)
		}
		if err := q.awaitAny(ctx, again, left); err != nil {
			return nil, err
		}
	}
}

// RetryEndWait is after what time a question for the end of a job is repeated that the store could not answer.
const RetryEndWait = time.Second

// askForEnd asks the store what has become of a job. It returns nil and no error if the job has not ended.
func (q *Queue) askForEnd(ctx context.Context, id uint64, wait bool) (*tube.Ended, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.WaitEnded, ID: id, Wait: wait})
	if err != nil || a.Result == nil || len(a.Result.Ended) == 0 {
		return nil, err
	}
	return a.Result.Ended[0], nil
}

// awaitAny waits until something comes, or for some time.
func (q *Queue) awaitAny(ctx context.Context, comes <-chan struct{}, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-comes:
	case <-timeout.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-q.closing:
		return ErrClosed
	}
	return nil
}

// Ended returns a page of the records of the ended jobs of a tube, or of a batch if that is not "", the newest first, from a cursor
// on, and the cursor of the next page; "" if there is none.
func (q *Queue) Ended(ctx context.Context, tubeName, batch string, count int, cursor string) (page []*tube.Ended, next string, err error) {
	op := storage.Op{Kind: storage.ListEnded, Tube: tubeName, MaxJobs: uint32(count), Args: &storage.Args{Name: batch, Cursor: cursor}}
	a, err := q.doOne(ctx, op)
	if err != nil || a.Result == nil {
		return nil, "", err
	}
	return a.Result.Ended, a.Result.Cursor, nil
}
