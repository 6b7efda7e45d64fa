package tube

// Find returns job id, or nil.
func (m *Machine) Find(id uint64) *Job {
	if r := m.jobs.get(id); r != 0 {
		return m.slab.at(r)
	}
	return nil
}

// Head returns the first job of a tube in a state: the next one to be reserved,
// the next one to become ready, or the one that was buried first. It returns nil
// if there is none, or for another state.
func (m *Machine) Head(tube string, s State) *Job {
	t := m.tubes[tube]
	if t == nil {
		return nil
	}
	switch s {
	case Ready:
		return m.firstReady(t)
	case Delayed:
		return t.delayed.head(&m.slab)
	case Buried:
		return t.buried.head(&m.slab)
	}
	return nil
}

// firstReady returns the job that a Take would reserve, were the tube not paused; if limits hold
// all of them, the first one by priority and id.
func (m *Machine) firstReady(t *Tube) *Job {
	if t.lanes == nil || t.offers() && m.heldInTube(t) == NotHeld {
		if t.in(Ready) == 0 {
			return nil
		}
		return m.nextIn(t)
	}
	if jobs := m.firstReadies(t, 1); len(jobs) > 0 {
		return jobs[0]
	}
	return nil
}

// Body returns the body of j if it is in memory. It returns nil if the job has no
// body, or if DropBody was called.
func (m *Machine) Body(j *Job) []byte { return m.slab.body(j) }

// Buffer returns the Buffer of the body of j, nil if it has none. A caller that uses the
// body longer than the job must retain it before the next call.
func (m *Machine) Buffer(j *Job) Buffer { return m.slab.buffer(j) }

// BodyBytes returns the sum of the sizes, in bytes, of all bodies in memory.
func (m *Machine) BodyBytes() int64 { return m.slab.bytes }

// KeepBody brings the body of j back into memory. It is kept, not copied.
func (m *Machine) KeepBody(j *Job, body []byte) { m.slab.keep(j, body, nil) }

// DropBody drops the body of j from memory. The caller stores it elsewhere.
func (m *Machine) DropBody(j *Job) { m.slab.keep(j, nil, nil) }

// JobStats returns what stats-job prints about job id; false if there is none.
func (m *Machine) JobStats(now Instant, id uint64) (JobStats, bool) {
	j := m.Find(id)
	if j == nil {
		return JobStats{}, false
	}
	return m.jobStats(now, j), true
}

// HolderOf returns the holder of a job; 0 if it is not reserved.
func (m *Machine) HolderOf(id uint64) Holder {
	if j := m.Find(id); j != nil {
		return j.holder
	}
	return 0
}

// Totals returns the counts over all tubes.
func (m *Machine) Totals() Totals {
	t := m.totals
	t.Tubes = uint64(len(m.order))
	return t
}
