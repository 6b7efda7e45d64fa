package differ

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// occasion is why something happens by itself.
type occasion uint8

const (
	matures  occasion = iota // a delay is over
	expires                  // a TTR is over
	presses                  // a second before that: DEADLINE_SOON
	resumes                  // a pause is over
	timesOut                 // a reserve
)

// event is something that will happen on both servers between lo and hi, or
// on an idle machine a little later.
type event struct {
	kind   occasion
	lo, hi time.Time
	job    int
	conn   int
	waiter *asked // which times out
}

const (
	guard   = 40 * time.Millisecond  // no step is begun this long before an event
	lag     = 150 * time.Millisecond // nor this long after, when it must have happened
	spacing = 240 * time.Millisecond // between any two events, more than guard and lag
)

// arm notes what a command of the present step has set off.
func (e *episode) arm(ev event, seconds uint64) {
	if !e.timed || seconds == 0 || seconds > soonest {
		return
	}
	d := time.Duration(seconds) * time.Second
	ev.lo, ev.hi = e.begun.Add(d), time.Now().Add(d)
	e.events = append(e.events, ev)
}

// armReserved notes when a job that was just reserved is lost again.
func (e *episode) armReserved(id, label int) {
	j := e.jobs[label]
	if j == nil {
		return
	}
	e.arm(event{kind: expires, job: label, conn: id}, uint64(j.ttr))
	if j.ttr > 1 {
		e.arm(event{kind: presses, job: label, conn: id}, uint64(j.ttr-1))
	}
}

// armTimeouts notes the reserves that have begun to wait.
func (e *episode) armTimeouts() {
	for id, c := range e.conns {
		if len(c.pending) == 0 || c.pending[0].armed || c.pending[0].verb != "reserve-with-timeout" {
			continue
		}
		a := c.pending[0]
		a.armed = true
		if times := a.seconds(); len(times) == 1 {
			e.arm(event{kind: timesOut, conn: id, waiter: a}, times[0])
		}
	}
}

// disarm forgets what was due for a job that has gone elsewhere.
func (e *episode) disarm(label int) {
	e.events = slices.DeleteFunc(e.events, func(ev event) bool { return label != 0 && ev.job == label })
}

// disarmDelay forgets when a delayed job was to become ready. Somebody who has
// waited may have it already: the end of his TTR stays.
func (e *episode) disarmDelay(label int) {
	e.events = slices.DeleteFunc(e.events, func(ev event) bool {
		return label != 0 && ev.job == label && ev.kind == matures
	})
}

// passTime waits until a step can be made: not near an event, and if it sets
// off an event itself, when that will not fall near another.
func (e *episode) passTime(arming bool) error {
	for {
		now := time.Now()
		if i := slices.IndexFunc(e.events, func(ev event) bool { return !now.Before(ev.hi.Add(lag)) }); i >= 0 {
			if err := e.happened(); err != nil {
				return err
			}
			continue
		}
		until := now
		for _, ev := range e.events {
			if now.After(ev.lo.Add(-guard)) {
				until = maxTime(until, ev.hi.Add(lag))
			}
		}
		if until.Equal(now) && arming && e.crowded(now) {
			until = now.Add(guard / 4)
		}
		if until.Equal(now) {
			return nil
		}
		time.Sleep(time.Until(until))
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// crowded says that an event set off now would be near another. As all times
// are whole seconds it is enough to look at fractions of a second.
func (e *episode) crowded(now time.Time) bool {
	for _, ev := range e.events {
		for _, at := range []time.Time{ev.lo, ev.hi} {
			away := math.Mod(at.Sub(now).Seconds()+60, 1)
			if min(away, 1-away) < spacing.Seconds() {
				return true
			}
		}
	}
	return false
}

// happened lets the outcome of events that are over come in.
func (e *episode) happened() error {
	now := time.Now()
	e.begun = now
	var over []event
	for _, ev := range e.events {
		if !now.Before(ev.hi.Add(lag)) {
			over = append(over, ev)
		}
	}
	if e.waiting(-1) > 0 && e.muddled(over, now) {
		return fmt.Errorf("%w: two events have happened, and in which order shows", errVoid)
	}
	e.events = slices.DeleteFunc(e.events, func(ev event) bool { return slices.Contains(over, ev) })
	e.insist(over)
	if err := e.remind(over); err != nil {
		return err
	}
	if err := e.settle(); err != nil {
		return err
	}
	return e.checkClock()
}

// muddled says whether another event has come before the outcome of the first
// was seen.
func (e *episode) muddled(over []event, now time.Time) bool {
	first := slices.MinFunc(over, func(a, b event) int { return a.lo.Compare(b.lo) })
	return slices.ContainsFunc(e.events, func(ev event) bool {
		return ev.lo.After(first.hi) && ev.lo.Add(-guard).Before(now)
	})
}

// insist notes which reserves may wait no longer, however late their answers
// are.
func (e *episode) insist(over []event) {
	for _, ev := range over {
		c := e.conns[ev.conn]
		if c == nil || !c.waits() {
			continue
		}
		if ev.waiter == c.pending[0] || ev.kind == presses && c.held[ev.job] {
			c.pending[0].blocks = false
		}
	}
}

// remind has holders whose TTR has run out send something, see
// ttr-expiry-idle-holder.
func (e *episode) remind(over []event) error {
	for _, ev := range over {
		c := e.conns[ev.conn]
		if ev.kind != expires || c == nil || !c.held[ev.job] {
			continue
		}
		delete(c.held, ev.job)
		replies, _ := e.judge.came(ev.conn)
		if replies < len(c.pending) || c.over() || !c.frame.idle() {
			continue
		}
		s := step{conn: ev.conn, commands: []command{{line: "list-tube-used", rest: "\r\n"}}}
		e.log = append(e.log, entry{step: s, at: e.begun})
		if err := e.do(s); err != nil {
			return err
		}
	}
	return nil
}

// checkClock fails if what was just done has come near an event after all.
func (e *episode) checkClock() error {
	now := time.Now()
	for _, ev := range e.events {
		if e.timed && ev.lo.Add(-guard/2).Before(now) {
			return fmt.Errorf("%w: %v after it", errVoid, now.Sub(ev.lo))
		}
	}
	return nil
}
