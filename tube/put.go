package tube

import "time"

// NewJob is what a put asks for. Delay and TTR are in seconds.
type NewJob struct {
	Tube            string
	Pri, Delay, TTR uint32
	Body            []byte // kept, not copied
	Buffer          Buffer // of Body, or nil; the Machine takes over one reference
}

// Buffer is the reference-counted memory of a body. The Machine has one reference while
// it has the body in memory. Both methods may be called with a lock held.
type Buffer interface {
	Retain()  // adds a reference
	Release() // drops a reference
}

// Put creates a job and returns it. It creates the tube if there is none of that
// name.
func (m *Machine) Put(now Instant, p NewJob) *Job {
	j := m.newJob(now, p)
	if m.policies.any() {
		if at := expiresAt(now, m.policyOf(p.Tube), NoLifetime, time.Duration(p.Delay)*time.Second); at != 0 {
			m.setMetadata(j, Metadata{Expires: at})
		}
	}
	m.enter(now, j, Delayed, nil)
	m.journalPut(j, p)
	return j
}

// PutResult is the result of a put with tags.
type PutResult uint8

const (
	PutNew       PutResult = iota // a job was created
	PutExisting                   // another job has the key, or had it recently: nothing was put
	PutDuplicate                  // the same, and the client asked for an error, or the job is no member of the batch of the put
	PutRefused                    // the tube has reached its quota of jobs or bytes
	PutSealed                     // the batch of which it would be a member is sealed
)

// PutAnswer is the answer to a put with tags: the new job, or the job that has the key.
type PutAnswer struct {
	Result PutResult
	ID     uint64
	State  State // of that job; Gone if only the tombstone of another job is left
}

// PutTagged creates a job with tags, as Put does, unless its key is taken or the tube has
// reached its quota. If nothing was put, the Buffer of the job still belongs to the caller.
func (m *Machine) PutTagged(now Instant, p NewJob, tags *Tags) PutAnswer {
	return m.putTagged(now, p, tags, true)
}

// putTagged is PutTagged. keyTTL says whether a key is also taken because a job had it recently.
func (m *Machine) putTagged(now Instant, p NewJob, tags *Tags, keyTTL bool) PutAnswer {
	name := ""
	if tags.Key != "" {
		name = keyName(p.Tube, tags.Key)
	}
	old := m.ByKey(p.Tube, tags.Key)
	policy := m.policyOf(p.Tube)
	onDuplicate := tags.onDuplicate(policy)
	if a, taken := m.keyTaken(now, name, onDuplicate, keyTTL, tags.Batch); taken {
		return a
	}
	if tags.Batch != "" && m.batches.isSealed(tags.Batch) {
		return PutAnswer{Result: PutSealed}
	}
	var followed *Job
	if onDuplicate == Follow {
		followed, old = old, nil
	}
	if !m.admits(policy, p.Tube, len(p.Body), old) {
		return PutAnswer{Result: PutRefused}
	}
	j := m.newJob(now, p) // first, so that the tube is not removed
	var replaced removed
	if old != nil {
		m.uncount(old, tags.Batch)
		replaced = m.remove(now, old, ending{how: Deleted})
	}
	if followed != nil {
		m.loseKey(followed)
	}
	if name != "" {
		m.keys.free(name)
	}
	wait := tags.wait(m.Wall(now), p.Delay)
	if tags.After != "" {
		wait = time.Duration(wholeSeconds(wait)) * time.Second // its delay is kept so until the batch ends
	}
	expires := m.fromWall(tags.ExpiresAt)
	if expires == 0 {
		expires = expiresAt(now, policy, tags.Expire, wait)
	}
	m.setMetadata(j, tags.metadata(expires))
	if tags.After != "" {
		m.holdAfter(j, wait)
	} else {
		m.enterIn(now, j, wait)
		if tags.HasAt {
			j.place |= byWallTime
		}
	}
	m.joinByPut(now, j, tags)
	m.journalPut(j, p)
	m.reportRemoved(replaced) // after the put: the journal can split the changes before a put, and these two must stay together
	if followed != nil {
		m.journalChanged(followed)
	}
	m.batches.report()
	return PutAnswer{ID: j.ID, State: j.state}
}

// PutScheduled is SetSchedule, and PutTagged before it, the result of which is counted in the record:
// the record is written whatever that result is. A key is taken only while its job exists. tags must have an Occurrence. If it returns false,
// nothing was done. If nothing was put, the Buffer of the job still belongs to the caller.
func (m *Machine) PutScheduled(now Instant, p NewJob, tags *Tags, s *Schedule) (a PutAnswer, ok bool) {
	old, ok := m.schedules.isNext(s)
	if !ok {
		return a, false
	}
	a = m.putTagged(now, p, tags, false)
	results := old.results()
	results.Count(inMilliseconds(m.Wall(now)), tags.Occurrence.Nominal, a)
	m.schedules.write(old, s, results) // after the put: the journal can split the changes before a put, and these two must stay together
	return a, true
}

// metadata returns the metadata of a job that is put with these tags and expires at that time.
func (tags *Tags) metadata(expires Instant) Metadata {
	return Metadata{
		Key: tags.Key, Group: tags.Group, Rules: tags.Rules, Notes: tags.Notes(), Occurrence: tags.Occurrence, Expires: expires,
		Batch: tags.Batch, After: tags.After, AfterAll: tags.AfterAll,
	}
}

// onDuplicate returns what a put does if its key is taken. p is the policy of its tube, which can be
// nil.
func (tags *Tags) onDuplicate(p *Policy) OnDuplicate {
	if tags.OnDuplicate != NotSaid {
		return tags.OnDuplicate
	}
	if p != nil && p.OnDuplicate != NotSaid {
		return p.OnDuplicate
	}
	return Keep
}

// keyTaken reports whether a put must create no job because its key is taken, and what its
// answer is then. name is "" if it has no key; keyTTL says whether a tombstone prevents it too. Unless the job that has the key is
// a member of the put's batch, if there is one, the client must learn that its batch does not wait for that job.
func (m *Machine) keyTaken(now Instant, name string, onDuplicate OnDuplicate, keyTTL bool, batch string) (a PutAnswer, taken bool) {
	if name == "" || onDuplicate == Replace {
		return a, false
	}
	if r := m.keys.jobs[name]; r != 0 {
		j := m.slab.at(r)
		if onDuplicate == Follow && m.wasStarted(j) {
			return a, false
		}
		a.ID, a.State = j.ID, j.state
		if batch != "" && m.batchNameOf(j) != batch {
			onDuplicate = Fail
		}
	} else if g, ok := m.keys.tombstones[name]; ok && keyTTL && g.until > now {
		a.ID = g.id
	} else {
		return a, false
	}
	if a.Result = PutExisting; onDuplicate == Fail {
		a.Result = PutDuplicate
	}
	return a, true
}

// wasStarted reports whether j was ever reserved. A job that a replay has sent back begins again.
func (m *Machine) wasStarted(j *Job) bool {
	return j.counters[Reserves] > 0 || m.metadata.of(j).DeliveriesBefore != 0
}

// Admits reports whether the policy of a tube allows one more job, of size bytes.
func (m *Machine) Admits(tube string, size int) bool {
	return m.admits(m.policyOf(tube), tube, size, nil)
}

// admits is Admits for a job that replaces another job, which may be nil.
func (m *Machine) admits(p *Policy, tube string, size int, old *Job) bool {
	if p == nil || !p.HasQuotaJobs && !p.HasQuotaBytes {
		return true
	}
	var jobs, bytes uint64
	if t := m.tubes[tube]; t != nil {
		jobs, bytes = uint64(t.jobs), t.bytes
	}
	if old != nil {
		jobs, bytes = jobs-1, bytes-uint64(old.size)-uint64(m.metadata.of(old).Checkpoint.Size)
	}
	return p.Admits(jobs, bytes, uint64(size))
}

// wait returns how long after now, a wall time, a job is due that was put with these tags and a delay
// in seconds. It ends at Latest or earlier.
func (t *Tags) wait(now Instant, delay uint32) time.Duration {
	switch {
	case t.HasAt:
		return max(min(t.At, Latest).Until(now), 0)
	case t.HasDelay:
		return t.Delay
	}
	return time.Duration(delay) * time.Second
}
