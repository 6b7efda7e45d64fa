package tube

import "time"

// PutResult is what came of a put with tags.
type PutResult uint8

const (
	PutNew       PutResult = iota // a job was made
	PutTombstone                  // another job has the key, or had it not long ago: nothing was put
	PutDuplicate                  // the same, and the client wanted to be told
	PutRefused                    // the tube has as many jobs or bytes as it may
)

// PutAnswer is what came of a put with tags: the job that was made, or which job has the key.
type PutAnswer struct {
	Result PutResult
	ID     uint64
	State  State // of that other job; Gone if only its key is still taken
}

// PutTagged makes a job with tags, as Put does, unless its key is taken or the tube has no
// room by its policy. If nothing was put, the Buffer of the job stays the caller's.
func (m *Machine) PutTagged(now Instant, p NewJob, tags *Tags) PutAnswer {
	name := keyName(p.Tube, tags.Key)
	old := m.ByKey(p.Tube, tags.Key)
	if a, taken := m.keyTaken(now, name, m.onDuplicate(p.Tube, tags)); taken {
		return a
	}
	if !m.admits(p.Tube, len(p.Body), old) {
		return PutAnswer{Result: PutRefused}
	}
	j := m.newJob(now, p) // first, so that the tube stays
	var replaced removed
	if old != nil {
		replaced = m.remove(now, old)
	}
	m.freeKey(name)
	m.setMetadata(j, Metadata{Key: tags.Key, Rules: tags.Rules})
	m.enterIn(now, j, tags.wait(now, p.Delay))
	m.tellPut(j, p)
	m.tellRemoved(replaced) // behind the put, as the journal may divide what it is told before one
	return PutAnswer{ID: j.ID}
}

// onDuplicate returns what a put does if its key is taken.
func (m *Machine) onDuplicate(tube string, tags *Tags) OnDuplicate {
	if tags.OnDuplicate != NotSaid {
		return tags.OnDuplicate
	}
	if p := m.policies[tube]; p != nil && p.OnDuplicate != NotSaid {
		return p.OnDuplicate
	}
	return Keep
}

// keyTaken tells whether a put must make no job because its key is taken, and what its answer
// is then.
func (m *Machine) keyTaken(now Instant, name string, what OnDuplicate) (a PutAnswer, taken bool) {
	if what == Replace {
		return a, false
	}
	if r := m.keys[name]; r != 0 {
		j := m.slab.at(r)
		a.ID, a.State = j.ID, j.state
	} else if g, ok := m.gone.keys[name]; ok && g.until > now {
		a.ID = g.id
	} else {
		return a, false
	}
	if a.Result = PutTombstone; what == Fail {
		a.Result = PutDuplicate
	}
	return a, true
}

// Admits tells whether the policy of a tube lets it have one more job, with size bytes.
func (m *Machine) Admits(tube string, size int) bool { return m.admits(tube, size, nil) }

// admits is Admits for a job that takes the place of another one, which may be nil.
func (m *Machine) admits(tube string, size int, old *Job) bool {
	p := m.policies[tube]
	if p == nil {
		return true
	}
	var jobs, bytes uint64
	if t := m.tubes[tube]; t != nil {
		jobs, bytes = uint64(t.jobs), t.bytes
	}
	if old != nil {
		jobs, bytes = jobs-1, bytes-uint64(old.size)
	}
	return p.Admits(jobs, bytes, uint64(size))
}

// wait returns how long after now a job is due that was put with these tags and a delay in
// seconds. It is at most until Latest.
func (t *Tags) wait(now Instant, delay uint32) time.Duration {
	switch {
	case t.HasAt:
		return max(min(t.At, Latest).Until(now), 0)
	case t.HasDelay:
		return t.Delay
	}
	return time.Duration(delay) * time.Second
}

// enterIn makes j, which is in no queue, due after a wait; ready if that is none. Its delay
// becomes as many whole seconds, rounded up.
func (m *Machine) enterIn(now Instant, j *Job, wait time.Duration) {
	j.delay = uint32(min((wait+time.Second-1)/time.Second, 1<<32-1))
	if wait > 0 {
		m.enqueue(j, Delayed, int64(now.Plus(wait)))
	} else {
		j.dueSince(now)
		m.enqueue(j, Ready, int64(j.pri))
	}
}

// Remove removes a job, whatever its state and whoever holds it. It counts as one that was
// deleted from its tube.
func (m *Machine) Remove(now Instant, j *Job) { m.tellRemoved(m.remove(now, j)) }

// removed is what the journal is told of a job that is gone. The zero value is none.
type removed struct {
	id   uint64
	size uint32
}

// remove is Remove without telling the journal.
func (m *Machine) remove(now Instant, j *Job) removed {
	r := removed{j.ID, j.size}
	t := m.tubeOf(j)
	t.deletes++
	t.flow.Deletes++
	m.dequeue(j)
	m.forget(now, j)
	return r
}

func (m *Machine) tellRemoved(r removed) {
	if m.journal != nil && r.id != 0 {
		m.journal.Deleted(r.id, r.size)
	}
}
