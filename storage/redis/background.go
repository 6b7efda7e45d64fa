package redis

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
)

const (
	// tickPatience is how long a tick waits for several partitions: while one fails, the others
	// must not be late.
	tickPatience = 250 * time.Millisecond

	// tickAgain is when a tick is tried again after it has failed in some partitions.
	tickAgain = 100 * time.Millisecond

	// minLoggedLag is from which lateness of a delay, TTR or pause on it is logged, and
	// logLagEvery how often.
	minLoggedLag = time.Second
	logLagEvery  = 10 * time.Second
)

// background schedules the background work of a partition: heartbeats, and what is due. Times are
// by the local clock, which is moved like that of Redis in tests.
type background struct {
	elsewhere atomic.Bool // another instance has something due, as of the last tick

	mu      sync.Mutex
	running bool
	beat    time.Time // when the last heartbeat was requested
	due     time.Time // when the next thing is due, as far as known
}

// never is a time in the distant future.
var never = time.Unix(1<<40, 0)

// dueIn records that something will be due.
func (u *background) dueIn(now time.Time, in time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := now.Add(in); at.Before(u.due) {
		u.due = at
	}
}

// nothingDue records that what was known to be due is done, or will be reported again.
func (u *background) nothingDue() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.due = never
}

// left returns how long it is until the next thing is due. While a tick is under way nothing
// more is due, so that the timer does not ask again and again.
func (u *background) left(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running {
		return heartbeatEvery
	}
	return u.due.Sub(now)
}

// begin returns whether there is something to do while nothing is under way, and whether that
// includes a heartbeat. It is called at least every heartbeatEvery: a heartbeat is sent if the
// next one would be late.
func (u *background) begin(now time.Time, always bool) (ok, beat bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	beat = now.Sub(u.beat) >= heartbeatEvery/2
	if u.running || !always && !beat && u.due.After(now) {
		return false, false
	}
	if beat {
		u.beat = now
	}
	u.running = true
	return true, beat
}

func (u *background) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running = false
}

// tick submits the background work of the partition, which has begun; with a heartbeat if beat
// is true. The result is sent to the channel.
func (p *partition) tick(ended chan<- error, beat bool) {
	u := &unit{background: func(c *call) {
		if beat {
			p.encodeHeartbeat(c)
			p.encodeChangedRefs(c)
			p.encodeTimes(c)
		}
		p.encodeTick(c)
	}}
	u.after = func(err error) {
		p.endTick()
		if p.of > 1 { // nobody may be waiting for the channel
			left := p.background.left(p.clock.now())
			if err != nil {
				left = max(left, tickAgain)
			}
			p.listener.Due(left)
		}
		ended <- err
	}
	if !p.submit(u) {
		p.endTick()
		ended <- storage.ErrClosed
	}
}

// endTick records that the background work has ended.
func (p *partition) endTick() {
	p.ticks.Add(-1)
	p.background.end()
}

// Tick implements storage.Store. It also sends the heartbeats when they are due; the result is
// never later than the next one. Each partition has its own background work, so one that fails
// does not hold up the others. What other instances know to be due is left to them.
func (s *Store) Tick() (time.Duration, error) {
	next, _, err := s.tick(false)
	return next, err
}

const (
	// settlePatience is how long TickAll waits for other instances to do what is theirs, and
	// settleAgain how often it looks.
	settlePatience = 200 * time.Millisecond
	settleAgain    = 3 * time.Millisecond
)

// Shared implements storage.Store.
func (s *Store) Shared() bool { return true }

// TickAll ticks in all partitions, including those where nothing is known to be due. It repeats
// that while a reservation of another instance has just expired, or a tick is under way that
// may have begun too early.
func (s *Store) TickAll() (time.Duration, error) {
	for begun := time.Now(); ; time.Sleep(settleAgain) {
		next, all, err := s.tick(true)
		if err != nil || all || time.Since(begun) > settlePatience {
			return next, err
		}
	}
}

// tick does the background work of the partitions for which something is due, or of all. It
// returns when the next thing is due, and whether everything that was due is done, as far as
// known.
func (s *Store) tick(everywhere bool) (next time.Duration, all bool, err error) {
	ended := make(chan error, len(s.parts))
	begun := s.beginTicks(everywhere || len(s.parts) == 1)
	for p, beat := range begun {
		p.tick(ended, beat)
	}
	all = len(begun) == len(s.parts)
	errs := s.await(ended, len(begun))
	next = heartbeatEvery
	for _, p := range s.parts {
		next = min(next, p.background.left(p.clock.now()))
		all = all && !p.background.elsewhere.Load()
	}
	if len(errs) > 0 {
		if len(errs) == len(s.parts) {
			return 0, false, errors.Join(errs...)
		}
		next = max(next, tickAgain)
	}
	return next, all, nil
}

// beginTicks begins the background work of the partitions for which something is due, or of all
// for which none is under way. It returns with each whether a heartbeat is due. All begin
// before the first one is encoded, so that each knows its share of the step size.
func (s *Store) beginTicks(always bool) map[*partition]bool {
	begun := make(map[*partition]bool, len(s.parts))
	for _, p := range s.parts {
		if ok, beat := p.background.begin(p.clock.now(), always); ok {
			begun[p] = beat
			p.ticks.Add(1)
		}
	}
	return begun
}

// await collects the results of that many partitions. If there are several it waits for at most
// Options.tickPatience.
func (s *Store) await(ended <-chan error, begun int) (errs []error) {
	var enough <-chan time.Time
	if len(s.parts) > 1 && begun > 0 {
		timer := time.NewTimer(s.parts[0].options.tickPatience)
		defer timer.Stop()
		enough = timer.C
	}
	for range begun {
		select {
		case err := <-ended:
			if err != nil {
				errs = append(errs, err)
			}
		case <-enough:
			return append(errs, storage.ErrUnavailable)
		}
	}
	return errs
}

// timerLag logs when due things were done late: because the machine or Redis is overloaded,
// because more was due at once than can be done at once, or because there was no instance.
type timerLag struct {
	log *slog.Logger

	mu     sync.Mutex
	logged time.Time     // when it was last logged
	times  int           // since then
	most   time.Duration // of these
}

// record records how late the latest thing was that a tick has done.
func (t *timerLag) record(late time.Duration) {
	if late < minLoggedLag {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times, t.most = t.times+1, max(t.most, late)
	if now := time.Now(); now.Sub(t.logged) >= logLagEvery {
		t.log.Warn("delays, TTRs or pauses have ended late", "by", t.most, "times", t.times)
		t.logged, t.times, t.most = now, 0, 0
	}
}
