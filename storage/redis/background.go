package redis

import (
	"errors"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// tickPatience is how long a tick waits for several partitions: while one fails, the others
	// must not be late.
	tickPatience = 250 * time.Millisecond

	// tickAgain is when a tick is tried again after it has failed in some partitions.
	tickAgain = 100 * time.Millisecond
)

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

// encodeTick does what is due. It comes last in the call, because operations before it need not
// know which jobs expire in it. All partitions whose ticks are under way share one step size:
// they can be on one Redis, and then others wait for all of them.
func (p *partition) encodeTick(c *call) {
	c.last = append(c.last, func(c *call) {
		c.add(p.readTick, "tick", max(max(c.stepSize(&p.stepSizes.tick), leastDue)/max(int(p.ticks.Load()), 1), tickLeast))
	})
}

// readTick reads how late the latest thing was that a tick has done, whether another instance
// has something due, which jobs have expired, how many dead letters are pending, whether a record of each kind
// is due, and which reservations were flushed.
func (p *partition) readTick(r *reply) {
	p.timerLag.record(r.ms())
	p.background.elsewhere.Store(r.found())
	for range r.int64() {
		p.holdings.drop(r.key())
	}
	p.background.nothingDue()
	if r.int64() > 0 {
		p.deadLetters.begin(p)
	}
	for kind := range p.background.recordsDue {
		if r.found() {
			p.background.recordsDue[kind].Store(true)
			p.listener.RecordsDue(tube.RecordKind(kind))
		}
	}
	p.dropFlushed(r)
}
