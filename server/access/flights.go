package access

import (
	"context"
	"sync"
)

// flights are the login attempts under way. Identical attempts from one address share a
// flight, and a flight that nobody waits for any more is cancelled.
type flights struct {
	mu  sync.Mutex
	all map[flightKey]*flight
}

// flightKey is equal for identical attempts.
type flightKey struct {
	digest  digest
	address string
	proven  bool
}

type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{} // closed when login and err are set
	login   *Login
	err     error
}

// join waits for the end of an attempt, or of ctx.
func (f *flights) join(ctx context.Context, a *Access, t *attempt) (*Login, error) {
	q := flightKey{t.digest, t.address, t.proven}
	f.mu.Lock()
	flight := f.all[q]
	if flight == nil {
		flight = f.start(a, t, q)
	}
	flight.waiters++
	f.mu.Unlock()
	select {
	case <-flight.done:
		return flight.login, flight.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if flight.waiters--; flight.waiters == 0 {
		flight.cancel()
		f.forget(q, flight)
	}
	return nil, ctx.Err()
}

// start starts an attempt. The lock is held.
func (f *flights) start(a *Access, t *attempt, q flightKey) *flight {
	ctx, cancel := context.WithCancel(a.ctx)
	fl := &flight{cancel: cancel, done: make(chan struct{})}
	f.all[q] = fl
	go func() {
		defer cancel()
		fl.login, fl.err = a.examine(ctx, t)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(q, fl)
		close(fl.done)
	}()
	return fl
}

// forget makes the next identical attempt start another flight. The lock is held.
func (f *flights) forget(q flightKey, fl *flight) {
	if f.all[q] == fl {
		delete(f.all, q)
	}
}
