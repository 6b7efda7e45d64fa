package tube

// SetAsideWith is SetAside for any job that is not buried, whoever has reserved it.
func (m *Machine) SetAsideWith(now Instant, id uint64, reason string) bool {
	j := m.Find(id)
	return j != nil && m.SetAside(now, j.holder, id, reason)
}

// Untake undoes the Take of job id by h, whose body cannot be read at present: the job is where it
// was, and the Take counts neither as a delivery nor as a reservation. It does nothing if h does not
// hold the job.
func (m *Machine) Untake(now Instant, h Holder, id uint64) {
	j := m.Find(id)
	if j == nil || j.state != Reserved || j.holder != h {
		return
	}
	j.counters[Reserves]--
	m.moveAlong(now, j, arrowAt[GiveBack][Reserved], h)
}
