package tube

import "slices"

// How a job comes back that was reserved: whether it waits, or is parked.

// ruled tells whether j comes back by rules of its own or of its tube.
func (m *Machine) ruled(j *Job) bool {
	return j.hasFacts || len(m.policies) > 0 && m.policies[m.tubeOf(j).name] != nil
}

// comeBack puts j, which is in no queue and was reserved, where the rules of the job have it.
// A release with a delay waits for that, and not as the rules say; asked is that delay, in
// seconds.
func (m *Machine) comeBack(now Instant, j *Job, o Outcome, asked uint32) {
	f, rules := m.factsOf(j), m.rulesOf(j)
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
	f := m.changeFacts(j)
	f.Parked = why
	if dead != m.tubeOf(j).name {
		f.Bound = dead
	}
	m.burials++
	m.enqueue(j, Buried, m.burials)
	m.noteBound(j)
}

// unpark forgets why j was parked, when it leaves the buried ones. If it was kicked its
// failures and deliveries begin anew.
func (m *Machine) unpark(j *Job, move Move) {
	if m.factsOf(j).Parked == NotParked {
		return
	}
	f := m.changeFacts(j)
	f.Parked, f.Bound = NotParked, ""
	if move == KickJob {
		f.FailuresBefore, f.DeliveriesBefore = j.counters.Failures(), j.counters.Deliveries()
	}
}

// noteBound notes that j is on its way to a dead-letter tube, if it is.
func (m *Machine) noteBound(j *Job) {
	if m.factsOf(j).Bound != "" {
		m.bound = append(m.bound, j.ID)
	}
}

// SendBound sends those jobs to their dead-letter tubes that are on their way there, as far
// as their bodies are here. The others wait for SendWithBody.
func (m *Machine) SendBound(now Instant) {
	left := m.bound[:0]
	for _, id := range m.bound {
		switch j := m.Find(id); {
		case j == nil || m.factsOf(j).Bound == "":
		case j.size > 0 && m.Body(j) == nil:
			left = append(left, id)
		default:
			m.send(now, j, m.Body(j), m.Buffer(j))
		}
	}
	m.bound = left
}

// Bound returns the ids of the jobs that are on their way to a dead-letter tube but whose
// bodies are not kept here. The slice is valid until the next call of a method that changes
// the Machine.
func (m *Machine) Bound() []uint64 { return m.bound }

// SendWithBody sends job id to its dead-letter tube, if it is still on its way there. The
// body is kept, not copied.
func (m *Machine) SendWithBody(now Instant, id uint64, body []byte) {
	if j := m.Find(id); j != nil && m.factsOf(j).Bound != "" {
		m.send(now, j, body, nil)
	}
	m.bound = slices.DeleteFunc(m.bound, func(its uint64) bool { return its == id })
}

// send makes a new job of j in its dead-letter tube, and removes j. The new one has its body,
// priority, TTR and key, unless the key is taken there.
func (m *Machine) send(now Instant, j *Job, body []byte, users Buffer) {
	from, to := m.tubeOf(j).name, m.factsOf(j).Bound
	facts := Facts{Key: m.keyOf(j), FromTube: from, FromID: j.ID}
	if m.ByKey(to, facts.Key) != nil {
		facts.Key = ""
	}
	if users != nil {
		users.Retain()
	}
	p := NewJob{Tube: to, Pri: j.pri, TTR: j.ttr, Body: body, Buffer: users}
	dead := m.newJob(now, p)
	m.freeKey(keyName(to, facts.Key))
	m.setFacts(dead, facts)
	m.enqueue(dead, Ready, int64(dead.pri))
	m.tellPut(dead, p)
	m.Remove(now, j)
}
