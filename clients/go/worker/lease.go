package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"redstalk/clients/go/client"
)

// A lease keeps a job while its handler runs. It asks for the TTR only of jobs that take a while, so that short
// ones cost no further round trip.
type lease struct {
	job    *client.Job
	ctx    context.Context // of the handler
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	settled bool // somebody has claimed the job
	timer   *time.Timer
	ttr     time.Duration // 0 if not known yet
	touched time.Time     // when the TTR started last, or earlier
}

// firstBeat is when a lease is looked after first. The shortest TTR is a second.
const firstBeat = 250 * time.Millisecond

// hold makes the lease of a job.
func (r *run) hold(job *client.Job) *lease {
	l := &lease{job: job, touched: job.Reserved}
	l.ctx, l.cancel = context.WithCancelCause(r.abort)
	l.mu.Lock()
	l.timer = time.AfterFunc(firstBeat, l.beat)
	l.mu.Unlock()
	if lost := job.Lost(); lost != nil {
		go func() {
			select {
			case <-lost:
				l.cancel(ErrLeaseLost)
			case <-l.ctx.Done():
			}
		}()
	}
	r.mu.Lock()
	r.held[l] = struct{}{}
	r.mu.Unlock()
	return l
}

// claim stops the heartbeat and reports whether the caller is to settle the job: the first one is.
func (l *lease) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return false
	}
	l.settled = true
	l.timer.Stop()
	return true
}

// deadline returns when the TTR ends, or zero if that is not known.
func (l *lease) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ttr == 0 {
		return time.Time{}
	}
	return l.touched.Add(l.ttr)
}

// beat touches the job if it is time, and sets the timer for the next time.
func (l *lease) beat() {
	wait, err := l.touch()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return
	}
	if err != nil {
		l.cancel(ErrLeaseLost)
		return
	}
	l.timer.Reset(wait)
}

// touch touches the job if it is time, and returns how long to wait until the next call. An error means that
// the job is lost.
func (l *lease) touch() (time.Duration, error) {
	ttr, err := l.askTTR()
	if errors.Is(err, client.ErrNotFound) {
		return 0, err
	}
	if err != nil {
		return firstBeat, nil
	}
	l.mu.Lock()
	last := l.touched
	l.mu.Unlock()
	if early := time.Until(last.Add(ttr / 3)); early > 0 {
		return early, nil
	}
	ctx, stop := context.WithDeadline(context.Background(), last.Add(ttr))
	defer stop()
	now := time.Now()
	if err = l.job.Touch(ctx); err == nil {
		l.mu.Lock()
		l.touched = now
		l.mu.Unlock()
		return ttr / 3, nil
	}
	if errors.Is(err, client.ErrNotFound) || ctx.Err() != nil {
		return 0, err
	}
	return min(ttr/10, time.Second), nil
}

// askTTR returns the TTR of the job.
func (l *lease) askTTR() (time.Duration, error) {
	l.mu.Lock()
	ttr := l.ttr
	l.mu.Unlock()
	if ttr != 0 {
		return ttr, nil
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	s, err := l.job.Stats(ctx)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttr = max(s.TTR, time.Second)
	return l.ttr, nil
}
