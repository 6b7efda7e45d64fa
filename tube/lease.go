package tube

import "time"

// A lease is a reservation that no connection holds: whoever knows its token may finish the
// job, from any connection. Only the TTR ends it, so it survives a restart.

// lease gives j, which is about to be reserved, a token that is larger than all that it had.
// It comes from the clock, so that a job whose last state is lost gets none twice, either.
func (m *Machine) lease(now Instant, j *Job) {
	f := m.changeMetadata(j)
	f.Lease = max(uint64(now)/uint64(time.Microsecond), f.Lease+1)
}

// Lease returns the token of the present lease of j, 0 if it has none.
func (m *Machine) Lease(j *Job) uint64 {
	if j.state != Reserved || j.holder != LeaseHolder {
		return 0
	}
	return m.metadataOf(j).Lease
}

// MoveLeased is Move on behalf of whoever has a token. It returns nil if that is not the
// present lease of the job.
func (m *Machine) MoveLeased(now Instant, move Move, token uint64, id uint64, terms Terms) *Job {
	if j := m.Find(id); j == nil || token == 0 || m.Lease(j) != token {
		return nil
	}
	return m.Move(now, move, LeaseHolder, id, terms)
}

// restoreLease makes j, which is in no queue, reserved by its lease until a deadline.
func (m *Machine) restoreLease(j *Job, deadline int64) {
	m.reserve(j, m.hold(LeaseHolder), deadline)
}
