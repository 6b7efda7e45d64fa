package tube

// SetAsideWith is SetAside for any job that is not buried, whoever has reserved it, and records a
// reason.
func (m *Machine) SetAsideWith(now Instant, id uint64, reason string) bool {
	j := m.Find(id)
	if j == nil || j.state == Buried {
		return false
	}
	m.noteReason(now, j, reason)
	return m.SetAside(now, j.holder, id)
}
