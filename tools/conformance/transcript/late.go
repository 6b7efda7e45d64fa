package transcript

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// untimedTolerance is how late a transcript without times may be played: beyond that, the ages of
// jobs on pages, in whole seconds, differ from the expected ones.
const untimedTolerance = time.Second

// maxPlays limits how often PlayInTime plays a transcript.
const maxPlays = 10

// A LateError reports that a timed transcript failed while it was played late:
// its steps, and the replies that were waited for, took longer than they should
// by more than [Target.Tolerance]. So the machine can be the cause
// of the failure. An untimed transcript is late only from untimedTolerance on.
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

// replays serializes repeated plays: concurrent plays can be the reason why
// they are late.
var replays sync.Mutex

// PlayInTime plays t until a play succeeds, or fails without being late. Each play uses a new
// server, which fresh starts and stop ends. If maxPlays plays were
// late and failed, it returns the error of the last one.
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

// blame wraps a mismatch in a LateError if lateness can be its cause.
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

// timed reports whether the times of steps matter.
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

// A clock sums up by how much steps take longer than they should.
type clock struct {
	late    time.Duration
	begun   time.Time     // the current step
	allowed time.Duration // how long it may take
}

func (c *clock) begin() { c.begun, c.allowed = time.Now(), 0 }

// allow lets the current step take longer by d.
func (c *clock) allow(d time.Duration) { c.allowed += max(0, d) }

// allowUntil lets the current step take until t.
func (c *clock) allowUntil(t time.Time) { c.allowed = max(c.allowed, t.Sub(c.begun)) }

func (c *clock) end() { c.late += max(0, time.Since(c.begun)-c.allowed) }
