package queue

import (
	"time"

	"redstalk/storage"
)

// limits holds the waits whose limit is reached. What became due before the limit must still
// be handed out, and only the store knows whether something did. So such a wait first needs
// a Tick that began after its limit, then one last take. Only if that finds nothing does the
// wait end without a job.
//
// A store that fails does not delay the end of a wait for long. After TickPatience the last
// take is made without the Tick. If another dispatch takes longer than
// DispatchPatience, the wait ends without its last take.
type limits struct {
	awaitTick []*wait // need a Tick that has not begun
	inTick    []*wait // their Tick has begun, but not all that is due is done
	timer     *time.Timer
	armed     bool
}

const (
	// TickPatience is how long a wait whose limit is reached waits for the Tick.
	TickPatience = 250 * time.Millisecond

	// DispatchPatience is how long a dispatch can take before other waits end without
	// their last take.
	DispatchPatience = time.Second
)

// limitReached is called by the timer of the limit. It can be late, during the next wait.
func (w *Waiter) limitReached() {
	if w.queue.lists.expire(w) {
		w.queue.timer.due(0)
	}
}

// expire records that the limit of the Waiter's wait is reached, and reports whether it is.
// If so, the caller asks for a Tick.
func (l *waitlists) expire(waiter *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, now := waiter.wait, time.Now()
	if w.entries == nil || w.limit.IsZero() || now.Before(w.limit) || !w.expired.IsZero() {
		return false
	}
	w.expired = now
	l.limits.awaitTick = append(l.limits.awaitTick, w)
	l.armLimitTimeout()
	return true
}

// tickBegins records that the store's Tick is about to be called, and reports whether a wait
// needs it.
func (l *waitlists) tickBegins() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := &l.limits
	limits.inTick = append(limits.inTick, limits.awaitTick...)
	clear(limits.awaitTick)
	limits.awaitTick = limits.awaitTick[:0]
	return len(limits.inTick) > 0
}

// tickEnded records that a Tick has ended. all says that everything that was due is done, as
// far as the store can do it.
func (l *waitlists) tickEnded(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := &l.limits
	if !all || len(limits.inTick) == 0 {
		return
	}
	for _, w := range limits.inTick {
		l.scheduleLastTake(w)
	}
	clear(limits.inTick)
	limits.inTick = limits.inTick[:0]
	l.notifyDispatcher()
}

// scheduleLastTake schedules w for its last take. The lock is held.
func (l *waitlists) scheduleLastTake(w *wait) {
	if w.entries != nil {
		w.lastTake = true
		l.schedule(w)
	}
}

// armLimitTimeout makes sure that limitTimedOut is called in time. The lock is held.
func (l *waitlists) armLimitTimeout() {
	limits := &l.limits
	switch {
	case limits.armed:
	case limits.timer == nil:
		limits.timer = time.AfterFunc(TickPatience, l.limitTimedOut)
	default:
		limits.timer.Reset(TickPatience)
	}
	limits.armed = true
}

func (l *waitlists) stopLimitTimeout() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.timer != nil {
		l.limits.timer.Stop()
	}
}

// limitTimedOut advances the waits whose limit is reached although the store hangs.
func (l *waitlists) limitTimedOut() {
	l.mu.Lock()
	limits, now := &l.limits, time.Now()
	limits.armed = false
	limits.awaitTick = l.scheduleOverdue(limits.awaitTick, now)
	limits.inTick = l.scheduleOverdue(limits.inTick, now)
	var decided []*wait
	if l.dispatching && now.Sub(l.dispatchingSince) >= DispatchPatience {
		decided = l.endUnserved()
	}
	if len(limits.awaitTick) > 0 || len(limits.inTick) > 0 || l.lastTakes() > 0 {
		l.armLimitTimeout()
	}
	l.notifyDispatcher()
	l.mu.Unlock()
	for _, w := range decided {
		w.waiter.notify()
	}
}

// scheduleOverdue schedules the last takes of the waits that have waited for a Tick for too
// long, and returns the others. waits are in the order of their limits. The lock is held.
func (l *waitlists) scheduleOverdue(waits []*wait, now time.Time) []*wait {
	for i, w := range waits {
		if now.Sub(w.expired) < TickPatience {
			return waits[i:]
		}
		l.scheduleLastTake(w)
	}
	return nil
}

// lastTakes returns how many waits are scheduled for their last take. The lock is held.
func (l *waitlists) lastTakes() (n int) {
	for _, w := range l.scheduled {
		if w.lastTake {
			n++
		}
	}
	return n
}

// endUnserved ends the waits that are scheduled for their last take, without that take. The
// lock is held.
func (l *waitlists) endUnserved() (decided []*wait) {
	rest := l.scheduled[:0]
	for _, w := range l.scheduled {
		switch {
		case w.entries == nil:
		case w.lastTake && !w.serving:
			l.decide(w, storage.Answer{NotFound: true}, true)
			decided = append(decided, w)
		default:
			rest = append(rest, w)
		}
	}
	clear(l.scheduled[len(rest):])
	l.scheduled = rest
	return decided
}
