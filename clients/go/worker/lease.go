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
	run    *run
	job    *client.Job
	handed *Job            // what the handler gets; nil before it is called
	ctx    context.Context // of the handler
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	settled bool          // somebody has claimed the job
	timer   *time.Timer   // of the heartbeat
	limit   *time.Timer   // of the handler's time; nil: none
	ttr     time.Duration // 0 if not known yet
	touched time.Time     // when the reserve or the last successful touch was sent: the TTR started then or later

	beating  bool      // a beat is under way, which sets the timer at its end
	progress *string   // that the next touch sends; nil: none
	shown    time.Time // when one was sent last
}

// shortestTTR is the TTR of a job as long as it is not known.
const shortestTTR = time.Second

// untilLost is for how long a lease surely holds its job from the last touch on: a little less than the TTR, in which a handler can notice
// that its context has ended before another one gets the job.
func untilLost(ttr time.Duration) time.Duration { return ttr - min(ttr/20, time.Second) }

// firstBeat is when the TTR of a job is asked for if it is not known.
const firstBeat = shortestTTR / 4

// hold makes the lease of a job. It is kept from [lease.keep] on.
func (r *run) hold(job *client.Job) *lease {
	l := &lease{run: r, job: job, touched: job.Reserved}
	l.ctx, l.cancel = context.WithCancelCause(r.abort)
	if s := job.Known(); s != nil {
		l.ttr = max(s.TTR, shortestTTR)
	}
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

func (l *lease) stopping() <-chan struct{}                        { return l.run.stopping }
func (l *lease) stats(ctx context.Context) (*client.Stats, error) { return l.job.Stats(ctx) }
func (l *lease) known() *client.Stats                             { return l.job.Known() }
func (l *lease) token() string                                    { return l.job.Lease }

// claim stops the timers and reports whether the caller is to settle the job: the first one is.
func (l *lease) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return false
	}
	l.settled = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.limit != nil {
		l.limit.Stop()
	}
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

// state returns the TTR, or the shortest one if it is not known, and when it started or earlier.
func (l *lease) state() (ttr time.Duration, touched time.Time, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ttr == 0 {
		return shortestTTR, l.touched, false
	}
	return l.ttr, l.touched, true
}

// keep starts the heartbeat before the handler is called. If a good part of the TTR may be over, since the reply to the
// reserve came late, it touches the job first. An error means that the job is not surely held.
func (l *lease) keep() error {
	ttr, touched, known := l.state()
	if time.Since(touched) > ttr/3 && !known {
		ctx, stop := context.WithTimeout(l.ctx, settleTimeout)
		err := l.askTTR(ctx)
		stop()
		if err != nil {
			return err
		}
		ttr, touched, _ = l.state()
	}
	if time.Since(touched) > ttr/3 {
		ctx, stop := context.WithTimeout(l.ctx, ttr)
		defer stop()
		if err := l.touch(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return errSettled
	}
	l.timer = time.AfterFunc(l.rest(nil), l.beat)
	return nil
}

var errSettled = errors.New("the job was given back")

// beat touches the job, or asks for its TTR, and sets the timer for the next time. The context of the handler ends
// when the lease may be lost soon.
func (l *lease) beat() {
	l.mu.Lock()
	l.beating = true
	l.mu.Unlock()
	ttr, touched, known := l.state()
	ctx, stop := context.WithDeadline(context.Background(), touched.Add(untilLost(ttr)))
	defer stop()
	var err error
	if !known {
		err = l.askTTR(ctx)
	} else {
		err = l.touch(ctx)
	}
	lost := errors.Is(err, client.ErrNotFound)
	cause := ErrLeaseLost
	if lost {
		cause = l.whyLost(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beating = false
	if l.settled {
		return
	}
	if rest := l.rest(err); rest > 0 && !lost {
		l.timer.Reset(rest)
		return
	}
	l.cancel(cause)
}

// whyLost returns the cause for a job that is no longer held: whether it is nowhere else.
func (l *lease) whyLost(ctx context.Context) error {
	if _, err := l.run.client.JobStats(ctx, l.job.ID); errors.Is(err, client.ErrNotFound) {
		return ErrDeleted
	}
	return ErrLeaseLost
}

// rest returns how long the next beat can wait after one with this result: never longer than [untilLost]. If it is not
// positive, that time is over. The caller holds l.mu.
func (l *lease) rest(err error) time.Duration {
	rest := l.untilTouch(err)
	if l.progress != nil && err == nil && l.ttr != 0 {
		rest = min(rest, max(time.Until(l.shown.Add(betweenProgress)), 1))
	}
	return rest
}

func (l *lease) untilTouch(err error) time.Duration {
	since := time.Since(l.touched)
	switch {
	case l.ttr == 0:
		return min(firstBeat, untilLost(shortestTTR)-since)
	case err != nil:
		return min(l.ttr/10, time.Second, untilLost(l.ttr)-since)
	case since < untilLost(l.ttr):
		return max(l.ttr/3-since, 1)
	}
	return 0
}

// touch starts the TTR again, and sends the progress that is left.
func (l *lease) touch(ctx context.Context) error {
	text := l.unsent()
	if text == nil {
		return l.renew(func() error { return l.job.Touch(ctx) })
	}
	err := l.renew(func() error { return l.job.TouchProgress(ctx, *text) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.progress == text {
		l.progress = nil
	}
	return err
}

// renew sends a command that starts the TTR again, from the time at which it was sent or later.
func (l *lease) renew(send func() error) error {
	now := time.Now()
	err := send()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && now.After(l.touched) {
		l.touched = now
	}
	return err
}

// askTTR asks for the TTR of the job.
func (l *lease) askTTR(ctx context.Context) error {
	s, err := l.job.Stats(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttr = max(s.TTR, shortestTTR)
	return nil
}
