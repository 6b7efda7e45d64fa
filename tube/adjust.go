package tube

import "time"

// SetPriority changes the priority of a job that is not reserved. It returns false if there
// is no such job. A ready job moves to its new position at once; a delayed or buried one keeps
// its position.
func (m *queues) SetPriority(id uint64, pri uint32) bool {
	j := m.Find(id)
	if j == nil || j.state == Reserved {
		return false
	}
	if j.state == Ready {
		m.dequeue(j)
		j.pri = pri
		m.enqueue(j, Ready, int64(pri))
	} else {
		j.pri = pri
	}
	m.journalChanged(j)
	return true
}

// Reschedule makes a ready or delayed job due after in; at once if in is zero. It returns
// false if there is no such job, or if it waits for a batch. No counter grows. The job's delay becomes in, rounded up
// to whole seconds.
func (m *queues) Reschedule(now Instant, id uint64, in time.Duration) bool {
	j := m.Find(id)
	if j == nil || j.state != Ready && j.state != Delayed || j.batch&isHeld != 0 {
		return false
	}
	m.dequeue(j)
	m.enterIn(now, j, in)
	m.journalChanged(j)
	return true
}

// journalChanged reports the new state of j to the journal.
func (m *jobs) journalChanged(j *Job) {
	if m.journal != nil {
		m.journal.Changed(m.record(j, &m.reported))
	}
}
