package tube

// What happens to a job whose delivery has failed: a retry, perhaps after a wait, or parking,
// and the way to a dead-letter tube.

// requeueOrPark puts j, which was reserved and is in no queue, where its rules say: it is
// ready, delayed or parked, or its time is over. asked is the delay of a release, in seconds; if it is not zero, it
// is used instead of the wait of the rules. If j is gone it returns what is to be reported.
func (m *times) requeueOrPark(now Instant, j *Job, o Outcome, asked uint32) (gone removed) {
	if o != Refused && m.isOver(now, j) {
		return m.lapse(now, j)
	}
	f, rules := m.metadata.of(j), m.rulesOf(j)
	parked, wait := After(&rules, j.ID, o, f.Failures(&j.counters), f.Deliveries(&j.counters))
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
	return gone
}

// park buries j, which is in no queue, and records the reason and the dead-letter tube.
func (m *times) park(j *Job, why Parked, dead string) {
	f := m.metadata.change(j)
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
		m.metadata.change(j).Expires = 0
	}
	if m.metadata.of(j).Parked == NotParked {
		return
	}
	f := m.metadata.change(j)
	f.Parked, f.PendingDead = NotParked, ""
	if move == KickJob {
		f.FailuresBefore, f.DeliveriesBefore = j.counters.Failures(), j.counters.Deliveries()
	}
}

// lapse deletes or parks j, which is in no queue, because its time is over. If j is gone it returns what is to be reported.
func (m *times) lapse(now Instant, j *Job) (gone removed) {
	t, rules := m.tubeOf(j), m.rulesOf(j)
	t.expired++
	t.flow.Expired++
	if rules.OnExpire == ExpirePark {
		m.park(j, ParkedExpired, rules.Dead)
		return gone
	}
	t.deletes++
	t.flow.Deletes++
	gone = m.removed(now, j, ending{how: Expired})
	m.forget(now, j)
	return gone
}

// expireNext does what is due for the job that expires first. One that is reserved expires if it
// comes back, and a buried one does not expire.
func (m *times) expireNext(now Instant) {
	j := m.Find(m.expiries.heap.first().id)
	m.expiries.remove(j.ID)
	if j.state == Reserved || j.state == Buried {
		return
	}
	m.dequeue(j)
	if gone := m.lapse(now, j); gone.id != 0 {
		m.reportRemoved(gone)
	} else {
		m.recount(now, j)
		m.journalChanged(j)
		m.sendIfPending(now, j)
	}
	m.batches.report()
}

// sendIfPending sends j to its dead-letter tube, if it is a pending dead letter. If its body is
// not in memory, or other jobs are pending, it waits for SendPending: jobs are sent in order.
func (m *times) sendIfPending(now Instant, j *Job) {
	switch {
	case m.metadata.of(j).PendingDead == "":
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
		m.metadata.change(j).PendingDead = ""
		m.journalChanged(j)
	}
}

// RequeuePending makes NextPending return these jobs again, before all others.
func (m *times) RequeuePending(ids ...uint64) { m.pendingDead.putBack(ids) }

// pendingJob returns job id if it is a pending dead letter, else nil.
func (m *times) pendingJob(id uint64) *Job {
	if j := m.Find(id); j != nil && m.metadata.of(j).PendingDead != "" {
		return j
	}
	return nil
}

// sendDeadLetter creates a copy of j in its dead-letter tube and removes j. The new job has the
// body, priority and TTR of j; it has no key if that of j is taken there.
func (m *times) sendDeadLetter(now Instant, j *Job, body []byte, buf Buffer) {
	f := m.allMetadata(j)
	to, metadata := f.PendingDead, f.DeadLetter(m.tubeOf(j).name, j.ID, m.Wall(j.created))
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
	m.handOverCheckpoint(j)
	m.removeAs(now, j, ending{how: Dead, toTube: to, toID: dead.ID})
}
