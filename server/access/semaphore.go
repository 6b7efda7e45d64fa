package access

import (
	"context"
	"slices"
	"sync"
)

// semaphore limits the number of concurrent comparisons of secrets, because each takes a
// processor. Waiting attempts with the fewest earlier failures come first, so clients that
// guess wait for all others.
type semaphore struct {
	mu      sync.Mutex
	free    int
	waiting []*semWaiter // in the order of their arrival
}

type semWaiter struct {
	failures int
	acquired chan struct{} // closed when it has acquired the semaphore
}

// acquire acquires the semaphore; release must follow. If ctx ends first, acquire returns
// its error.
func (t *semaphore) acquire(ctx context.Context, failures int) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	w := &semWaiter{failures, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.acquired:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it was acquired at the same moment
		t.release()
	}
	return ctx.Err()
}

// release releases the semaphore.
func (t *semaphore) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	next := 0
	for i, w := range t.waiting {
		if w.failures < t.waiting[next].failures {
			next = i
		}
	}
	close(t.waiting[next].acquired)
	t.waiting = slices.Delete(t.waiting, next, next+1)
}
