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
