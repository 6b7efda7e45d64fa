package tube

import "math"

// holding is the set of jobs that one holder has reserved.
type holding struct {
	holder Holder
	jobs   queue
	alarm  alarm
}

// holdingOf returns the holding of h, nil if h has never reserved anything. It caches
// the last holder, because a holder that sends many commands asks many times in a
// row.
func (m *queues) holdingOf(h Holder) *holding {
	if m.recent == nil || m.recent.holder != h {
		m.recent = m.holdings[h]
	}
	return m.recent
}

// hold returns the holding of h, creating it if needed.
func (m *queues) hold(h Holder) *holding {
	held := m.holdingOf(h)
	if held == nil {
		held = &holding{holder: h}
		held.alarm.owner = held
		m.holdings[h] = held
	}
	return held
}

// Held returns how many jobs h has reserved.
func (m *queues) Held(h Holder) int {
	if held := m.holdings[h]; held != nil {
		return held.jobs.len()
	}
	return 0
}

// FirstHeld returns the ids of up to n jobs that h has reserved, the next whose TTR ends first.
func (m *queues) FirstHeld(h Holder, n int) (ids []uint64) {
	held := m.holdings[h]
	if held == nil || n < 1 {
		return nil
	}
	jobs, _ := held.jobs.next(&m.slab, start, n, 1) // the root of the tree comes after start: no other node is skipped
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// nextDue returns the earliest deadline in h, or Never.
func (m *queues) nextDue(h *holding) Instant {
	if j := h.jobs.head(&m.slab); j != nil {
		return Instant(j.rank)
	}
	return Never
}

// deadlineSoon returns when h must be answered DEADLINE_SOON, or Never.
func (m *queues) deadlineSoon(h Holder) Instant {
	if h == LeaseHolder {
		return Never // a caller that asks for a lease holds nothing
	}
	held := m.holdingOf(h)
	if held == nil || held.jobs.len() == 0 {
		return Never
	}
	return m.nextDue(held) - Instant(Margin)
}

// ReleaseAll makes all jobs that h holds ready, and forgets h. No counter grows.
func (m *Machine) ReleaseAll(now Instant, h Holder) {
	for left := true; left; {
		_, left = m.ReleaseSome(now, h, math.MaxInt)
	}
}

// ReleaseSome does a part of ReleaseAll: it gives back up to limit jobs. It returns how
// many, and whether there are more. If there are no more, h is forgotten.
func (m *Machine) ReleaseSome(now Instant, h Holder, limit int) (n int, left bool) {
	held := m.holdings[h]
	if held == nil {
		return 0, false
	}
	for ; held.jobs.len() > 0; n++ {
		if n == limit {
			return n, true
		}
		m.moveAlong(now, held.jobs.head(&m.slab), arrowAt[GiveBack][Reserved], h)
	}
	delete(m.holdings, h)
	m.recent = nil
	return n, false
}
