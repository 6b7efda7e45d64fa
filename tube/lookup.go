package tube

import (
	"cmp"
	"slices"
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

// HolderOf returns the holder of a job; 0 if it is not reserved.
func (m *jobs) HolderOf(id uint64) Holder {
	if j := m.Find(id); j != nil {
		return j.holder
	}
	return 0
}

// tubeOf returns the tube of j.
func (m *jobs) tubeOf(j *Job) *Tube { return m.handles.list[j.tube].tube }

// Tubes returns the names of all tubes in beanstalkd's order: in the order of
// creation, except that the last one takes the position of one that is removed.
func (m *jobs) Tubes() []string {
	names := make([]string, len(m.order))
	for i, t := range m.order {
		names[i] = t.name
	}
	return names
}

// laneOf returns the lane of j: that of its group, or the plain one; nil if the tube has no groups.
func (m *jobs) laneOf(j *Job) *lane {
	h := &m.handles.list[j.tube]
	if h.lane == nil && h.tube.lanes != nil {
		return &h.tube.lanes.plain
	}
	return h.lane
}

// groupOf returns the group of j, "" if it has none.
func (m *jobs) groupOf(j *Job) string {
	if l := m.handles.list[j.tube].lane; l != nil {
		return l.name
	}
	return ""
}

// CountIn returns how many jobs of a tube are in a state.
func (m *jobs) CountIn(tube string, s State) int {
	if t := m.tubes[tube]; t != nil {
		return t.in(s)
	}
	return 0
}

// TubeOf returns the name of the tube of j.
func (m *jobs) TubeOf(j *Job) string { return m.tubeOf(j).name }

// groupIn returns the lane of a group of t, which may be nil; nil if it has no job.
func (m *jobs) groupIn(t *Tube, group string) *lane {
	if t == nil || t.lanes == nil {
		return nil
	}
	return t.lanes.byName.find(group, hashOf(group))
}

// batchOf returns the batch of which j is a member, nil if it is of none.
func (m *jobs) batchOf(j *Job) *batched {
	if j.batch&isMember == 0 {
		return nil
	}
	return *m.slab.batch(j)
}

// batchNameOf returns the name of the batch of which j is a member, "" if it is of none.
func (m *jobs) batchNameOf(j *Job) string {
	if b := m.batchOf(j); b != nil {
		return b.record.Name
	}
	return ""
}

// Home returns the tube to which a replay sends j back; "" if j did not come to its tube as a
// dead letter.
func (m *jobs) Home(j *Job) string { return m.metadata.of(j).home(m.tubeOf(j).name) }
