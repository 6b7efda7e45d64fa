package queue

import (
	"log/slog"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/body"
	"redstalk/storage/telemetry"
)

const (
	// lagWorthLogging is how late the timer can fire without a line in the log.
	lagWorthLogging = 250 * time.Millisecond

	// retryTick is how long after a failed Tick the next one is tried.
	retryTick = 100 * time.Millisecond
)

// timer is the one timer of a store. It calls Tick when the next thing is due, when the
// limit of a wait is reached, and at least every RetryEvery. Then it also schedules the
// first wait of each waitlist, in case a wake-up was lost, and frees memory for bodies that
// was idle.
type timer struct {
	store  storage.Store
	lists  *waitlists
	bodies *body.Pool
	log    *slog.Logger

	quit  <-chan struct{} // closed when run must end
	ended chan struct{}   // closed when run has ended

	mu    sync.Mutex
	timer *time.Timer
	at    time.Time     // when the timer fires, or should have fired
	last  time.Duration // how late it was when it fired last
	done  time.Time     // nothing that was due was left then. What was due before has come since, by a start, a set clock or from the disk

	// The rest belongs to run.
	late    telemetry.Throttle
	mostLag time.Duration // since the last log line about it
}

func newTimer(store storage.Store, lists *waitlists, bodies *body.Pool, log *slog.Logger, quit <-chan struct{}) *timer {
	now := time.Now()
	return &timer{
		store: store, lists: lists, bodies: bodies, log: log,
		quit: quit, ended: make(chan struct{}),
		timer: time.NewTimer(0), at: now, done: now,
	}
}

// due makes the timer fire after that time or earlier.
func (t *timer) due(in time.Duration) {
	t.set(time.Now().Add(min(in, RetryEvery)), false)
}

// set arms the timer for at. Unless again is set, it only makes the timer earlier. The timer is not late for what came
// late.
func (t *timer) set(at time.Time, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Before(t.done) {
		at = t.done
	}
	if again || at.Before(t.at) {
		t.at = at
		t.timer.Reset(time.Until(at))
	}
}

// run is the timer's goroutine.
func (t *timer) run() {
	defer close(t.ended)
	defer t.timer.Stop()
	lastRetry := time.Now()
	for {
		select {
		case <-t.quit:
			return
		case <-t.timer.C:
		}
		t.logLag()
		// From here on a call of due takes precedence over what Tick returned earlier, so the timer
		// is armed before Tick and only moved forward after it.
		now := time.Now()
		t.set(now.Add(RetryEvery), true)
		if now.Sub(lastRetry) >= RetryEvery {
			lastRetry = now
			t.lists.retryFirsts()
			t.bodies.Trim()
		}
		next := t.tick(t.lists.tickBegins())
		t.lists.tickEnded(next > 0)
		t.due(next)
	}
}

// logLag logs that the timer fired late, but not every time.
func (t *timer) logLag() {
	t.mu.Lock()
	lag := time.Since(t.at)
	t.last = lag
	t.mu.Unlock()
	if lag <= lagWorthLogging {
		return
	}
	t.mostLag = max(t.mostLag, lag)
	if dropped, pass := t.late.Allow(); pass {
		t.log.Warn("the timer fired late; delays and TTRs are late with it", "by", t.mostLag, "times", dropped+1)
		t.mostLag = 0
	}
}

// tick calls the store's Tick and returns when the next thing is due; zero or less means
// now. With all set, everything that is due is done, also what is due for other servers on
// the same store. A Tick that fails is tried again later.
func (t *timer) tick(all bool) time.Duration {
	tick := t.store.Tick
	if all && t.store.Shared() {
		tick = t.store.TickAll
	}
	began := time.Now()
	next, err := tick()
	if err != nil {
		t.log.Debug("tick failed", "err", err)
		return retryTick
	}
	if next > 0 {
		t.mu.Lock()
		t.done = began
		t.mu.Unlock()
	}
	return next
}
