package access

import (
	"context"
	"slices"
	"sync"
)

// turns lets only so many secrets be compared at a time, because that takes a processor. Of
// the attempts that wait, those come first that follow the fewest failures, so that guessers
// wait for others, and not the other way round.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*turn // in the order in which they came
}

type turn struct {
	failures int
	comes    chan struct{} // closed when it has come
}

// take waits for a turn, after which give must follow. It returns the error of ctx if that
// ends first.
func (t *turns) take(ctx context.Context, failures int) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	w := &turn{failures, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.comes:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it has come at the same moment
		t.give()
	}
	return ctx.Err()
}

// give ends a turn.
func (t *turns) give() {
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
	close(t.waiting[next].comes)
	t.waiting = slices.Delete(t.waiting, next, next+1)
}
