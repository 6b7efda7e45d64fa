package differ

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// occasion is the cause of an event by time.
type occasion uint8

const (
	matures  occasion = iota // a delay is over
	expires                  // a TTR is over
	presses                  // a second before that: DEADLINE_SOON
	resumes                  // a pause is over
	timesOut                 // a reserve
)

// makesReady reports whether jobs can become available.
func (o occasion) makesReady() bool { return o == matures || o == expires || o == resumes }

// event will happen on both servers between lo and hi, or
// a little later on a busy machine. lo and hi are the times between which its cause
// happened on both, plus the delay. If the cause was an event itself, lo is when that was due.
type event struct {
	kind     occasion
	lo, hi   time.Time
	job      int
	conn     int
	waiter   *sentCommand // which times out
	reminded bool         // its holder has sent something since, see remind
}

const (
	guard   = 40 * time.Millisecond  // no step is begun this long before an event
	lag     = 150 * time.Millisecond // nor this long after, when it must have happened
	spacing = 240 * time.Millisecond // between any two events, more than guard and lag

	// prompt is how long after the end of a TTR the holder sends something. The
	// sooner it does, the better it is known when beanstalkd gives the job to another.
	prompt = 10 * time.Millisecond
)

// arm records an event that was caused between begun and done.
func (e *episode) arm(ev event, seconds uint64) {
	if !e.timed || seconds == 0 || seconds > soonest {
		return
	}
	d := time.Duration(seconds) * time.Second
	ev.lo, ev.hi = e.begun.Add(d), e.done.Add(d)
	e.events = append(e.events, ev)
}

// armReserved records when the reservation of a job that was just reserved ends.
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

// armTimeouts records the reserves that have started to wait.
func (e *episode) armTimeouts() {
	e.done = time.Now()
	for id, c := range e.conns {
		if len(c.pending) == 0 || c.pending[0].armed || !c.pending[0].blocks || c.pending[0].verb == "reserve" {
			continue
		}
		a := c.pending[0]
		a.armed = true
		if times := a.seconds(); len(times) == 1 {
			e.arm(event{kind: timesOut, conn: id, waiter: a}, times[0])
		}
	}
}

// disarm drops the events of a job that has changed its state.
func (e *episode) disarm(label int) {
	e.events = slices.DeleteFunc(e.events, func(ev event) bool { return label != 0 && ev.job == label })
}

// disarmDelay drops the event that makes a delayed job ready. A waiting
// connection may have it already, so the end of its TTR stays.
func (e *episode) disarmDelay(label int) {
	e.events = slices.DeleteFunc(e.events, func(ev event) bool {
		return label != 0 && ev.job == label && ev.kind == matures
	})
}

// awaitGap waits until a step can be made: not near an event, and if it causes
// an event itself, so that this is not near another.
func (e *episode) awaitGap(arming bool) error {
	for {
		now := time.Now()
		if i := slices.IndexFunc(e.events, func(ev event) bool { return !now.Before(ev.hi.Add(lag)) }); i >= 0 {
			if over := e.overWith(e.events[i]); over.After(now) {
				if err := e.sleepReminding(over); err != nil {
					return err
				}
				continue
			}
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
		if until.Equal(now) && arming && e.tooClose(now) {
			until = now.Add(guard / 4)
		}
		if until.Equal(now) {
			return nil
		}
		if err := e.sleepReminding(until); err != nil {
			return err
		}
	}
}

// overWith returns when an event is over, and the other event of the same step,
// see closeWait.
func (e *episode) overWith(one event) time.Time {
	over := one.hi.Add(lag)
	for _, ev := range e.events {
		if ev.lo.Equal(one.lo) {
			over = maxTime(over, ev.hi.Add(lag))
		}
	}
	return over
}

// sleepReminding sleeps until then, and sends reminders meanwhile.
func (e *episode) sleepReminding(until time.Time) error {
	for {
		first := -1
		for i, ev := range e.events {
			if ev.kind == expires && !ev.reminded && (first < 0 || ev.hi.Before(e.events[first].hi)) {
				first = i
			}
		}
		if first < 0 || !e.events[first].hi.Add(prompt).Before(until) {
			e.sleep(until)
			return nil
		}
		e.sleep(e.events[first].hi.Add(prompt))
		e.events[first].reminded = true
		if err := e.remind(e.events[first]); err != nil {
			return err
		}
	}
}

// sleep sleeps, and records by how much that is too long. If the machine stood
// still, the servers may have, too: they get time for overdue work.
func (e *episode) sleep(until time.Time) {
	for {
		time.Sleep(time.Until(until))
		late := time.Since(until)
		if e.slow = max(e.slow, late); late < lag {
			return
		}
		until = time.Now().Add(lag)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// tooClose reports whether an event caused now would be near another. Since all times
// are whole seconds, it compares only fractions of a second.
func (e *episode) tooClose(now time.Time) bool {
	for _, ev := range e.events {
		away := math.Mod(ev.lo.Sub(now).Seconds()+60, 1)
		if away < spacing.Seconds() || away+(ev.hi.Sub(ev.lo)+spacing).Seconds() > 1 {
			return true
		}
	}
	return false
}

// happened waits for the results of events that are over.
func (e *episode) happened() error {
	now := time.Now()
	over := e.past(now)
	if e.waiting(-1) > 0 && e.ambiguous(over, now) {
		return fmt.Errorf("%w: two events have happened, and in which order shows", errVoid)
	}
	e.insist(over)
	for _, ev := range over {
		if ev.kind == expires && !ev.reminded {
			if err := e.remind(ev); err != nil {
				return err
			}
		}
	}
	return e.finish()
}

// past removes the events that have happened by now and returns them.
// The begin of what they cause is when the first was due, not when it is noticed.
func (e *episode) past(now time.Time) (over []event) {
	e.begun = now
	e.events = slices.DeleteFunc(e.events, func(ev event) bool {
		ok := !now.Before(ev.hi.Add(lag))
		if ok {
			over = append(over, ev)
			e.begun = minTime(e.begun, ev.lo)
		}
		return ok
	})
	return over
}

// ambiguous reports whether another event came before the result of the first
// was seen, or two events at the same time have each made a job ready: a step can pause a
// tube and reserve a job, with a TTR as long as the pause. Then beanstalkd serves
// waiting connections in between.
func (e *episode) ambiguous(over []event, now time.Time) bool {
	if ready := slices.DeleteFunc(slices.Clone(over), func(ev event) bool { return !ev.kind.makesReady() }); len(ready) > 1 {
		return true
	}
	first := slices.MinFunc(over, func(a, b event) int { return a.lo.Compare(b.lo) })
	return slices.ContainsFunc(slices.Concat(over, e.events), func(ev event) bool {
		return ev.lo.After(first.hi) && ev.lo.Add(-guard).Before(now)
	})
}

// insist records which reserves must not wait any longer, even if their replies are
// late.
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

// remind makes the holder whose TTR has ended send something, see
// ttr-expiry-idle-holder.
func (e *episode) remind(ev event) error {
	c := e.conns[ev.conn]
	if c == nil || !c.held[ev.job] {
		return nil
	}
	delete(c.held, ev.job)
	replies, _ := e.judge.received(ev.conn)
	if replies < len(c.pending) || c.over() || !c.frame.idle() {
		return nil
	}
	s := step{conn: ev.conn, commands: []command{{line: "list-tube-used", payload: "\r\n"}}}
	e.log = append(e.log, entry{step: s, at: time.Now()})
	return e.do(s)
}

// finish waits until both servers are idle. If they differ, and that was near an
// event, the event can be the cause; otherwise the subject has a fault.
func (e *episode) finish() error {
	err := e.awaitBoth()
	near := e.checkClock()
	e.void = e.void || near != nil
	if err != nil {
		return err
	}
	return near
}

// checkClock fails if the last step was near an event after all.
func (e *episode) checkClock() error {
	now := time.Now()
	for _, ev := range e.events {
		if e.timed && ev.lo.Add(-guard/2).Before(now) {
			return fmt.Errorf("%w: %v after it", errVoid, now.Sub(ev.lo))
		}
	}
	return nil
}
