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
	// tickPatience is how long a tick waits for its partitions, if there are
	// several: while one fails, what is due in the others is not to be late.
	tickPatience = 250 * time.Millisecond

	// tickAgain is when a tick is to be tried again that failed in some.
	tickAgain = 100 * time.Millisecond

	// lateWorthLogging is how late a delay, a TTR or a pause may end unremarked,
	// and lateEvery how often that is remarked on.
	minLoggedLag = time.Second
	logLagEvery  = 10 * time.Second
)

// upkeep is what a partition has done now and then, whatever connections want:
// sending a heartbeat, and doing what is due. Times are by the local clock,
// moved as that of Redis is in tests.
type upkeep struct {
	elsewhere atomic.Bool // the last tick has found something due that another instance has to do

	mu      sync.Mutex
	running bool
	beat    time.Time // of the last heartbeat that was asked for
	due     time.Time // of the next thing, as far as is known
}

// never is a time that does not come.
var never = time.Unix(1<<40, 0)

// dueIn notes that something is due in so long.
func (u *upkeep) dueIn(now time.Time, in time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := now.Add(in); at.Before(u.due) {
		u.due = at
	}
}

// nothingDue notes that whatever was known to be due is done, or is told again.
func (u *upkeep) nothingDue() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.due = never
}

// left is how long until the next thing; while upkeep is under way nothing more
// is due, or whoever asks would do so again and again.
func (u *upkeep) left(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running {
		return heartbeatEvery
	}
	return u.due.Sub(now)
}

// begin returns whether there is something to do, and none under way, and
// whether that is a heartbeat, too. It is asked again after heartbeatEvery at the
// latest: a heartbeat is sent if the next one would come late then.
func (u *upkeep) begin(now time.Time, always bool) (ok, beat bool) {
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

func (u *upkeep) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running = false
}

// tick has the upkeep of the partition done, which has begun; with a heartbeat if beat is
// true. How it ended comes over the channel.
func (p *partition) tick(ended chan<- error, beat bool) {
	u := &unit{upkeep: func(c *call) {
		if beat {
			p.encodeHeartbeat(c)
			p.encodeChangedRefs(c)
			p.encodeTimes(c)
		}
		p.encodeTick(c)
	}}
	u.after = func(err error) {
		p.endTick()
		if p.of > 1 { // whoever began it may not have waited
			left := p.upkeep.left(p.clock.now())
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

// endTick notes that the upkeep has ended.
func (p *partition) endTick() {
	p.ticks.Add(-1)
	p.upkeep.end()
}

// Tick implements storage.Store. It also sends the heartbeats when they are
// due; the time until then bounds what it returns. Each partition has its own
// upkeep, so one that fails holds up none of the others. What other instances know
// to be due is left to them.
func (s *Store) Tick() (time.Duration, error) {
	next, _, err := s.tick(false)
	return next, err
}

const (
	// settlePatience is how long Settle waits for others to do what is theirs to
	// do, and settleAgain how often it looks.
	settlePatience = 200 * time.Millisecond
	settleAgain    = 3 * time.Millisecond
)

// Settle implements storage.Settler. It ticks in all partitions, also where it knows
// of nothing that is due, and while a reservation of another instance has just run
// out, or upkeep is under way that may have begun too early, it does so again.
func (s *Store) TickAll() (time.Duration, error) {
	for begun := time.Now(); ; time.Sleep(settleAgain) {
		next, all, err := s.tick(true)
		if err != nil || all || time.Since(begun) > settlePatience {
			return next, err
		}
	}
}

// tick has the upkeep of those partitions done for which something is due, or of
// all. It returns when the next thing is due, and whether, as far as can be told,
// all is done that was.
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
		next = min(next, p.upkeep.left(p.clock.now()))
		all = all && !p.upkeep.elsewhere.Load()
	}
	if len(errs) > 0 {
		if len(errs) == len(s.parts) {
			return 0, false, errors.Join(errs...)
		}
		next = max(next, tickAgain)
	}
	return next, all, nil
}

// beginTicks begins the upkeep of those partitions for which something is due, or of all for
// which none is under way, and returns with each whether a heartbeat is due. All begin before
// the first one is told what to do, so each knows its share of what may be done.
func (s *Store) beginTicks(always bool) map[*partition]bool {
	begun := make(map[*partition]bool, len(s.parts))
	for _, p := range s.parts {
		if ok, beat := p.upkeep.begin(p.clock.now(), always); ok {
			begun[p] = beat
			p.ticks.Add(1)
		}
	}
	return begun
}

// await collects how the upkeep of that many partitions has ended, if there are
// several not longer than Options.tickPatience.
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

// tardiness tells the operator when what was due was done late: because the
// machine or Redis has too much to do, or more was due at once than can be done
// at once, or there was no instance.
type timerLag struct {
	log *slog.Logger

	mu     sync.Mutex
	logged time.Time     // when it was last remarked on
	times  int           // since then
	most   time.Duration // of these
}

// note takes down how late the latest was of what a tick has done.
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
