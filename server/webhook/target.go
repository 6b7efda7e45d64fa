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
	// After breakAfter failed calls in a row, the circuit breaker of a target opens for
	// breakFor. Then one call at a time tries the target, until one succeeds.
	breakAfter = 10
	breakFor   = 30 * time.Second

	// justAfter is how long after the end of breakFor waiters are woken, so that the
	// breaker lets a call through by then.
	justAfter = 10 * time.Millisecond

	// leastShare is how many calls a target can always have, regardless of other calls.
	leastShare = 4

	// maxUnused limits the unused targets that are remembered: targets of gateways whose last
	// calls have failed.
	maxUnused = 1000
)

// ErrBreakerOpen is returned if calls to a target have failed repeatedly, so that it gets no
// calls for a while.
var ErrBreakerOpen = errors.New("the circuit breaker of the target is open")

// errNeutral reports to a breaker a call that says nothing about its target.
var errNeutral = errors.New("neither a success nor a failure")

// errFailed reports to a breaker any other failed call.
var errFailed = errors.New("failed")

// target is a scheme, host and port that gets calls. Dispatcher.mu guards it.
type target struct {
	name    string
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	log     telemetry.Throttle // of failed calls

	openUntil time.Time // until when the breaker is open, if it was opened

	users   int      // subscriptions, and calls of Through
	active  int      // calls, and jobs that are about to be called
	waiting []waiter // they wait for a call to end, or for the breaker
	timer   bool     // a timer is set that wakes them when the breaker lets a call through
	tripped bool     // the breaker has refused a call since it last closed
}

// waiter waits for a target: a subscription, or a call of Through, whose channel is closed.
type waiter struct {
	sub   *subscription
	woken chan struct{}
}

// TargetOf returns the name of the target of a URL, for Through.
func TargetOf(u *url.URL) string {
	name := strings.ToLower(u.Scheme + "://" + u.Host)
	switch u.Port() {
	case "":
		return name + map[string]string{"http": ":80", "https": ":443"}[strings.ToLower(u.Scheme)]
	}
	return name
}

// refTarget returns a target and adds a user. The lock is held.
func (d *Dispatcher) refTarget(name string) *target {
	t := d.targets[name]
	if t == nil {
		t = &target{name: name}
		t.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: name, Timeout: breakFor, MaxRequests: 1,
			ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
			IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
			OnStateChange: func(_ string, _, to gobreaker.State) { d.breakerChanged(t, to) },
		})
		d.targets[name] = t
	}
	t.users++
	return t
}

// unrefTarget removes a user. The lock is held.
func (d *Dispatcher) unrefTarget(t *target) {
	t.users--
	d.forgetUnused(t)
}

// forgetUnused forgets a target without users, unless the state of its breaker must be
// remembered. The lock is held.
func (d *Dispatcher) forgetUnused(t *target) {
	sound := t.breaker.State() == gobreaker.StateClosed && t.breaker.Counts().ConsecutiveFailures == 0
	if t.users == 0 && t.active == 0 && (sound || len(d.targets) > maxUnused) {
		delete(d.targets, t.name)
	}
}

// breakerChanged is called by the breaker when its state changes. The lock is held, as in
// every call of a breaker.
func (d *Dispatcher) breakerChanged(t *target, to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		t.openUntil = time.Now().Add(breakFor)
		d.config.Log.Warn("a push target keeps failing, and gets no calls for a while", "target", t.name, "for", breakFor)
	case gobreaker.StateClosed:
		d.config.Log.Info("a push target answers again", "target", t.name)
	}
}

// permit allows one call to a target. Its holder calls it with the outcome of the call.
type permit func(error)

// share returns how many calls one target, or one gateway's tube, can have: a quarter of the
// remaining calls, and at least leastShare. So a few slow targets never use up all calls. The
// lock is held.
func (d *Dispatcher) share() int { return max(leastShare, (d.config.Calls-d.leased)/4) }

// freeCalls returns how many more calls a target can have. The result can be negative. The
// lock is held.
func (d *Dispatcher) freeCalls(t *target) int {
	return min(d.config.TargetConcurrency, d.share()) - t.active
}

// enter returns a permit, or nil if the target has enough calls or its breaker is open. The
// lock is held.
func (d *Dispatcher) enter(t *target) permit {
	if d.freeCalls(t) <= 0 {
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

// addWaiter adds a waiter, which is woken when enter can succeed. The lock is held.
func (d *Dispatcher) addWaiter(t *target, w waiter) {
	t.waiting = append(t.waiting, w)
	d.wakeWaiting(t)
}

// exit ends a call to a target. The lock is held.
func (d *Dispatcher) exit(t *target) {
	t.active--
	d.wakeWaiting(t)
	if t.users == 0 {
		d.forgetUnused(t)
	}
}

// wakeWaiting wakes as many waiters as can enter, or makes sure that they are woken later.
// The lock is held.
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
		if n = d.freeCalls(t); t.tripped && n > 0 {
			n, t.tripped = len(t.waiting), false
		}
	}
	n = min(max(n, 0), len(t.waiting))
	woken := t.waiting[:n]
	t.waiting = t.waiting[n:]
	for _, w := range woken {
		if w.sub == nil {
			close(w.woken)
			continue
		}
		w.sub.blocked = false
		if w.sub.backlog {
			d.enqueue(w.sub)
		}
	}
}

func (d *Dispatcher) timerFired(t *target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.timer = false
	d.wakeWaiting(t)
}

// Through runs call under the concurrency limit and the circuit breaker of a target, such as
// "grpc://host:port". If the limit is reached, it waits as long as ctx lasts. While the
// breaker is open, it returns ErrBreakerOpen and does not run call. An error of call counts
// as a failure of the target, and is returned.
func (d *Dispatcher) Through(ctx context.Context, name string, call func(context.Context) error) error {
	d.mu.Lock()
	t := d.refTarget(strings.ToLower(name))
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.unrefTarget(t)
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
		d.exit(t)
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
			return nil, ErrBreakerOpen
		}
		w := waiter{woken: make(chan struct{})}
		d.addWaiter(t, w)
		d.mu.Unlock()
		select {
		case <-w.woken:
		case <-ctx.Done():
			d.mu.Lock()
			t.waiting = slices.DeleteFunc(t.waiting, func(other waiter) bool { return other == w })
			d.wakeWaiting(t) // in case w was woken instead of another waiter
			d.mu.Unlock()
			return nil, ctx.Err()
		}
	}
}
