package tube

import "fmt"

// Journal receives every change that must survive a restart, so that no caller has to
// decide what to write. The Machine calls its methods in the middle of a change, on the
// goroutine that called the Machine. They must not call the Machine and must not fail.
// The Metadata of a Record is valid only during the call. All instants are wall times.
type Journal interface {
	// Put reports a new job. The journal can keep body, which does not change, if it
	// retains buf, which may be nil.
	Put(r Record, body []byte, buf Buffer)

	// Changed reports the new state of a job.
	Changed(r Record)

	// Deleted reports that a job is gone. Its body had size bytes.
	Deleted(id uint64, size uint32)

	// Paused reports that a tube is paused until an instant. seconds is the length of the
	// pause as the client asked for it. If until is 0, the pause is over.
	Paused(tube string, seconds uint32, until Instant)

	// KeyTombstone reports that a key of a tube stays taken until an instant, although its
	// job is gone. If until is 0, the key is free again.
	KeyTombstone(tube, key string, id uint64, until Instant)

	// PolicySet reports the new policy of a tube; nil: none. A policy is never changed.
	PolicySet(tube string, p *Policy)

	// GroupSet reports the new record of a group of a tube; the zero value if there is none any more.
	GroupSet(tube, group string, r GroupRecord)

	// ScheduleSet reports the new record of a schedule; nil if there is none any more.
	ScheduleSet(name string, s *Schedule)

	// BatchSet reports the new record of a batch; nil if there is none any more. Of it Name, Created, TTL, Sealed,
	// Done, Gone, Verdict and Since survive a restart; the rest follows from the jobs. It is valid only during the call.
	BatchSet(name string, b *JobBatch)
}

// Record is what survives a restart of a job: everything but its reservation. A lease
// survives too. Its instants are wall times.
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

// record returns what survives of j. Its Metadata, if it has any, is written to metadata, which
// the Record then points to.
func (m *jobs) record(j *Job, metadata *Metadata) Record {
	r := Record{
		ID: j.ID, Tube: m.tubeOf(j).name, State: j.state,
		Pri: j.pri, Delay: j.delay, TTR: j.ttr, Size: j.size,
		Created: m.Wall(j.created), Counters: j.counters,
	}
	if m.isTagged(j) {
		r.Metadata = metadata
		m.copyMetadata(j, metadata)
	}
	switch j.state {
	case Reserved:
		if r.Rank = int64(m.Wall(Instant(j.rank))); j.holder != LeaseHolder {
			r.State, r.Held, r.Rank = Ready, true, 0
		}
	case Delayed:
		r.Rank = int64(m.Wall(Instant(j.rank)))
	case Buried:
		r.Rank = j.rank
	}
	return r
}

// durable reports whether a move changes what survives a restart. The other moves only extend
// a reservation, or they end a delay, which the next start finds out by itself.
func (a *Arrow) durable() bool { return a.Counts != NoCounter || a.Move == GiveBack }

// Record returns what survives of a job, and its body if that is in memory. The Metadata of the
// record, if it has any, is written to metadata, which the Record then points to.
func (m *jobs) Record(id uint64, metadata *Metadata) (r Record, body []byte, found bool) {
	j := m.Find(id)
	if j == nil {
		return r, nil, false
	}
	return m.record(j, metadata), m.Body(j), true
}

// Restore brings back a job from its record. Jobs can come in any order, but after the
// policies. body is kept, not copied; nil means that the body is stored elsewhere. An error
// means that the record is invalid. EndRestore must be called after the last job.
func (m *Machine) Restore(now Instant, r Record, body []byte) error {
	if r.ID == 0 || m.byID.get(r.ID) != 0 {
		return fmt.Errorf("job id %d is zero or used twice", r.ID)
	}
	t := m.open(r.Tube)
	j := m.slab.alloc()
	j.ID, j.tube, j.created = r.ID, t.handle, min(r.Created, now) // the wall clock can have been set back
	j.pri, j.delay, j.ttr, j.size, j.counters = r.Pri, r.Delay, max(r.TTR, MinTTR), r.Size, r.Counters
	if len(body) > 0 {
		m.slab.keep(j, body, nil)
	}
	m.byID.set(j.ID, j.self)
	m.lastID = max(m.lastID, j.ID)
	t.jobs++
	t.bytes += uint64(j.size)
	if r.Metadata != nil {
		if m.ByKey(r.Tube, r.Metadata.Key) != nil {
			return fmt.Errorf("job %d has a key that another job has", r.ID)
		}
		m.setMetadata(j, *r.Metadata)
	}
	if err := m.restoreState(now, j, r); err != nil || r.Metadata == nil {
		return err
	}
	m.restoreInBatch(now, j, r.Metadata.Batch)
	return nil
}

// restoreState puts j, which is in no queue, into the queue that its record says.
func (m *Machine) restoreState(now Instant, j *Job, r Record) error {
	switch {
	case r.State == Reserved:
		m.restoreLease(j, min(r.Rank, int64(now.After(j.ttr))))
	case r.State == Buried:
		m.burials = max(m.burials, r.Rank)
		m.enqueue(j, Buried, r.Rank)
		if m.metadataOf(j).PendingDead != "" {
			m.pendingDead.add(j.ID)
		}
	case r.State == Delayed && Instant(r.Rank) > now:
		m.enqueue(j, Delayed, r.Rank)
		j.place |= byWallTime
	case r.State == Delayed || r.State == Ready:
		j.dueSince(r.Created.After(r.Delay))
		if r.State == Delayed {
			j.dueSince(Instant(r.Rank))
		}
		m.enqueue(j, Ready, int64(j.pri))
		if r.Held {
			m.wereReserved = append(m.wereReserved, j.ID)
		}
	default:
		return fmt.Errorf("job %d is recorded as %v", r.ID, r.State)
	}
	return nil
}

// parkedIfLost reports whether j must be parked if its reservation ended without a result.
func (m *jobs) parkedIfLost(j *Job) bool {
	if !m.hasRules(j) {
		return false
	}
	f, rules := m.metadataOf(j), m.rulesOf(j)
	parked, _ := rules.After(j.ID, Lost, f.Failures(&j.counters), f.Deliveries(&j.counters))
	return parked != NotParked
}

// Adopt adds a job of another server, with everything in its record except the reservation,
// the metadata and the number of its burial; it gets a new burial number. Its id must already
// count as used, see SkipTo. The job counts as put. Adopt returns false, and does nothing, if
// the job exists already. The body is kept, not copied.
func (m *Machine) Adopt(now Instant, r Record, body []byte) bool {
	if m.byID.get(r.ID) != 0 {
		return false
	}
	r.Metadata, r.Held, r.Size, r.Created = nil, false, uint32(len(body)), m.fromWall(r.Created)
	switch r.State {
	case Delayed:
		r.Rank = int64(m.fromWall(Instant(r.Rank)))
	case Buried:
		r.Rank = m.burials + 1
	}
	if m.Restore(now, r, body) != nil {
		return false
	}
	j := m.Find(r.ID)
	m.tubeOf(j).total++
	m.totals.Jobs++
	if m.journal != nil {
		m.journal.Put(m.record(j, &m.reported), body, nil)
	}
	return true
}

// EndRestore must be called when all jobs are restored and the journal is set. It handles up to
// limit jobs that were reserved: it reports to the journal that they are not reserved any more,
// and parks those whose deliveries are used up; those whose time is over expire. It returns whether there are more.
func (m *Machine) EndRestore(now Instant, limit int) (more bool) {
	n := min(limit, len(m.wereReserved))
	for _, id := range m.wereReserved[:n] {
		j := m.Find(id)
		size := j.size
		if m.isOver(now, j) || m.parkedIfLost(j) {
			m.dequeue(j)
			m.requeueOrPark(now, j, Lost, 0)
		}
		if j.ID != id {
			m.journalRemoved(removed{id, size})
			continue
		}
		m.recount(now, j)
		m.journalChanged(j)
		m.sendIfPending(now, j)
	}
	m.journalBatches()
	m.wereReserved = m.wereReserved[n:]
	if more = len(m.wereReserved) > 0; !more {
		m.restoreLanes()
	}
	return more
}

// RestoreKey brings back a tombstone: a key that stays taken although its job is gone. It
// returns false if its time is over.
func (m *jobs) RestoreKey(now Instant, tube, key string, id uint64, until Instant) bool {
	if until <= now {
		return false
	}
	m.keys.restore(keyName(tube, key), tombstone{id, until})
	return true
}

// RestorePause brings back the pause of a tube. If the wall clock was set back, it begins anew. It returns false if the pause is over, or if
// there is no such tube: a tube without a job does not survive a restart, because no
// connection uses or watches it.
func (m *queues) RestorePause(now Instant, name string, seconds uint32, until Instant) bool {
	t := m.tubes[name]
	if t == nil || until <= now {
		return false
	}
	t.pauseSeconds, t.pauseUntil = seconds, min(until, now.After(seconds))
	m.updateTakeable(t)
	m.rearmTube(t)
	return true
}

// LastID returns the largest id that was used so far.
func (m *jobs) LastID() uint64 { return m.lastID }

// SkipTo makes all ids up to id count as used.
func (m *jobs) SkipTo(id uint64) { m.lastID = max(m.lastID, id) }
