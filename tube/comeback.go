package tube

// How a job comes back that was reserved: whether it waits, or is parked.

// ruled tells whether j comes back by rules of its own or of its tube.
func (m *Machine) ruled(j *Job) bool {
	return j.hasMetadata || len(m.policies) > 0 && m.policies[m.tubeOf(j).name] != nil
}

// comeBack puts j, which is in no queue and was reserved, where the rules of the job have it.
// A release with a delay waits for that, and not as the rules say; asked is that delay, in
// seconds.
func (m *Machine) comeBack(now Instant, j *Job, o Outcome, asked uint32) {
	f, rules := m.metadataOf(j), m.rulesOf(j)
	parked, wait := rules.After(o, f.Failures(&j.counters), f.Deliveries(&j.counters))
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

// park buries j, which is in no queue, and notes why, and where it is to go from there.
func (m *Machine) park(j *Job, why Parked, dead string) {
	f := m.changeMetadata(j)
	f.Parked = why
	m.tubeOf(j).flow.Parked++
	if dead != m.tubeOf(j).name {
		f.PendingDead = dead
	}
	m.burials++
	m.enqueue(j, Buried, m.burials)
}

// unpark forgets why j was parked, when it leaves the buried ones. If it was kicked its
// failures and deliveries begin anew.
func (m *Machine) unpark(j *Job, move Move) {
	if m.metadataOf(j).Parked == NotParked {
		return
	}
	f := m.changeMetadata(j)
	f.Parked, f.PendingDead = NotParked, ""
	if move == KickJob {
		f.FailuresBefore, f.DeliveriesBefore = j.counters.Failures(), j.counters.Deliveries()
	}
}

// sendIfBound sends j to its dead-letter tube, if it is on its way there. If its body is not
// kept here, or others wait already, it waits for SendBound: jobs are sent in their order.
func (m *Machine) sendIfPending(now Instant, j *Job) {
	switch {
	case m.metadataOf(j).PendingDead == "":
	case m.pendingDead.len() > 0, j.size > 0 && m.Body(j) == nil:
		m.pendingDead.add(j.ID)
	default:
		m.send(now, j, m.Body(j), m.Buffer(j))
	}
}

// Bound returns how many jobs may be on their way to a dead-letter tube and wait for
// NextBound.
func (m *Machine) PendingDeadLetters() int { return m.pendingDead.len() }

// NextBound returns up to n of the jobs that are on their way to a dead-letter tube, and does
// not return them again. Each is then for SendBound, StopBound or AgainBound.
func (m *Machine) NextPending(n int) []uint64 { return m.pendingDead.take(n) }

// SendBound sends job id to its dead-letter tube, if it is still on its way there. The body is
// kept, not copied; it is used if none is kept here.
func (m *Machine) SendPending(now Instant, id uint64, body []byte) {
	j := m.pendingJob(id)
	switch {
	case j == nil:
	case m.Body(j) != nil:
		m.send(now, j, m.Body(j), m.Buffer(j))
	default:
		m.send(now, j, body, nil)
	}
}

// StopBound has job id, which is on its way to a dead-letter tube, stay where it is: buried.
func (m *Machine) CancelPending(id uint64) {
	if j := m.pendingJob(id); j != nil {
		m.changeMetadata(j).PendingDead = ""
		m.tellChanged(j)
	}
}

// AgainBound has NextBound return jobs again, before the others.
func (m *Machine) RequeuePending(ids ...uint64) { m.pendingDead.putBack(ids) }

// boundJob returns job id if it is on its way to a dead-letter tube, else nil.
func (m *Machine) pendingJob(id uint64) *Job {
	if j := m.Find(id); j != nil && m.metadataOf(j).PendingDead != "" {
		return j
	}
	return nil
}

// send makes a new job of j in its dead-letter tube, and removes j. The new one has its body,
// priority, TTR and key, unless the key is taken there.
func (m *Machine) send(now Instant, j *Job, body []byte, users Buffer) {
	from, to := m.tubeOf(j).name, m.metadataOf(j).PendingDead
	metadata := Metadata{Key: m.keyOf(j), FromTube: from, FromID: j.ID}
	if m.ByKey(to, metadata.Key) != nil {
		metadata.Key = ""
	}
	if users != nil {
		users.Retain()
	}
	p := NewJob{Tube: to, Pri: j.pri, TTR: j.ttr, Body: body, Buffer: users}
	dead := m.newJob(now, p)
	m.freeKey(keyName(to, metadata.Key))
	m.setMetadata(dead, metadata)
	m.enqueue(dead, Ready, int64(dead.pri))
	m.tellPut(dead, p)
	m.Remove(now, j)
}
