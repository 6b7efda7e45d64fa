package transcript

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// untimedTolerance is how late a transcript may be played that asks for no times: the ages of
// jobs that pages tell, in whole seconds, are then others than it expects.
const untimedTolerance = time.Second

// maxPlays limits how often PlayInTime plays a transcript.
const maxPlays = 5

// A LateError reports that a timed transcript went wrong while it was played late:
// its steps, and the replies that were waited for, took longer than they should
// by more than [Target.Tolerance]. So what went wrong may be the fault of the
// machine. An untimed transcript is late only from untimedTolerance on.
type LateError struct {
	By  time.Duration // in all
	Err error         // what went wrong
}

// Error says how late it was, and what went wrong.
func (e *LateError) Error() string {
	return fmt.Sprintf("played %v late: %v", e.By.Round(time.Millisecond), e.Err)
}

// Unwrap returns what went wrong.
func (e *LateError) Unwrap() error { return e.Err }

// replays lets one transcript be played again at a time: many at once may be why
// they are late.
var replays sync.Mutex

// PlayInTime plays t until a play holds, or fails in time. Each play is on a
// server of its own, which fresh starts and stop ends. If all of five plays were
// late and failed, the error says so and is that of the last one.
func PlayInTime(ctx context.Context, t *Transcript, fresh func() (target Target, stop func(), err error)) error {
	play := func() error {
		target, stop, err := fresh()
		if err != nil {
			return err
		}
		defer stop()
		return Play(ctx, t, target)
	}
	err := play()
	for plays := 1; ; plays++ {
		if _, late := errors.AsType[*LateError](err); !late {
			return err
		}
		if plays == maxPlays {
			break
		}
		err = alone(play)
	}
	return fmt.Errorf("failed in each of %d plays, all of them late; the last: %w", maxPlays, err)
}

func alone(play func() error) error {
	replays.Lock()
	defer replays.Unlock()
	return play()
}

// blame makes a LateError of a mismatch if lateness may be why it came.
func (p *player) blame(err error) error {
	tolerance := p.target.Tolerance
	if !p.t.timed(p.target.Kind) {
		tolerance = max(tolerance, untimedTolerance)
	}
	if _, mismatch := errors.AsType[*Mismatch](err); !mismatch || p.clock.late <= tolerance {
		return err
	}
	return &LateError{By: p.clock.late, Err: err}
}

// timed reports whether it matters when the steps are made.
func (t *Transcript) timed(kind string) bool {
	for _, s := range t.steps {
		if !s.base().on(kind) {
			continue
		}
		switch s := s.(type) {
		case *waitStep, *silentStep:
			return true
		case *expectStep:
			if s.when != nil {
				return true
			}
		case *eofStep:
			if s.when != nil {
				return true
			}
		}
	}
	return false
}

// A clock adds up by how much steps take longer than they should.
type clock struct {
	late    time.Duration
	begun   time.Time     // the step under way
	allowed time.Duration // how long it may take
}

func (c *clock) begin() { c.begun, c.allowed = time.Now(), 0 }

// allow lets the step under way take so much longer.
func (c *clock) allow(d time.Duration) { c.allowed += max(0, d) }

// allowUntil lets it take until then.
func (c *clock) allowUntil(t time.Time) { c.allowed = max(c.allowed, t.Sub(c.begun)) }

func (c *clock) end() { c.late += max(0, time.Since(c.begun)-c.allowed) }
