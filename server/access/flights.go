package access

import (
	"context"
	"sync"
)

// flights are attempts under way. Who asks the same from the same address shares one, and
// one that nobody waits for any more is given up.
type flights struct {
	mu  sync.Mutex
	all map[question]*flight
}

// question is what makes two attempts the same.
type question struct {
	digest  digest
	address string
	proven  bool
}

type flight struct {
	askers int
	cancel context.CancelFunc
	landed chan struct{} // closed when login and err are there
	login  *Login
	err    error
}

// join waits for the end of an attempt, or of ctx.
func (f *flights) join(ctx context.Context, a *Access, t *attempt) (*Login, error) {
	q := question{t.digest, t.address, t.proven}
	f.mu.Lock()
	one := f.all[q]
	if one == nil {
		one = f.start(a, t, q)
	}
	one.askers++
	f.mu.Unlock()
	select {
	case <-one.landed:
		return one.login, one.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.askers--; one.askers == 0 {
		one.cancel()
		f.forget(q, one)
	}
	return nil, ctx.Err()
}

// start begins an attempt. The lock is held.
func (f *flights) start(a *Access, t *attempt, q question) *flight {
	ctx, cancel := context.WithCancel(a.ctx)
	one := &flight{cancel: cancel, landed: make(chan struct{})}
	f.all[q] = one
	go func() {
		defer cancel()
		one.login, one.err = a.examine(ctx, t)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(q, one)
		close(one.landed)
	}()
	return one
}

// forget has the next one who asks begin another attempt. The lock is held.
func (f *flights) forget(q question, one *flight) {
	if f.all[q] == one {
		delete(f.all, q)
	}
}
