package httpapi

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"redstalk/server/limits"
)

// This file limits searches.

const (
	// maxSearches is the maximum number of searches, running and queued.
	maxSearches = 100

	// searchWait is how long a search waits in the queue.
	searchWait = 10 * time.Second

	// maxYield is the longest pause of a search after a step.
	maxYield = 50 * time.Millisecond
)

// searchQueue runs searches on at most half of the processors. It alternates between clients.
type searchQueue struct {
	*limits.Shares
	atOnce int

	mu      sync.Mutex // guards the fields below
	running int
	waiting []*queuedSearch
	last    string // the client whose search started last
}

// queuedSearch is a search that waits to run.
type queuedSearch struct {
	client   string
	admitted chan struct{} // closed when it can run
}

func newSearchQueue() *searchQueue {
	return &searchQueue{Shares: limits.NewShares(maxSearches), atOnce: max(1, runtime.GOMAXPROCS(0)/2)}
}

// admit waits until a search can run. The search must call end when it has run.
func (q *searchQueue) admit(ctx context.Context, client string) (end func(), err error) {
	if !q.Acquire(client) {
		return nil, tooMany("too many searches are queued")
	}
	end = func() {
		q.next()
		q.Release(client)
	}
	search := q.enqueue(client)
	limit := time.NewTimer(searchWait)
	defer limit.Stop()
	select {
	case <-search.admitted:
		return end, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = tooMany("other searches take too long")
	}
	if q.abandon(search) {
		q.Release(client)
	} else {
		end()
	}
	return nil, err
}

// enqueue adds a search. If there is a free processor, the search is admitted at once.
func (q *searchQueue) enqueue(client string) *queuedSearch {
	q.mu.Lock()
	defer q.mu.Unlock()
	search := &queuedSearch{client, make(chan struct{})}
	if q.running < q.atOnce {
		q.running++
		q.last = client
		close(search.admitted)
	} else {
		q.waiting = append(q.waiting, search)
	}
	return search
}

// next ends a search and admits another one: the first of another client than the last, or else
// the first.
func (q *searchQueue) next() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return
	}
	i := max(0, slices.IndexFunc(q.waiting, func(one *queuedSearch) bool { return one.client != q.last }))
	q.last = q.waiting[i].client
	close(q.waiting[i].admitted)
	q.waiting = slices.Delete(q.waiting, i, i+1)
}

// abandon removes a search from the queue. It reports false if the search was admitted already.
func (q *searchQueue) abandon(search *queuedSearch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, search)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// yield pauses for as long as a step has taken, at most maxYield, so that others can use the
// store. step is when the step began.
func yield(ctx context.Context, step time.Time) error {
	pause := time.NewTimer(min(time.Since(step), maxYield))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
