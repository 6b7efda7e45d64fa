package tube

// Kick makes up to limit jobs of a tube ready and returns how many. It kicks buried
// jobs, in the order of burying, if there are any; else delayed jobs, in the order of
// due times, but none that wait for a batch. It never kicks both.
func (m *Machine) Kick(now Instant, tube string, limit uint32) int {
	from, n := m.Kickable(tube)
	return m.KickSome(now, tube, from, min(int(limit), n))
}

// Kickable returns which jobs a kick of the tube would move: all jobs in the state from,
// and their number.
func (m *Machine) Kickable(tube string) (from State, jobs int) {
	t := m.tubes[tube]
	switch {
	case t == nil:
		return Buried, 0
	case t.buried.len() > 0:
		return Buried, t.buried.len()
	}
	return Delayed, t.delayed.len() - t.waiting
}

// KickSome does a part of a kick of jobs in the state from: it makes up to limit of
// them ready and returns how many. Fewer than limit means that there are no more.
func (m *Machine) KickSome(now Instant, tube string, from State, limit int) int {
	t := m.tubes[tube]
	if t == nil {
		return 0
	}
	q, n := &t.buried, t.buried.len()
	if from == Delayed {
		q, n = &t.delayed, t.delayed.len()-t.waiting // those that wait are the last
	}
	n = min(limit, n)
	for range n {
		m.moveAlong(now, q.head(&m.slab), arrowAt[KickJob][from], 0)
	}
	return n
}
