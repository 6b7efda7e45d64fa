package server

import (
	"log/slog"
	"sync"
	"time"

	"redstalk/storage"
)

const (
	// lookEvery is how often some of those in the hall are served without a hint,
	// in case one was lost.
	lookEvery = time.Second

	// lagWorthLogging is how late the bell may ring unremarked, and lagEvery how
	// often that is remarked on.
	lagWorthLogging = 250 * time.Millisecond
	lagEvery        = 10 * time.Second

	// retryTick is when a Tick that failed is tried again.
	retryTick = 100 * time.Millisecond
)

// bell is the one timer of a server. It calls the store's Tick when the next
// thing is due, when the limit of somebody in the hall has come, and at least
// every lookEvery, when it also has the hall look.
type bell struct {
	store storage.Store
	hall  *hall
	log   *slog.Logger

	quit chan struct{}
	done chan struct{}

	mu    sync.Mutex
	timer *time.Timer
	rings time.Time // when the timer fires; far in the future while ticking

	// The rest belongs to run.
	lagTold time.Time     // when a lag was last remarked on
	lags    int           // since then
	mostLag time.Duration // of these
}

func newBell(store storage.Store, h *hall, log *slog.Logger) *bell {
	return &bell{
		store: store, hall: h, log: log,
		quit: make(chan struct{}), done: make(chan struct{}),
		timer: time.NewTimer(0), rings: time.Now(),
	}
}

func (b *bell) start() { go b.run() }

func (b *bell) stop() {
	close(b.quit)
	<-b.done
}

// Due implements storage.Listener.
func (b *bell) Due(in time.Duration) {
	b.set(time.Now().Add(min(in, lookEvery)), false)
}

// set arms the timer for at; unless again, only to make it earlier.
func (b *bell) set(at time.Time, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if again || at.Before(b.rings) {
		b.rings = at
		b.timer.Reset(time.Until(at))
	}
}

func (b *bell) run() {
	defer close(b.done)
	defer b.timer.Stop()
	lastLook := time.Now()
	for {
		select {
		case <-b.quit:
			return
		case <-b.timer.C:
		}
		b.noteLag()
		// From here on a Due must win over what Tick returned earlier, so
		// the timer is armed before Tick and only moved forward after it.
		now := time.Now()
		b.set(now.Add(lookEvery), true)
		if now.Sub(lastLook) >= lookEvery {
			lastLook = now
			b.hall.look()
		}
		next := b.tick(b.hall.tickBegins())
		b.hall.tickEnded(next > 0)
		b.Due(next)
	}
}

func (b *bell) noteLag() {
	b.mu.Lock()
	lag := time.Since(b.rings)
	b.mu.Unlock()
	if lag <= lagWorthLogging {
		return
	}
	b.lags, b.mostLag = b.lags+1, max(b.mostLag, lag)
	if now := time.Now(); now.Sub(b.lagTold) >= lagEvery {
		b.log.Warn("the timer rang late; delays and TTRs are late with it", "by", b.mostLag, "times", b.lags)
		b.lagTold, b.lags, b.mostLag = now, 0, 0
	}
}

// tick returns when the next thing is due, zero or less if that is now. Where
// somebody waits for all to be done that is due, it is made sure of that. A Tick that
// fails is tried again later.
func (b *bell) tick(settle bool) time.Duration {
	tick := b.store.Tick
	if its, is := b.store.(storage.Settler); is && settle {
		tick = its.Settle
	}
	next, err := tick()
	if err != nil {
		b.log.Debug("tick failed", "err", err)
		return retryTick
	}
	return next
}
