package tube

// A replay gives a job another chance that has failed for good: a job in a dead-letter tube goes
// back to the tube where it was exhausted, and a buried job is kicked.

// Home returns the tube to which a replay sends j back; "" if j did not come to its tube as a
// dead letter.
func (m *Machine) Home(j *Job) string { return m.metadataOf(j).home(m.tubeOf(j).name) }

// Home is Machine.Home for the job that s describes.
func (s *JobStats) Home() string {
	if s.Metadata == nil {
		return ""
	}
	return s.Metadata.home(s.Tube)
}

// home returns FromTube; "" if that is the tube in which the job is.
func (f *Metadata) home(tube string) string {
	if f.FromTube == tube {
		return ""
	}
	return f.FromTube
}

// LeaveHome makes the metadata of a job that leaves a tube forget that it was a dead letter, if it was
// exhausted in that tube and has come back. Else it would be a dead letter again in any other tube.
func (f *Metadata) LeaveHome(tube string) {
	if f.FromTube == tube {
		f.FromTube, f.FromID = "", 0
	}
}

// SendBack is MoveTo for a dead letter and the tube where it was exhausted. The new job is
// ready, and its failures and deliveries count from zero.
func (m *Machine) SendBack(now Instant, j *Job) {
	metadata := m.movedMetadata(j, m.Home(j))
	metadata.Parked, metadata.FailuresBefore, metadata.DeliveriesBefore = NotParked, 0, 0
	m.replaceBy(now, j, metadata.FromTube, metadata, func(back *Job) {
		back.dueSince(now)
		m.enqueue(back, Ready, int64(back.pri))
	})
}
