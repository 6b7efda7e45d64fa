package tube

import "time"

// SetPriority gives a job another priority, unless it is reserved. It returns false if there
// is no such job. A ready job takes its new place at once, a delayed or buried one keeps
// the place that it has.
func (m *Machine) SetPriority(id uint64, pri uint32) bool {
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
	m.tellChanged(j)
	return true
}

// Reschedule makes a job that is ready or delayed due that long from now; at once if that is
// no time. It returns false if there is no such job. No counter grows. The delay of the job
// becomes as many whole seconds, rounded up.
func (m *Machine) Reschedule(now Instant, id uint64, in time.Duration) bool {
	j := m.Find(id)
	if j == nil || j.state != Ready && j.state != Delayed {
		return false
	}
	m.dequeue(j)
	m.enterIn(now, j, in)
	m.tellChanged(j)
	return true
}

// tellChanged tells the journal what has become of j.
func (m *Machine) tellChanged(j *Job) {
	if m.journal != nil {
		m.journal.Changed(m.record(j, &m.told))
	}
}
