package tube

import "time"

// A lease is a reservation that no connection holds: any connection that knows its token can
// finish the job. Only the TTR ends a lease, so it survives a restart.

// lease gives j, which is about to be reserved, a token larger than all its earlier ones. The
// token comes from the clock, so that it stays unique even if the last state of the job is lost.
func (m *jobs) lease(now Instant, j *Job) {
	f := m.changeMetadata(j)
	f.Lease = max(uint64(now)/uint64(time.Microsecond), f.Lease+1)
}

// Lease returns the token of the present lease of j, 0 if it has none.
func (m *jobs) Lease(j *Job) uint64 {
	if j.state != Reserved || j.holder != LeaseHolder {
		return 0
	}
	return m.metadataOf(j).Lease
}

// MoveLeased is Move for a caller that has a lease token. It returns nil if token is not the
// present lease of the job.
func (m *Machine) MoveLeased(now Instant, move Move, token uint64, id uint64, terms Terms) *Job {
	if j := m.Find(id); j == nil || token == 0 || m.Lease(j) != token {
		return nil
	}
	return m.Move(now, move, LeaseHolder, id, terms)
}

// restoreLease makes j, which is in no queue, reserved by its lease until a deadline.
func (m *queues) restoreLease(j *Job, deadline int64) {
	m.reserve(j, m.hold(LeaseHolder), deadline)
	j.place |= byWallTime
}
