package tube

// Take reserves for h the job with the smallest (priority, id) of all ready jobs in
// the named tubes that are not paused. In a tube with groups only the next job of the next lane counts,
// see lanes. If there is none it returns nil, and when h
// must be answered DEADLINE_SOON while it waits: Margin before the nearest deadline
// of what h holds, or Never.
//
// After a Take from more than FewTubes the Machine remembers the slice tubes, see
// ForgetWatched.
func (m *Machine) Take(now Instant, h Holder, tubes []string) (*Job, Instant) {
	return m.take(now, h, m.find(now, tubes, false))
}

// TakeFirst is Take, but of the first tube that has a ready job and is not paused. With bytes above
// 0 it is TakeWithin in the same way.
func (m *Machine) TakeFirst(now Instant, h Holder, tubes []string, bytes int) (*Job, Instant) {
	first := m.find(now, tubes, true)
	if first != nil && bytes > 0 && first.Size() > bytes {
		return nil, m.deadlineSoon(h)
	}
	return m.take(now, h, first)
}

// find returns the job that first, or else best, finds in tubes and that may start; nil if there is none.
func (m *Machine) find(now Instant, tubes []string, first bool) *Job {
	for {
		var j *Job
		if first {
			j = m.first(tubes)
		} else {
			j = m.best(tubes)
		}
		if j == nil || m.mayTake(now, j) {
			return j
		}
	}
}

// first returns the job that a TakeFirst from these tubes gets, or nil.
func (m *Machine) first(names []string) *Job {
	if len(m.takeable) == 0 {
		return nil
	}
	for i, name := range names {
		if t := m.tubes[name]; t != nil && t.takeableAt != 0 {
			m.watched.namesSeen += uint64(i)
			return m.nextIn(t)
		}
	}
	m.watched.namesSeen += uint64(len(names))
	return nil
}

// take reserves the job best for h, which may be nil.
func (m *Machine) take(now Instant, h Holder, best *Job) (*Job, Instant) {
	if best == nil {
		return nil, m.deadlineSoon(h)
	}
	if h == LeaseHolder {
		m.lease(now, best)
	}
	t := m.tubeOf(best)
	m.deferLanes()
	m.moveAlong(now, best, arrowAt[Reserve][Ready], h, &noTerms)
	m.started(now, best)
	m.updateDeferred(t)
	return best, Never
}

// TakeWithin is Take, but if the body of that job has more than the given bytes, the job stays
// and no other is taken instead.
func (m *Machine) TakeWithin(now Instant, h Holder, tubes []string, bytes int) (*Job, Instant) {
	best := m.find(now, tubes, false)
	if best != nil && best.Size() > bytes {
		return nil, m.deadlineSoon(h)
	}
	return m.take(now, h, best)
}

// FewTubes is the number of tubes up to which a Take examines them one by one,
// without remembering them. TakeWork does not count these.
const FewTubes = 16

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
		if t != nil && t.takeableAt != 0 {
			best = m.better(best, t)
		}
	}
	return best
}

// better returns best, or the first ready job of t if that comes before best.
func (m *Machine) better(best *Job, t *Tube) *Job {
	if j := m.nextIn(t); best == nil || before(j, best) {
		return j
	}
	return best
}

// bestOfMany is best for a long list. It examines the tubes of the list, or all
// takeable tubes, whichever are fewer.
func (m *Machine) bestOfMany(names []string) (best *Job) {
	w := &m.watched
	if len(w.names) != len(names) || &w.names[0] != &names[0] {
		w.lookUp(names, m.tubes)
	}
	if len(w.tubes) <= len(m.takeable) {
		w.tubesSeen += uint64(len(w.tubes))
		for _, t := range w.tubes {
			if t.takeableAt != 0 {
				best = m.better(best, t)
			}
		}
		return best
	}
	w.tubesSeen += uint64(len(m.takeable))
	for _, t := range m.takeable {
		if t.listed == w.stamp {
			best = m.better(best, t)
		}
	}
	return best
}

// ForgetWatched makes the Machine forget the names of the last Take. Call it before
// a slice that was passed to Take is changed or used for another list.
func (m *Machine) ForgetWatched() { m.watched.forget() }

// TakeWork returns the cost of TakeFirst, and of Takes from more than FewTubes, since the start: how
// many tubes they have examined, and how many names they have looked up.
// Takes that follow each other with the same slice look up its names once.
func (m *Machine) TakeWork() (tubes, names uint64) { return m.watched.tubesSeen, m.watched.namesSeen }
