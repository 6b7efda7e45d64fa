package tube

// FewTubes is up to how many tubes a Take just looks at one after the other. What
// it costs is not counted, see Looks.
const FewTubes = 16

// watched remembers the tubes of a list of names from one Take to the next, so
// that a connection that watches very many and sends many reserves at once does
// not have each of them look up all names. It is good only as long as the list
// cannot change, see ForgetWatched.
type watched struct {
	names   []string
	tubes   []*Tube // those of names that exist
	stamp   uint64  // what Tube.listed of these is
	looks   uint64  // tubes that were looked at for Takes of many, ever
	lookups uint64  // names that were looked up for these
}

// best returns the job that a Take from these tubes gets, or nil.
func (m *Machine) best(names []string) (best *Job) {
	if len(m.takeable) == 0 {
		return nil
	}
	if len(names) > FewTubes {
		return m.bestOfMany(names)
	}
	for _, name := range names {
		t := m.tubes[name]
		if t == nil || t.paused() {
			continue
		}
		best = m.better(best, t)
	}
	return best
}

// better returns best, or the first ready job of t if that goes before it.
func (m *Machine) better(best *Job, t *Tube) *Job {
	if j := t.ready.head(&m.slab); j != nil && (best == nil || before(j, best)) {
		return j
	}
	return best
}

// bestOfMany is best for a long list. It looks at the tubes of the list or at
// those that have something to take, whichever are fewer.
func (m *Machine) bestOfMany(names []string) (best *Job) {
	w := &m.watched
	if len(w.names) != len(names) || &w.names[0] != &names[0] {
		m.list(names)
	}
	if len(w.tubes) <= len(m.takeable) {
		w.looks += uint64(len(w.tubes))
		for _, t := range w.tubes {
			if t.place != 0 {
				best = m.better(best, t)
			}
		}
		return best
	}
	w.looks += uint64(len(m.takeable))
	for _, t := range m.takeable {
		if t.listed == w.stamp {
			best = m.better(best, t)
		}
	}
	return best
}

// list looks up the tubes of names.
func (m *Machine) list(names []string) {
	w := &m.watched
	w.names, w.tubes = names, w.tubes[:0]
	w.stamp++
	w.lookups += uint64(len(names))
	for _, name := range names {
		if t := m.tubes[name]; t != nil && t.listed != w.stamp {
			t.listed = w.stamp
			w.tubes = append(w.tubes, t)
		}
	}
}

// ForgetWatched is to be called when the names that were given to Take may
// change.
func (m *Machine) ForgetWatched() {
	if m.watched.names != nil {
		m.watched.names = nil
		clear(m.watched.tubes)
		m.watched.tubes = m.watched.tubes[:0]
	}
}

// Looks returns what the Takes from many tubes have cost so far: how many tubes
// were looked at, and how many names were looked up, which is done once for Takes
// of one list that follow each other.
func (m *Machine) Looks() (tubes, names uint64) { return m.watched.looks, m.watched.lookups }

// noteTakeable is called when t may have got its first ready job, lost its
// last one, or its pause has begun or ended.
func (m *Machine) noteTakeable(t *Tube) {
	is := t.ready.len() > 0 && !t.paused()
	if is == (t.place != 0) {
		return
	}
	if is {
		m.takeable = append(m.takeable, t)
		t.place = len(m.takeable)
		return
	}
	last := len(m.takeable) - 1
	moved := m.takeable[last]
	m.takeable[t.place-1], moved.place = moved, t.place
	m.takeable[last] = nil
	m.takeable, t.place = m.takeable[:last], 0
}
