package webhook

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"redstalk/storage/telemetry"
)

const (
	// breakAfter is how many calls in a row fail before a target is left alone, and
	// breakFor is for how long. Then one call at a time tries it, until one succeeds.
	breakAfter = 10
	breakFor   = 30 * time.Second

	// justAfter is how much later than a breaker the timer ends that it is waited for with.
	justAfter = 10 * time.Millisecond

	// leastShare is how many calls a target may have however many there are of others.
	leastShare = 4

	// maxUnused bounds the targets that are kept although nothing leads to them: those of
	// gateways, whose last calls have failed.
	maxUnused = 1000
)

// ErrLeftAlone: the target has failed again and again, and is left alone for a while.
var ErrLeftAlone = errors.New("the target is left alone for a while")

// errNeutral tells a breaker of a call that says nothing about its target.
var errNeutral = errors.New("neither a success nor a failure")

// errFailed tells a breaker of any other call that has failed.
var errFailed = errors.New("failed")

// target is a scheme, host and port that is called. Dispatcher.mu guards it.
type target struct {
	name    string
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	log     telemetry.Log // of calls that failed

	openUntil time.Time // when the breaker was opened, until when it is

	users   int      // outlets, and calls of Through
	active  int      // calls, and jobs that are about to be called
	waiting []waiter // for a call to end, or for the breaker
	timer   bool     // one is set that wakes them when the breaker lets a call through
	tripped bool     // the breaker has refused a call since it was last closed
}

// waiter waits for a target: an outlet, or a call of Through, whose channel is closed.
type waiter struct {
	outlet *outlet
	woken  chan struct{}
}

// TargetOf returns the name of the target that a URL leads to, for Through.
func TargetOf(u *url.URL) string {
	name := strings.ToLower(u.Scheme + "://" + u.Host)
	switch u.Port() {
	case "":
		return name + map[string]string{"http": ":80", "https": ":443"}[strings.ToLower(u.Scheme)]
	}
	return name
}

// targetOf returns a target, which has one user more. The lock is held.
func (d *Dispatcher) targetOf(name string) *target {
	t := d.targets[name]
	if t == nil {
		t = &target{name: name}
		t.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: name, Timeout: breakFor, MaxRequests: 1,
			ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
			IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
			OnStateChange: func(_ string, _, to gobreaker.State) { d.noteBreaker(t, to) },
		})
		d.targets[name] = t
	}
	t.users++
	return t
}

// leaveTarget ends a use. The lock is held.
func (d *Dispatcher) leaveTarget(t *target) {
	t.users--
	d.forgetUnused(t)
}

// forgetUnused forgets a target that nothing leads to any more, unless its breaker is to be
// kept in mind. The lock is held.
func (d *Dispatcher) forgetUnused(t *target) {
	sound := t.breaker.State() == gobreaker.StateClosed && t.breaker.Counts().ConsecutiveFailures == 0
	if t.users == 0 && t.active == 0 && (sound || len(d.targets) > maxUnused) {
		delete(d.targets, t.name)
	}
}

// noteBreaker is called by the breaker when it changes. The lock is held, as in every call of a
// breaker.
func (d *Dispatcher) noteBreaker(t *target, to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		t.openUntil = time.Now().Add(breakFor)
		d.config.Log.Warn("a target of pushes fails again and again, and is left alone for a while", "target", t.name, "for", breakFor)
	case gobreaker.StateClosed:
		d.config.Log.Info("a target of pushes answers again", "target", t.name)
	}
}

// permit is the leave to call a target once. Its holder tells it how the call has ended.
type permit func(error)

// share is how many calls one target, or one gateway's tube, may have: a quarter of the places
// that are left, but always a few. So it takes very many slow ones until there are no places
// for others. The lock is held.
func (d *Dispatcher) share() int { return max(leastShare, (d.config.Calls-d.leased)/4) }

// room returns how many calls more a target may have; none if that is not more than 0. The lock
// is held.
func (d *Dispatcher) room(t *target) int {
	return min(d.config.TargetConcurrency, d.share()) - t.active
}

// enter returns a permit, or nil if the target has enough calls or is left alone. The lock is
// held.
func (d *Dispatcher) enter(t *target) permit {
	if d.room(t) <= 0 {
		return nil
	}
	done, err := t.breaker.Allow()
	if err != nil {
		t.tripped = true
		return nil
	}
	t.active++
	return done
}

// wait has a waiter woken when it is worth to try again to enter. The lock is held.
func (d *Dispatcher) wait(t *target, w waiter) {
	t.waiting = append(t.waiting, w)
	d.wakeWaiting(t)
}

// left ends a call to a target. The lock is held.
func (d *Dispatcher) left(t *target) {
	t.active--
	d.wakeWaiting(t)
	if t.users == 0 {
		d.forgetUnused(t)
	}
}

// wakeWaiting wakes as many as may enter, or sees to it that they are later. The lock is held.
func (d *Dispatcher) wakeWaiting(t *target) {
	if len(t.waiting) == 0 {
		return
	}
	n := 0
	switch t.breaker.State() {
	case gobreaker.StateOpen:
		if !t.timer {
			t.timer = true
			time.AfterFunc(time.Until(t.openUntil)+justAfter, func() { d.timerFired(t) })
		}
	case gobreaker.StateHalfOpen:
		if t.active == 0 {
			n = 1
		}
	default:
		if n = d.room(t); t.tripped && n > 0 {
			n, t.tripped = len(t.waiting), false
		}
	}
	n = min(max(n, 0), len(t.waiting))
	woken := t.waiting[:n]
	t.waiting = t.waiting[n:]
	for _, w := range woken {
		if w.outlet == nil {
			close(w.woken)
			continue
		}
		w.outlet.blocked = false
		if w.outlet.hungry {
			d.want(w.outlet)
		}
	}
}

func (d *Dispatcher) timerFired(t *target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.timer = false
	d.wakeWaiting(t)
}

// Through runs call under the concurrency and the breaker of a target, such as
// "grpc://host:port", for which it waits as long as ctx lasts. It returns ErrLeftAlone, and
// does not run call, while the breaker is open. An error of call counts as a failure of the
// target, and is returned.
func (d *Dispatcher) Through(ctx context.Context, name string, call func(context.Context) error) error {
	d.mu.Lock()
	t := d.targetOf(strings.ToLower(name))
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leaveTarget(t)
	}()
	leave, err := d.enterOrWait(ctx, t)
	if err != nil {
		return err
	}
	failed := errFailed // unless call returns
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		leave(failed)
		d.left(t)
	}()
	err = call(ctx)
	switch failed = err; {
	case err != nil && d.calling.Err() != nil:
		failed = errNeutral
	case err != nil:
		failed = errFailed
	}
	return err
}

func (d *Dispatcher) enterOrWait(ctx context.Context, t *target) (permit, error) {
	for {
		d.mu.Lock()
		if p := d.enter(t); p != nil {
			d.mu.Unlock()
			return p, nil
		}
		if t.breaker.State() != gobreaker.StateClosed {
			d.mu.Unlock()
			return nil, ErrLeftAlone
		}
		w := waiter{woken: make(chan struct{})}
		d.wait(t, w)
		d.mu.Unlock()
		select {
		case <-w.woken:
		case <-ctx.Done():
			d.mu.Lock()
			t.waiting = slices.DeleteFunc(t.waiting, func(other waiter) bool { return other == w })
			d.wakeWaiting(t) // in case that w was woken instead of another holder
			d.mu.Unlock()
			return nil, ctx.Err()
		}
	}
}
