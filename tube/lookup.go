package tube

import (
	"cmp"
	"slices"
	"time"
)

// Find returns job id, or nil.
func (m *jobs) Find(id uint64) *Job {
	if r := m.byID.get(id); r != 0 {
		return m.slab.at(r)
	}
	return nil
}

// ByKey returns the job of a tube that has a key, or nil.
func (m *jobs) ByKey(tube, key string) *Job {
	if key == "" {
		return nil
	}
	if r := m.keys.jobs[keyName(tube, key)]; r != 0 {
		return m.slab.at(r)
	}
	return nil
}

// FindKey returns the jobs of all tubes that have a key, in the order of their ids. It examines
// every tube.
func (m *jobs) FindKey(key string) (jobs []*Job) {
	if len(m.keys.jobs) == 0 {
		return nil
	}
	for _, t := range m.order {
		if j := m.ByKey(t.name, key); j != nil {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}

// KeyTombstone returns which job had a key of a tube that has a tombstone, and how long the key
// stays taken; false if there is none.
func (m *jobs) KeyTombstone(now Instant, tube, key string) (id uint64, left time.Duration, ok bool) {
	g, ok := m.keys.tombstones[keyName(tube, key)]
	return g.id, g.until.Until(now), ok && g.until > now
}

// Head returns the first job of a tube in a state: the next one to be reserved,
// the next one to become ready, or the one that was buried first. It returns nil
// if there is none, or for another state.
func (m *groups) Head(tube string, s State) *Job {
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
func (m *groups) firstReady(t *Tube) *Job {
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
func (m *jobs) Body(j *Job) []byte { return m.slab.body(j) }

// Buffer returns the Buffer of the body of j, nil if it has none. A caller that uses the
// body longer than the job must retain it before the next call.
func (m *jobs) Buffer(j *Job) Buffer { return m.slab.buffer(j) }

// BodyBytes returns the sum of the sizes, in bytes, of all bodies in memory.
func (m *jobs) BodyBytes() int64 { return m.slab.bytes }

// KeepBody brings the body of j back into memory. It is kept, not copied.
func (m *jobs) KeepBody(j *Job, body []byte) { m.slab.keep(j, body, nil) }

// DropBody drops the body of j from memory. The caller stores it elsewhere.
func (m *jobs) DropBody(j *Job) { m.slab.keep(j, nil, nil) }

// JobStats returns what stats-job prints about job id; false if there is none.
func (m *groups) JobStats(now Instant, id uint64) (JobStats, bool) {
	j := m.Find(id)
	if j == nil {
		return JobStats{}, false
	}
	return m.jobStats(now, j), true
}

// HolderOf returns the holder of a job; 0 if it is not reserved.
func (m *jobs) HolderOf(id uint64) Holder {
	if j := m.Find(id); j != nil {
		return j.holder
	}
	return 0
}

// Totals returns the counts over all tubes.
func (m *jobs) Totals() Totals {
	t := m.totals
	t.Tubes = uint64(len(m.order))
	return t
}
