package tube

// A replay gives a job another chance that has failed for good: a job in a dead-letter tube goes
// back to the tube where it was exhausted, and a buried job is kicked.

// Home returns the tube to which a replay sends j back; "" if j did not come to its tube as a
// dead letter.
func (m *jobs) Home(j *Job) string { return m.metadataOf(j).home(m.tubeOf(j).name) }

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

// OwnRules returns those of its own rules that apply to a job in a tube: none of a dead letter. It keeps
// them for when it is back.
func (f *Metadata) OwnRules(tube string) Rules {
	if f.home(tube) != "" {
		return Rules{}
	}
	return f.Rules
}

// Move changes the metadata of a job that has these counters and is moved from one tube to another. There
// its counters begin at zero, while its failures and deliveries go on; those of a dead letter that is
// moved home begin at zero. A job that has been at home and leaves is no dead letter any more: else it
// would be one in any other tube.
func (f *Metadata) Move(from, to string, c *Counters) {
	switch f.FromTube {
	case to:
		f.FailuresBefore, f.DeliveriesBefore = 0, 0
		return
	case from:
		f.FromTube, f.FromID = "", 0
	}
	f.FailuresBefore -= c.Failures()
	f.DeliveriesBefore -= c.Deliveries()
}

// SendBack is MoveTo for a dead letter and the tube where it was exhausted. The new job is ready.
func (m *times) SendBack(now Instant, j *Job) {
	metadata := m.movedMetadata(j, m.Home(j))
	metadata.Parked = NotParked
	m.replaceBy(now, j, metadata.FromTube, metadata, func(back *Job) {
		back.dueSince(now)
		m.enqueue(back, Ready, int64(back.pri))
	})
}
