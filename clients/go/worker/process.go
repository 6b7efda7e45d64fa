package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"redstalk/clients/go/client"
)

// process calls the handler for a job and settles it. In between, it calls returned.
func (r *run) process(t taken, returned func() (settled func())) {
	l := r.hold(t.job)
	defer r.letGo(l)
	free := sync.OnceValue(returned)
	defer func() { free()() }()
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
	if err := l.keep(); err != nil {
		r.drop(l, err)
		return
	}
	job := newJob(t.job.ID, t.tube, t.job.Body, t.job.Known(), l)
	l.handed = job
	job.SetTimeout(r.config.Timeout)
	err := errExited
	defer func() { // also if middleware panics, or the goroutine is ended
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		free()
		if l.claim() {
			r.settle(l, err)
		}
	}()
	err = r.handlers[t.tube](l.ctx, job)
}

// drop leaves alone a job that may no longer be held. If it is, it comes again after its TTR.
func (r *run) drop(l *lease, reason error) {
	level := slog.LevelWarn
	if errors.Is(reason, client.ErrNotFound) || errors.Is(reason, errSettled) {
		level = slog.LevelDebug
	}
	l.claim()
	r.config.Logger.Log(context.Background(), level, "a job arrived too late and is not handled", "job", l.job.ID, "reason", reason)
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
