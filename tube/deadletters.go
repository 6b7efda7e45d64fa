package tube

// What happens to a job whose delivery has failed: a retry, perhaps after a wait, or parking,
// and the way to a dead-letter tube.

// hasRules reports whether rules of j or of its tube can apply when a delivery of j ends.
func (m *jobs) hasRules(j *Job) bool {
	return m.isTagged(j) || m.policies.ofTube(m.tubeOf(j)) != nil
}

// requeueOrPark puts j, which was reserved and is in no queue, where its rules say: it is
// ready, delayed or parked, or its time is over. asked is the delay of a release, in seconds; if it is not zero, it
// is used instead of the wait of the rules.
func (m *times) requeueOrPark(now Instant, j *Job, o Outcome, asked uint32) {
	if o != Refused && m.isOver(now, j) {
		m.lapse(now, j)
		return
	}
	f, rules := m.metadataOf(j), m.rulesOf(j)
	parked, wait := rules.After(j.ID, o, f.Failures(&j.counters), f.Deliveries(&j.counters))
	switch {
	case parked != NotParked:
		m.park(j, parked, rules.Dead)
	case asked > 0:
		m.enqueue(j, Delayed, int64(now.After(asked)))
	case wait > 0:
		m.enterIn(now, j, wait)
	default:
		m.enqueue(j, Ready, int64(j.pri))
	}
}

// park buries j, which is in no queue, and records the reason and the dead-letter tube.
func (m *times) park(j *Job, why Parked, dead string) {
	f := m.changeMetadata(j)
	f.Parked = why
	m.tubeOf(j).flow.Parked++
	if dead != m.tubeOf(j).name {
		f.PendingDead = dead
	}
	m.burials++
	m.enqueue(j, Buried, m.burials)
}

// unpark clears why j was parked, when it leaves the buried jobs. If it was kicked, its
// failures and deliveries count from zero again. A job that is kicked after its time does not
// expire any more.
func (m *times) unpark(now Instant, j *Job, move Move) {
	if move == KickJob && m.isOver(now, j) {
		m.expiries.remove(j.ID)
		m.changeMetadata(j).Expires = 0
	}
	if m.metadataOf(j).Parked == NotParked {
		return
	}
	f := m.changeMetadata(j)
	f.Parked, f.PendingDead = NotParked, ""
	if move == KickJob {
		f.FailuresBefore, f.DeliveriesBefore = j.counters.Failures(), j.counters.Deliveries()
	}
}

// sendIfPending sends j to its dead-letter tube, if it is a pending dead letter. If its body is
// not in memory, or other jobs are pending, it waits for SendPending: jobs are sent in order.
func (m *times) sendIfPending(now Instant, j *Job) {
	switch {
	case m.metadataOf(j).PendingDead == "":
	case m.pendingDead.len() > 0, j.size > 0 && m.Body(j) == nil:
		m.pendingDead.add(j.ID)
	default:
		m.sendDeadLetter(now, j, m.Body(j), m.Buffer(j))
	}
}

// PendingDeadLetters returns how many jobs wait for NextPending. Some of them may not be
// pending dead letters any more.
func (m *times) PendingDeadLetters() int { return m.pendingDead.len() }

// NextPending returns up to n pending dead letters, and does not return them again. The caller
// passes each to SendPending, CancelPending or RequeuePending.
func (m *times) NextPending(n int) []uint64 { return m.pendingDead.take(n) }

// SendPending sends job id to its dead-letter tube, if it is still pending. body is used if
// the Machine has no body of the job in memory; it is kept, not copied.
func (m *times) SendPending(now Instant, id uint64, body []byte) {
	j := m.pendingJob(id)
	switch {
	case j == nil:
	case m.Body(j) != nil:
		m.sendDeadLetter(now, j, m.Body(j), m.Buffer(j))
	default:
		m.sendDeadLetter(now, j, body, nil)
	}
}

// CancelPending leaves the pending dead letter id where it is, buried, with a reason.
func (m *times) CancelPending(now Instant, id uint64, reason string) {
	if j := m.pendingJob(id); j != nil {
		m.noteReason(now, j, reason)
		m.changeMetadata(j).PendingDead = ""
		m.journalChanged(j)
	}
}

// RequeuePending makes NextPending return these jobs again, before all others.
func (m *times) RequeuePending(ids ...uint64) { m.pendingDead.putBack(ids) }

// pendingJob returns job id if it is a pending dead letter, else nil.
func (m *jobs) pendingJob(id uint64) *Job {
	if j := m.Find(id); j != nil && m.metadataOf(j).PendingDead != "" {
		return j
	}
	return nil
}

// DeadLetter returns the metadata of the dead letter of job id, which was exhausted in a tube and has the
// metadata f. It has no own rules if that job is a dead letter itself: they are not for its new home.
func (f *Metadata) DeadLetter(tube string, id uint64) Metadata {
	return Metadata{
		Key: f.Key, Group: f.Group, Batch: f.Batch, Rules: f.OwnRules(tube),
		FromTube: tube, FromID: id, Notes: f.Notes, Occurrence: f.Occurrence,
	}
}

// sendDeadLetter creates a copy of j in its dead-letter tube and removes j. The new job has the
// body, priority and TTR of j; it has no key if that of j is taken there.
func (m *times) sendDeadLetter(now Instant, j *Job, body []byte, buf Buffer) {
	f := m.allMetadata(j)
	to, metadata := f.PendingDead, f.DeadLetter(m.tubeOf(j).name, j.ID)
	if m.ByKey(to, metadata.Key) != nil {
		metadata.Key = ""
	}
	if buf != nil {
		buf.Retain()
	}
	p := NewJob{Tube: to, Pri: j.pri, TTR: j.ttr, Body: body, Buffer: buf}
	dead := m.newJob(now, p)
	m.keys.free(keyName(to, metadata.Key))
	m.setMetadata(dead, metadata)
	m.enqueue(dead, Ready, int64(dead.pri))
	m.takePlace(now, dead, j)
	m.journalPut(dead, p)
	m.Remove(now, j)
}
