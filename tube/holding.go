package tube

import "time"

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

// due returns the earliest deadline in h, or Never.
func (h *holding) due(s *slab) Instant {
	if j := h.jobs.head(s); j != nil {
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
	return held.due(&m.slab) - Instant(Margin)
}

// noteTakenBack notes that j is being taken back from the connection that holds it. Anybody can delete a ready job, but that one may be late
// with a delete that was meant for its reservation.
func (m *queues) noteTakenBack(j *Job) {
	if j.holder == LeaseHolder {
		return // its token is not valid any more
	}
	if m.takenBack == nil {
		m.takenBack = make(map[Holder]map[uint64]struct{})
	}
	lost := m.takenBack[j.holder]
	if lost == nil {
		lost = make(map[uint64]struct{})
		m.takenBack[j.holder] = lost
	}
	lost[j.ID] = struct{}{}
}

// wasTakenBack reports whether a job was taken back from h, which has not got it again.
func (m *queues) wasTakenBack(h Holder, id uint64) bool {
	_, lost := m.takenBack[h][id]
	return lost
}

// restoreLease makes j, which is in no queue, reserved by its lease until a deadline.
func (m *queues) restoreLease(j *Job, deadline int64) {
	m.reserve(j, m.hold(LeaseHolder), deadline)
	j.place |= byWallTime
}

// A lease is a reservation that no connection holds: any connection that knows its token can
// finish the job. Only the TTR ends a lease, so it survives a restart.

// lease gives j, which is about to be reserved, a token larger than all its earlier ones. The
// token comes from the clock, so that it stays unique even if the last state of the job is lost.
func (m *queues) lease(now Instant, j *Job) {
	f := m.metadata.change(j)
	f.Lease = max(uint64(now)/uint64(time.Microsecond), f.Lease+1)
}

// Lease returns the token of the present lease of j, 0 if it has none.
func (m *queues) Lease(j *Job) uint64 {
	if j.state != Reserved || j.holder != LeaseHolder {
		return 0
	}
	return m.metadata.of(j).Lease
}
