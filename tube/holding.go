package tube

import "math"

// holding is the jobs that one holder has reserved.
type holding struct {
	holder Holder
	jobs   queue
	alarm  alarm
}

// holdingOf returns what h holds, nil if it has never held anything. It remembers
// the last holder, because a holder who sends many commands asks many times in a
// row.
func (m *Machine) holdingOf(h Holder) *holding {
	if m.recent == nil || m.recent.holder != h {
		m.recent = m.holdings[h]
	}
	return m.recent
}

// hold returns what h holds, ready to get another job.
func (m *Machine) hold(h Holder) *holding {
	held := m.holdingOf(h)
	if held == nil {
		held = &holding{holder: h}
		held.alarm = alarm{pos: -1, holding: held}
		m.holdings[h] = held
	}
	return held
}

// nextDue returns the nearest deadline of what h holds, or Never.
func (m *Machine) nextDue(h *holding) Instant {
	if j := h.jobs.head(&m.slab); j != nil {
		return Instant(j.rank)
	}
	return Never
}

// soon returns when h has to be told DEADLINE_SOON, or Never.
func (m *Machine) soon(h Holder) Instant {
	if h == LeaseHolder {
		return Never // whoever asks for a lease holds nothing
	}
	held := m.holdingOf(h)
	if held == nil || held.jobs.len() == 0 {
		return Never
	}
	return m.nextDue(held) - Instant(Margin)
}

// Leave makes all that h holds ready, and forgets h. No counter grows.
func (m *Machine) ReleaseAll(now Instant, h Holder) {
	for left := true; left; {
		_, left = m.ReleaseSome(now, h, math.MaxInt)
	}
}

// LeaveSome is a part of Leave: it gives back up to limit jobs. It returns how
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
