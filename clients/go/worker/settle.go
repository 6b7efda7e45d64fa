package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/usercode"
)

// settle does what the result of a handler means.
func (r *run) settle(l *lease, result error) {
	cause := context.Cause(l.ctx)
	if result == nil && !errors.Is(cause, ErrLeaseLost) {
		r.attempt(l, "delete", l.handed.done(l.job))
		return
	}
	l.sendProgress()
	switch skip, snooze, unfinished := meaning(result); {
	case errors.Is(cause, ErrLeaseLost):
		r.lost(l, result, cause)
	case skip != nil:
		reason := shown(skip.err)
		r.logger(l).Warn("job skipped", "error", reason)
		r.attempt(l, "bury", func(ctx context.Context) error { return l.job.Bury(ctx, client.Reason(reason.text)) })
		r.tellError(l.handed, result, Buried)
	case snooze != nil && snooze.wait <= maxDelay:
		r.attempt(l, "snooze", func(ctx context.Context) error {
			return l.job.Release(ctx, max(snooze.wait, time.Second), client.NoFailure())
		})
	case unfinished, errors.Is(cause, ErrShutdown):
		r.giveBack(l)
	case errors.Is(cause, ErrTimeout):
		r.logger(l).Warn("the time of a handler was over", "error", shown(result))
		r.tellError(l.handed, timedOut(result), r.fail(l, ErrTimeout))
	default:
		r.tellError(l.handed, result, r.fail(l, result))
	}
}

// logger returns the log with what is known of a job.
func (r *run) logger(l *lease) *slog.Logger {
	return r.config.Logger.With("job", l.job.ID, "tube", l.handed.Tube)
}

// lost leaves alone a job that was no longer held when its handler returned.
func (r *run) lost(l *lease, result, cause error) {
	if errors.Is(cause, ErrDeleted) {
		r.logger(l).Info("job deleted before its handler returned")
		return
	}
	r.logger(l).Warn("job lost before its handler returned", "error", shown(result))
	if result == nil {
		result = cause
	}
	r.tellError(l.handed, result, Lost)
}

// done returns a function that finishes the job with its result, or deletes it if it has none, or nothing is kept of it.
func (j *Job) done(held *client.Job) func(context.Context) error {
	return func(ctx context.Context) error {
		if j.result != nil {
			err := held.Finish(ctx, j.result)
			if !errors.Is(err, client.ErrNotKept) && !errors.Is(err, client.ErrUnsupported) {
				return err
			}
		}
		return held.Delete(ctx)
	}
}

// maxDelay is the longest delay that a server accepts.
const maxDelay = (1<<32 - 1) * time.Second

// meaning returns what is special about the error of a handler. A method of the error that panics says nothing.
func meaning(result error) (skip *skipError, snooze *snoozeError, unfinished bool) {
	_ = usercode.Call(func() {
		if !errors.As(result, &skip) && !errors.As(result, &snooze) {
			unfinished = errors.Is(result, ErrNotFinished)
		}
	})
	return skip, snooze, unfinished
}

func (r *run) giveBack(l *lease) { r.attempt(l, "give back", l.job.GiveBack) }

// fail releases or buries a job that has failed, and returns which it was. What is to be done is decided once.
func (r *run) fail(l *lease, result error) Outcome {
	reason, then := shown(result), Retried
	why := client.Reason(reason.text)
	var settle func(context.Context) error
	r.attempt(l, "fail", func(ctx context.Context) error {
		if settle != nil {
			return settle(ctx)
		}
		s, err := r.failed(ctx, l.job)
		if err != nil {
			return err
		}
		var wait time.Duration
		wait, then = r.afterFailure(s, r.logger(l).With("failures", s.Failures+1, "error", reason))
		settle = func(ctx context.Context) error { return l.job.Release(ctx, wait, why) }
		if then == Buried {
			settle = func(ctx context.Context) error { return l.job.Bury(ctx, why) }
		}
		return settle(ctx)
	})
	return then
}

// afterFailure returns what becomes of a job that has failed, and how long it waits. A Backoff that fails is replaced by the default one.
func (r *run) afterFailure(s *client.Stats, log *slog.Logger) (wait time.Duration, then Outcome) {
	if s.Retry != "" {
		log.Warn("job failed", "retry", s.Retry)
		return 0, retried(s)
	}
	var again bool
	fault := usercode.Call(func() { wait, again = r.config.Backoff(s.Failures + 1) })
	if fault == nil && again && wait > maxDelay {
		fault = fmt.Errorf("no server can wait for %v", wait)
	}
	if fault != nil {
		log.Error("the Backoff of the worker has failed, so the default one applies", "fault", fault)
		wait, again = defaultBackoff(s.Failures + 1)
	}
	if !again {
		log.Error("job failed for the last time, and is buried")
		return 0, Buried
	}
	log.Warn("job failed", "wait", wait)
	return wait, Retried
}

// failed returns the failures and the retry waits of a job. Servers that do not send both with the job are asked.
func (r *run) failed(ctx context.Context, job *client.Job) (*client.Stats, error) {
	if s := job.Known(); s != nil && r.reasons.Load() {
		return s, nil
	}
	return r.client.JobStats(ctx, job.ID)
}

// attempt settles a job by f. With a lease it tries again while the server fails, until the lease is over, but not what the
// server refuses for good.
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
		level, final := verdict(err)
		if final || l.job.Lease == "" || time.Now().After(deadline) {
			r.config.Logger.Log(r.ended, level, "cannot settle a job, so it may come again", "what", what, "job", l.job.ID, "error", err)
			return
		}
		select {
		case <-time.After(pause):
		case <-r.ended.Done():
			return
		}
	}
}

// refusals are replies that say that settling a job will never be possible.
var refusals = []error{client.ErrForbidden, client.ErrInvalid, client.ErrTooBig, client.ErrUnauthorized, client.ErrUnsupported}

// verdict returns how an error of settling a job is logged, and whether another attempt would fail as well.
func verdict(err error) (level slog.Level, final bool) {
	switch {
	case errors.Is(err, client.ErrNotFound): // somebody else has settled or deleted it
		return slog.LevelInfo, true
	case slices.ContainsFunc(refusals, func(kind error) bool { return errors.Is(err, kind) }):
		return slog.LevelError, true
	}
	return slog.LevelWarn, errors.Is(err, client.ErrClosed)
}
