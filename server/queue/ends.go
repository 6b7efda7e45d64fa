package queue

import (
	"context"
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
// limit; with a limit of 0 it does not wait.
func (q *Queue) WaitEnd(ctx context.Context, id uint64, limit time.Duration) (*tube.Ended, error) {
	again := make(chan struct{}, 1)
	cancel := q.AwaitEnd(id, func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	defer cancel()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		a, err := q.doOne(ctx, storage.Op{Kind: storage.WaitEnded, ID: id, Wait: limit > 0})
		if err != nil {
			return nil, err
		}
		if r := a.Result; r != nil && len(r.Ended) > 0 {
			return r.Ended[0], nil
		}
		select {
		case <-again:
		case <-timeout.C:
			return nil, ErrTimedOut
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-q.closing:
			return nil, ErrClosed
		}
	}
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
