package tube

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

	// RecordSet reports the new record of that name, which is not changed any more; nil if there is none. Of a JobBatch Name,
	// Created, TTL, Sealed, Done, Gone, Verdict and Since survive a restart; the rest follows from the jobs.
	RecordSet(kind RecordKind, name string, r NamedRecord)
}

// Record is what survives a restart of a job: everything but its reservation. A lease
// survives too. Its instants are wall times.
type Record struct {
	ID              uint64
	Tube            string
	State           State // Ready, Delayed or Buried; Reserved if that is by a lease
	Held            bool  // Ready: it is reserved by a connection, or was when the last process ended
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
	case Ready:
		if _, r.Held = m.heldAtEnd[j.ID]; r.Held {
			r.Counters[Reserves]++
		}
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

// removed is what is reported about a removed job. The zero value is none.
type removed struct {
	id    uint64
	size  uint32
	ended *Ended // nil: no record of it is kept

	checkpoint uint64 // the number of its checkpoint; 0: it has none
}

// removed returns what is to be reported about j, which is about to be removed.
func (m *jobs) removed(now Instant, j *Job, end ending) removed {
	return removed{j.ID, j.size, m.ended(now, j, end), m.metadata.of(j).Checkpoint.Number}
}

// reportRemoved reports a removed job, its record, and that its checkpoint is gone.
func (m *jobs) reportRemoved(r removed) {
	if r.ended != nil {
		m.ends.keep(r.ended)
	}
	if r.checkpoint != 0 && m.saveCheckpoint != nil {
		m.saveCheckpoint(r.checkpoint, nil)
	}
	if m.journal != nil && r.id != 0 {
		m.journal.Deleted(r.id, r.size)
	}
}

// journalPut reports a new job to the journal.
func (m *jobs) journalPut(j *Job, p NewJob) {
	if m.journal != nil {
		m.journal.Put(m.record(j, &m.reported), p.Body, p.Buffer)
	}
}

// journalChanged reports the new state of j to the journal.
func (m *jobs) journalChanged(j *Job) {
	if m.journal != nil {
		m.journal.Changed(m.record(j, &m.reported))
	}
}
