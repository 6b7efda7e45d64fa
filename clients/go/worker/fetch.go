package worker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"redstalk/clients/go/client"
)

// Waits while no job can be fetched because of an error.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// fetch takes jobs until the context ends: for servers with leases in one goroutine for all
// handlers, for others in one for each.
func (r *run) fetch(ctx context.Context) {
	leases, err := r.leases(ctx)
	if err != nil {
		return
	}
	if leases {
		r.fetchMany(ctx)
		return
	}
	var all sync.WaitGroup
	for range r.config.Concurrency {
		all.Go(func() { r.fetchOne(ctx) })
	}
	all.Wait()
}

// leases asks until a server answers whether it has leases.
func (r *run) leases(ctx context.Context) (bool, error) {
	for pause := firstPause; ; {
		all, err := r.client.Capabilities(ctx)
		if err == nil {
			r.reasons.Store(slices.Contains(all, client.Reasons))
			return slices.Contains(all, client.Leases), nil
		}
		if errors.Is(err, client.ErrClosed) {
			r.broken <- err
			return false, err
		}
		if pause = r.pause(ctx, pause, "no jobs can be fetched", err); ctx.Err() != nil {
			return false, err
		}
	}
}

// pause logs an error and what it means, and waits. It returns the next wait.
func (r *run) pause(ctx context.Context, d time.Duration, what string, err error) time.Duration {
	if ctx.Err() != nil {
		return d
	}
	r.config.Logger.Warn(what, "error", err, "pause", d)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return min(2*d, longestPause)
}

// fetchMany takes as many jobs as handlers are free, and runs each in a goroutine.
func (r *run) fetchMany(ctx context.Context) {
	consumer := r.client.Consume()
	defer consumer.Close()
	for pause := firstPause; ; {
		n := r.acquire(ctx)
		if n == 0 {
			return
		}
		jobs, err := r.picker.take(ctx, consumer, n)
		for range n - len(jobs) {
			r.free <- struct{}{}
		}
		for _, t := range jobs {
			r.running.Go(func() { r.process(t, r.returned) })
		}
		if err == nil {
			pause = firstPause
		} else if pause = r.pause(ctx, pause, "no jobs can be fetched", err); errors.Is(err, client.ErrClosed) {
			r.broken <- err
			return
		}
	}
}

// returned is called when a handler has returned: another one can run while its job is settled. settled is to be called
// after that.
func (r *run) returned() (settled func()) {
	r.settling <- struct{}{}
	r.free <- struct{}{}
	return func() { <-r.settling }
}

// acquire waits until a handler is free, and takes all that are, up to what one reserve can fetch. Handlers that are about
// to return come too: their jobs often end together, since one reserve has fetched them. It returns 0 if the context has ended.
func (r *run) acquire(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-r.free:
	}
	n := 1
	for before := 0; n > before; {
		before = n
		runtime.Gosched()
		for n < client.MaxBatch && len(r.free) > 0 {
			<-r.free
			n++
		}
	}
	return n
}

// fetchOne takes a job at a time and runs it. The job belongs to the connection of the consumer.
func (r *run) fetchOne(ctx context.Context) {
	consumer := r.client.Consume()
	defer consumer.Close()
	for pause := firstPause; ctx.Err() == nil; {
		jobs, err := r.picker.take(ctx, consumer, 1)
		for _, t := range jobs {
			done := make(chan struct{})
			r.running.Go(func() {
				defer close(done)
				r.process(t, func() (settled func()) { return func() {} })
			})
			<-done
		}
		if err == nil {
			pause = firstPause
		} else if pause = r.pause(ctx, pause, "no jobs can be fetched", err); errors.Is(err, client.ErrClosed) {
			r.broken <- err
			return
		}
	}
}
