package tube

// base is what all parts of a Machine share.
type base struct {
	alarms  alarms
	journal Journal // nil if nothing has to survive
	ahead   Instant // how far the wall clock is ahead, see SetWallClock
}

// SetJournal sets the journal that receives the changes from now on; nil: none.
func (b *base) SetJournal(j Journal) { b.journal = j }

// WallAhead returns what SetWallClock has set.
func (b *base) WallAhead() Instant { return b.ahead }

// Wall converts an instant to a wall time. 0 and Never stay what they are.
func (b *base) Wall(i Instant) Instant { return i.shifted(b.ahead) }

// fromWall is the reverse of Wall.
func (b *base) fromWall(i Instant) Instant { return i.shifted(-b.ahead) }

// alarm is when something is due next.
type alarm struct {
	at    Instant
	owner interface {
		// fire does one thing that is due, and sets the alarm to the next one.
		fire(m *Machine, now Instant)
	}
	pos  int32 // its index in alarms, counted from 1; 0: it is not set
	last bool  // it comes behind everything else that is due at the same instant
}

// alarms are the alarms that are set.
type alarms struct{ heap[*alarm] }

func newAlarms() alarms {
	return alarms{heap[*alarm]{moved: func(a *alarm, to int) { a.pos = int32(to) + 1 }}}
}

func (a *alarm) before(other *alarm) bool {
	return a.at < other.at || a.at == other.at && other.last && !a.last
}

// set sets x to the instant at, or removes it if at is Never.
func (a *alarms) set(x *alarm, at Instant) {
	switch {
	case x.pos > 0 && at == Never:
		a.remove(int(x.pos) - 1)
	case x.pos > 0 && at != x.at:
		x.at = at
		a.fix(int(x.pos)-1, x)
	case x.pos == 0 && at != Never:
		x.at = at
		a.add(x)
	}
}

// next returns when the earliest alarm is due, or Never.
func (a *alarms) next() Instant {
	if a.len() == 0 {
		return Never
	}
	return a.first().at
}
