package worker

import (
	"context"
	"time"
)

// grace is how long a handler has to return after its context has ended, before the worker gives up on it.
const grace = 10 * time.Second

// WithTimeout returns a handler with a limit of its own, instead of that of [Config]; 0 is none.
func WithTimeout(limit time.Duration, h Handler) Handler {
	return func(ctx context.Context, job *Job) error {
		job.SetTimeout(limit)
		return h(ctx, job)
	}
}

// SetTimeout changes how long the handler can still run, from now on; 0 is no limit. It has no effect after the end of the context.
func (j *Job) SetTimeout(limit time.Duration) { j.holder.limitTime(limit) }

func (l *lease) limitTime(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled || l.ctx.Err() != nil {
		return
	}
	l.limitAfter(limit, l.end)
}

// limitAfter makes f run after a time, instead of what was to run before. The caller holds l.mu.
func (l *lease) limitAfter(d time.Duration, f func()) {
	if l.limit != nil {
		l.limit.Stop()
	}
	if l.limit = nil; d > 0 {
		l.limit = time.AfterFunc(d, f)
	}
}

// end ends the context of a handler whose time is over.
func (l *lease) end() {
	l.cancel(ErrTimeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.settled {
		l.limitAfter(grace, func() { l.run.giveUp(l) })
	}
}

// giveUp lets go of a job whose handler ignores the end of its context. What the handler returns later has no effect.
func (r *run) giveUp(l *lease) {
	if l.claim() {
		r.config.Logger.Error("a handler ignores that its time is over; it takes up a slot until it returns", "job", l.job.ID, "tube", l.handed.Tube)
		r.settle(l, ErrTimeout)
	}
}
