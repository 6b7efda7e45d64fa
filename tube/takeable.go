package tube

// updateTakeable keeps Machine.takeable up to date. It is called when t may have got
// its first ready job that can start or lost its last one, or when a pause or a limit of the tube
// has changed. It returns whether t is takeable and was not before.
func (m *turns) updateTakeable(t *Tube) (begins bool) {
	t.checkedStamp = m.policies.stamp
	held := m.policies.limit(t) && m.heldInTube(t) != NotHeld
	ok := t.offers() && !t.paused() && !held
	if !m.deferring {
		t.countHold(held)
	}
	if ok == (t.takeableAt != 0) {
		return false
	}
	if ok {
		m.takeable = append(m.takeable, t)
		t.takeableAt = len(m.takeable)
		return true
	}
	last := len(m.takeable) - 1
	moved := m.takeable[last]
	m.takeable[t.takeableAt-1], moved.takeableAt = moved, t.takeableAt
	m.takeable[last] = nil
	m.takeable, t.takeableAt = m.takeable[:last], 0
	return false
}

// offers reports whether t has a job that could start were it not for limits of the tube.
func (t *Tube) offers() bool {
	if t.lanes == nil {
		return t.ready.len() > 0
	}
	return t.lanes.eligible.next() != nil
}

// addWakeUp records that a job can now be taken from t.
func (m *turns) addWakeUp(t *Tube) {
	if !t.woken && t.takeableAt != 0 {
		t.woken = true
		m.woken = append(m.woken, t)
	}
}

// WakeUps calls wake with the name of each tube in which a job has become available
// since the last call. Some of these jobs may have been taken since.
func (m *turns) WakeUps(wake func(tube string)) {
	for i, t := range m.woken {
		t.woken = false
		m.woken[i] = nil
		wake(t.name)
	}
	m.woken = m.woken[:0]
}

// watched caches the tubes of a list of names from one Take to the next. So a
// connection that watches very many tubes, and sends many reserves at once, does
// not look up all names for each of them. The list is identified by the address and
// the length of the slice, so the cache is valid only while no list can change, see
// ForgetWatched.
type watched struct {
	names     []string
	tubes     []*Tube // those of names that exist
	stamp     uint64  // Tube.listed of these tubes
	tubesSeen uint64  // tubes that Takes from many have examined, since the start
	namesSeen uint64  // names that were looked up for these
}

// lookUp finds the tubes of names and remembers them.
func (w *watched) lookUp(names []string, tubes map[string]*Tube) {
	w.names, w.tubes = names, w.tubes[:0]
	w.stamp++
	w.namesSeen += uint64(len(names))
	for _, name := range names {
		if t := tubes[name]; t != nil && t.listed != w.stamp {
			t.listed = w.stamp
			w.tubes = append(w.tubes, t)
		}
	}
}

// forget forgets the names.
func (w *watched) forget() {
	if w.names != nil {
		w.names = nil
		clear(w.tubes)
		w.tubes = w.tubes[:0]
	}
}
