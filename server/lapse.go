package server

import (
	"time"

	"redstalk/storage"
)

// lapses are those who have waited as long as they wanted. What became due until
// then they must still get, and only the store knows whether something did. So a
// Tick comes first that began after their limit, then one more take. Only who gets
// nothing in that one is out of the hall without a job.
//
// A store that fails holds nobody up for long: who has waited tickPatience for the
// Tick gets the last take without it, and who could not even be served by then,
// because another round does not end, gets none.
type lapses struct {
	asking  []*waiter // the next Tick is for them
	ticking []*waiter // a Tick that is for them has begun, but not all that is due is done
	timer   *time.Timer
	armed   bool
}

const (
	// tickPatience is how long a waiter whose limit has come waits for the Tick.
	tickPatience = 250 * time.Millisecond

	// roundPatience is how long a round may take before those are told that there
	// is no job who wait for their last take.
	roundPatience = time.Second
)

// lapse has a waiter served for the last time, because its limit has come. The
// caller then asks for a Tick.
func (h *hall) lapse(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.places == nil || !w.lapsed.IsZero() {
		return
	}
	w.lapsed = time.Now()
	h.lapses.asking = append(h.lapses.asking, w)
	h.armLapses()
}

// armLapses has hurry look in time. The lock is held.
func (h *hall) armLapses() {
	l := &h.lapses
	switch {
	case l.armed:
	case l.timer == nil:
		l.timer = time.AfterFunc(tickPatience, h.hurry)
	default:
		l.timer.Reset(tickPatience)
	}
	l.armed = true
}

func (h *hall) stopLapses() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lapses.timer != nil {
		h.lapses.timer.Stop()
	}
}

// tickBegins notes that the store's Tick is about to be called, and returns whether
// somebody waits for it.
func (h *hall) tickBegins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.lapses
	l.ticking = append(l.ticking, l.asking...)
	clear(l.asking)
	l.asking = l.asking[:0]
	return len(l.ticking) > 0
}

// tickEnded notes that a Tick has ended, and whether that was all that was due, or
// all that can be hoped for.
func (h *hall) tickEnded(all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.lapses
	if !all || len(l.ticking) == 0 {
		return
	}
	for _, w := range l.ticking {
		h.callLast(w)
	}
	clear(l.ticking)
	l.ticking = l.ticking[:0]
	h.ring()
}

// callLast has w served for the last time. The lock is held.
func (h *hall) callLast(w *waiter) {
	if w.places != nil {
		w.final = true
		h.call(w)
	}
}

// hurry sees to it that who has lapsed does not wait for a store that hangs.
func (h *hall) hurry() {
	h.mu.Lock()
	l, now := &h.lapses, time.Now()
	l.armed = false
	l.asking = h.hurryThese(l.asking, now)
	l.ticking = h.hurryThese(l.ticking, now)
	var decided []*waiter
	if h.busy && now.Sub(h.begun) >= roundPatience {
		decided = h.giveUp()
	}
	if len(l.asking) > 0 || len(l.ticking) > 0 || h.lastCalls() > 0 {
		h.armLapses()
	}
	h.ring()
	h.mu.Unlock()
	for _, w := range decided {
		w.notify()
	}
}

// hurryThese calls those who have waited too long for a Tick, and returns the
// others. Who has lapsed first comes first. The lock is held.
func (h *hall) hurryThese(waiters []*waiter, now time.Time) []*waiter {
	for i, w := range waiters {
		if now.Sub(w.lapsed) < tickPatience {
			return waiters[i:]
		}
		h.callLast(w)
	}
	return nil
}

// lastCalls is how many wait for their last take. The lock is held.
func (h *hall) lastCalls() (n int) {
	for _, w := range h.called {
		if w.final {
			n++
		}
	}
	return n
}

// giveUp takes those out of the hall who wait for their last take. The lock is
// held.
func (h *hall) giveUp() (decided []*waiter) {
	kept := h.called[:0]
	for _, w := range h.called {
		switch {
		case w.places == nil:
		case w.final && !w.serving:
			h.decide(w, storage.Answer{NotFound: true}, true)
			decided = append(decided, w)
		default:
			kept = append(kept, w)
		}
	}
	clear(h.called[len(kept):])
	h.called = kept
	return decided
}
