package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redstalk/clients/go/client"
)

// settle does what the result of a handler means.
func (r *run) settle(job *Job, result error) {
	l := job.lease
	cause := context.Cause(l.ctx)
	lost := errors.Is(cause, ErrLeaseLost)
	if result == nil && !lost {
		r.attempt(l, "delete", l.job.Delete)
		return
	}
	var skip *skipError
	var snooze *snoozeError
	log := r.config.Logger.With("job", job.ID, "tube", job.Tube)
	switch {
	case lost:
		log.Warn("job lost before its handler returned", "error", result)
	case errors.As(result, &skip):
		log.Warn("job skipped", "error", skip.err)
		r.attempt(l, "bury", func(ctx context.Context) error { return l.job.Bury(ctx, client.Reason(fmt.Sprint(skip.err))) })
	case errors.As(result, &snooze):
		r.attempt(l, "snooze", func(ctx context.Context) error {
			return l.job.Release(ctx, max(snooze.wait, time.Second), client.NoFailure())
		})
	case errors.Is(cause, ErrShutdown):
		r.giveBack(l)
	default:
		r.attempt(l, "fail", func(ctx context.Context) error { return r.fail(ctx, job, result) })
	}
}

func (r *run) giveBack(l *lease) { r.attempt(l, "give back", l.job.GiveBack) }

// fail releases or buries a job that has failed.
func (r *run) fail(ctx context.Context, job *Job, reason error) error {
	held, why := job.lease.job, client.Reason(reason.Error())
	s, err := r.failed(ctx, held)
	if err != nil {
		return err
	}
	log := r.config.Logger.With("job", job.ID, "tube", job.Tube, "failures", s.Failures+1, "error", reason)
	if s.Retry != "" {
		log.Warn("job failed", "retry", s.Retry)
		return held.Release(ctx, 0, why)
	}
	wait, ok := r.config.Backoff(s.Failures + 1)
	if !ok {
		log.Error("job failed for the last time, and is buried")
		return held.Bury(ctx, why)
	}
	log.Warn("job failed", "wait", wait)
	return held.Release(ctx, wait, why)
}

// failed returns the failures and the retry waits of a job. Servers that do not send both with the job are asked.
func (r *run) failed(ctx context.Context, job *client.Job) (*client.Stats, error) {
	if s := job.Known(); s != nil && r.reasons.Load() {
		return s, nil
	}
	return r.client.JobStats(ctx, job.ID)
}

// attempt settles a job by f. With a lease it tries again while the server fails, until the lease is over.
func (r *run) attempt(l *lease, what string, f func(context.Context) error) {
	deadline := l.deadline()
	if deadline.IsZero() {
		deadline = time.Now().Add(client.DefaultTTR)
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		ctx, stop := context.WithTimeout(r.ended, settleTimeout)
		err := f(ctx)
		stop()
		if err == nil {
			return
		}
		again := l.job.Lease != "" && !errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrClosed)
		if !again || time.Now().After(deadline) {
			r.config.Logger.Warn("cannot settle a job, so it may come again", "what", what, "job", l.job.ID, "error", err)
			return
		}
		select {
		case <-time.After(pause):
		case <-r.ended.Done():
			return
		}
	}
}
