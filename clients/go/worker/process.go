package worker

import (
	"context"
	"runtime/debug"
	"time"
)

// process calls the handler for a job and settles it.
func (r *run) process(t taken) {
	l := r.hold(t.job)
	defer r.letGo(l)
	if t.tube == "" {
		ctx, stop := context.WithTimeout(l.ctx, settleTimeout)
		s, err := t.job.Stats(ctx)
		stop()
		if err != nil {
			r.config.Logger.Warn("the tube of a job cannot be found out", "job", t.job.ID, "error", err)
			if l.claim() {
				r.giveBack(l)
			}
			return
		}
		t.tube = s.Tube
	}
	job := &Job{ID: t.job.ID, Tube: t.tube, Body: t.job.Body, lease: l}
	err := errExited
	defer func() { // also if the handler panics or ends its goroutine
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		if l.claim() {
			r.settle(job, err)
		}
	}()
	err = r.handlers[t.tube](l.ctx, job)
}

// letGo ends the context of a lease.
func (r *run) letGo(l *lease) {
	l.cancel(context.Canceled)
	r.mu.Lock()
	delete(r.held, l)
	r.mu.Unlock()
}

// settleTimeout limits each attempt to settle a job.
const settleTimeout = 10 * time.Second
