package embedded

import (
	"time"

	"redstalk/tube"
)

const (
	// leastStep is the smallest difference of the wall clock that is followed. It exceeds how much time passes
	// between the readings of two clocks.
	leastStep = tube.Instant(50 * time.Millisecond)

	// leastSetBack is from which step back the listener is told.
	leastSetBack = time.Second
)

// now returns the time of the machine: that of the wall clock when the engine was made, plus the time
// of the monotonic clock since then. No step of the wall clock changes it.
func (e *Engine) now() tube.Instant {
	now, _ := e.readClocks()
	return now
}

// readClocks returns the time of the machine, and how far the wall clock is ahead of it, in whole milliseconds.
func (e *Engine) readClocks() (now, ahead tube.Instant) {
	t := e.clock()
	now = tube.Instant(e.start.UnixNano() + int64(t.Sub(e.start)))
	ahead = tube.Instant(t.UnixNano()) - now
	return now, ahead - ahead%tube.Instant(time.Millisecond)
}

// followWallClock returns the time, and tells the machine if the wall clock was set, or has gone on while the
// computer slept. It is called at the beginning of each hold of the lock, and so at least with every Tick: once a second.
func (e *Engine) followWallClock() tube.Instant {
	now, ahead := e.readClocks()
	if !isStep(ahead - e.machine.WallAhead()) {
		return now
	}
	again, confirmed := e.readClocks()
	if isStep(confirmed - ahead) { // the process was stopped in between
		return again
	}
	e.setBack += time.Duration(e.machine.WallAhead() - ahead)
	e.machine.SetWallClock(ahead)
	return again
}

func isStep(by tube.Instant) bool { return by >= leastStep || by <= -leastStep }

// takeSetBack returns by how much the wall clock was set back since the listener was told; 0 if that is not worth it. The
// lock is held.
func (e *Engine) takeSetBack() time.Duration {
	by := e.setBack
	if e.setBack = 0; by < leastSetBack {
		return 0
	}
	return by
}

// sendSetBack passes that on to the listener. The lock is not held.
func (e *Engine) sendSetBack(by time.Duration) {
	if by > 0 {
		e.listener.ClockSetBack(by)
	}
}
