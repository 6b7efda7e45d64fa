package tube

import "fmt"

// Journal is told of every change that must survive a restart, so that no caller
// has to decide what to write. The Machine calls its methods in the middle of a
// change, on the goroutine that has called the Machine. They must not call the Machine
// and must not fail. The Facts of a Record are only lent for the call.
type Journal interface {
	// Put tells about a new job. The journal may keep body, which does not change,
	// if it retains users, which may be nil.
	Put(r Record, body []byte, users Buffer)

	// Changed tells what a job has become.
	Changed(r Record)

	// Deleted tells that a job is gone. Its body had size bytes.
	Deleted(id uint64, size uint32)

	// Paused tells that a tube is paused until an instant. seconds is the length
	// of the pause that was asked for. If until is 0, the pause is over.
	Paused(tube string, seconds uint32, until Instant)

	// KeyKept tells that a key of a tube stays taken until an instant, though the job
	// is gone that had it. If until is 0, it is free again.
	KeyTombstone(tube, key string, id uint64, until Instant)

	// PolicySet tells that a tube has another policy, which does not change; nil: none.
	PolicySet(tube string, p *Policy)
}

// SetJournal sets the journal that is told from now on; nil: none is.
func (m *Machine) SetJournal(j Journal) { m.journal = j }

// Record is what survives a restart of a job: everything but its reservation, unless that
// is a lease.
type Record struct {
	ID              uint64
	Tube            string
	State           State // Ready, Delayed or Buried; Reserved if that is by a lease
	Held            bool  // Ready: it was reserved by a connection
	Pri, Delay, TTR uint32
	Size            uint32 // of the body, in bytes
	Created         Instant
	Rank            int64 // Delayed and Reserved: the Instant when it is due; Buried: the number of the burial; Ready: 0
	Counters        Counters
	Metadata        *Metadata // nil: it has none
}

// record returns what survives of j. Its Facts, if it has any, are in facts, which is
// overwritten.
func (m *Machine) record(j *Job, metadata *Metadata) Record {
	r := Record{
		ID: j.ID, Tube: m.tubeOf(j).name, State: j.state,
		Pri: j.pri, Delay: j.delay, TTR: j.ttr, Size: j.size,
		Created: j.created, Counters: j.counters,
	}
	if j.hasMetadata {
		r.Metadata = metadata
		m.copyMetadata(j, metadata)
	}
	switch j.state {
	case Reserved:
		if r.Rank = j.rank; j.holder != LeaseHolder {
			r.State, r.Held, r.Rank = Ready, true, 0
		}
	case Delayed, Buried:
		r.Rank = j.rank
	}
	return r
}

// lasting reports whether a move changes what survives a restart. The other moves
// only prolong a reservation; or they end a delay, and the next start finds that out by
// itself.
func (a *Arrow) lasting() bool { return a.Counts != NoCounter || a.Move == GiveBack }

// Record returns what survives of a job, and its body if that is kept here. The Facts of the
// record, if there are any, are in facts, which is overwritten.
func (m *Machine) Record(id uint64, metadata *Metadata) (r Record, body []byte, found bool) {
	j := m.Find(id)
	if j == nil {
		return r, nil, false
	}
	return m.record(j, metadata), m.Body(j), true
}

// Restore brings back a job from its record. Jobs may come in any order, but after the
// policies. The body is kept, not copied; nil means that it is kept somewhere else. An error
// means that the record cannot be true. EndRestore must follow.
func (m *Machine) Restore(now Instant, r Record, body []byte) error {
	if r.ID == 0 || m.jobs.get(r.ID) != 0 {
		return fmt.Errorf("job %d is there twice, or cannot be", r.ID)
	}
	t := m.open(r.Tube)
	j := m.slab.alloc()
	j.ID, j.tube, j.created = r.ID, t.handle, r.Created
	j.pri, j.delay, j.ttr, j.size, j.counters = r.Pri, r.Delay, max(r.TTR, MinTTR), r.Size, r.Counters
	if len(body) > 0 {
		m.slab.keep(j, body, nil)
	}
	m.jobs.set(j.ID, j.self)
	m.lastID = max(m.lastID, j.ID)
	t.jobs++
	t.bytes += uint64(j.size)
	if r.Metadata != nil {
		if m.ByKey(r.Tube, r.Metadata.Key) != nil {
			return fmt.Errorf("job %d has a key that another job has", r.ID)
		}
		m.setMetadata(j, *r.Metadata)
	}
	return m.restoreState(now, j, r)
}

// restoreState puts j, which is in no queue, where its record says.
func (m *Machine) restoreState(now Instant, j *Job, r Record) error {
	switch {
	case r.State == Reserved:
		m.restoreLease(j, r.Rank)
	case r.State == Buried:
		m.burials = max(m.burials, r.Rank)
		m.enqueue(j, Buried, r.Rank)
		if m.metadataOf(j).PendingDead != "" {
			m.pendingDead.add(j.ID)
		}
	case r.State == Delayed && Instant(r.Rank) > now:
		m.enqueue(j, Delayed, r.Rank)
	case r.State == Delayed || r.State == Ready:
		j.dueSince(r.Created.After(r.Delay))
		if r.State == Delayed {
			j.dueSince(Instant(r.Rank))
		}
		m.enqueue(j, Ready, int64(j.pri))
		if r.Held {
			m.lost = append(m.lost, j.ID)
		}
	default:
		return fmt.Errorf("job %d is recorded as %v", r.ID, r.State)
	}
	return nil
}

// lostForGood tells whether j is parked when it comes back without a result.
func (m *Machine) lostForGood(j *Job) bool {
	if !m.ruled(j) {
		return false
	}
	f, rules := m.metadataOf(j), m.rulesOf(j)
	parked, _ := rules.After(Lost, f.Failures(&j.counters), f.Deliveries(&j.counters))
	return parked != NotParked
}

// Adopt makes a job of another server: with everything that its record says, but for its
// reservation, facts, and the number of its burial, which it gets. Its id must have been given
// out, see SkipTo. It counts as one that was put. It returns false, and does nothing, if the job
// is there already. The body is kept, not copied.
func (m *Machine) Adopt(now Instant, r Record, body []byte) bool {
	if m.jobs.get(r.ID) != 0 {
		return false
	}
	r.Metadata, r.Held, r.Size = nil, false, uint32(len(body))
	if r.State == Buried {
		r.Rank = m.burials + 1
	}
	if m.Restore(now, r, body) != nil {
		return false
	}
	j := m.Find(r.ID)
	m.tubeOf(j).total++
	m.totals.Jobs++
	if m.journal != nil {
		m.journal.Put(m.record(j, &m.told), body, nil)
	}
	return true
}

// EndRestore is called when all jobs are restored, and the journal is set. Of the jobs that
// were reserved it tells the journal that they are not any more, and parks those that do not
// come back: up to limit of them. It returns whether there are more.
func (m *Machine) EndRestore(now Instant, limit int) (more bool) {
	n := min(limit, len(m.lost))
	for _, id := range m.lost[:n] {
		j := m.Find(id)
		if m.lostForGood(j) {
			m.dequeue(j)
			m.comeBack(now, j, Lost, 0)
		}
		m.tellChanged(j)
		m.sendIfPending(now, j)
	}
	m.lost = m.lost[n:]
	return len(m.lost) > 0
}

// RestorePause brings back the pause of a tube. It returns false if the pause is
// over, or if there is no such tube: a tube without a job does not survive a
// restart, because no connection attends it.
func (m *Machine) RestorePause(now Instant, name string, seconds uint32, until Instant) bool {
	t := m.tubes[name]
	if t == nil || until <= now {
		return false
	}
	t.pauseSeconds, t.pauseUntil = seconds, until
	m.noteTakeable(t)
	m.rearm(t)
	return true
}

// LastID returns the largest id that was given out so far.
func (m *Machine) LastID() uint64 { return m.lastID }

// SkipTo makes all ids up to id count as given out.
func (m *Machine) SkipTo(id uint64) { m.lastID = max(m.lastID, id) }
