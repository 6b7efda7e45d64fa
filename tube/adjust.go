package tube

import "time"

// SetPriority changes the priority of a job that is not reserved. It returns false if there
// is no such job. A ready job moves to its new position at once; a delayed or buried one keeps
// its position.
func (m *Machine) SetPriority(id uint64, pri uint32) bool {
	j := m.Find(id)
	if j == nil || j.state == Reserved {
		return false
	}
	if j.state == Ready {
		m.dequeue(j)
		j.pri = pri
		m.enqueue(j, Ready, int64(pri))
	} else {
		j.pri = pri
	}
	m.journalChanged(j)
	return true
}

// Reschedule makes a ready or delayed job due after in; at once if in is zero. It returns
// false if there is no such job, or if it waits for a batch. No counter grows. The job's delay becomes in, rounded up
// to whole seconds.
func (m *Machine) Reschedule(now Instant, id uint64, in time.Duration) bool {
	j := m.Find(id)
	if j == nil || j.state != Ready && j.state != Delayed || j.batch&isHeld != 0 {
		return false
	}
	m.dequeue(j)
	m.enterIn(now, j, in)
	m.journalChanged(j)
	return true
}

// Kickable returns which jobs a kick of the tube would move: those in the state from,
// and their number. It kicks buried jobs, in the order of burying, if there are any; else delayed jobs,
// in the order of due times, but none that wait for a batch. It never kicks both.
func (m *Machine) Kickable(tube string) (from State, jobs int) {
	t := m.tubes[tube]
	switch {
	case t == nil:
		return Buried, 0
	case t.buried.len() > 0:
		return Buried, t.buried.len()
	}
	return Delayed, t.in(Delayed) - t.waiting
}

// KickSome does a part of a kick of jobs in the state from, see Kickable: it makes up to limit of
// them ready and returns how many. Fewer than limit means that there are no more, or that a cold one may come next. keep says that they keep their checkpoints.
func (m *Machine) KickSome(now Instant, tube string, from State, limit int, keep bool) int {
	t := m.tubes[tube]
	if t == nil {
		return 0
	}
	q, n := &t.buried, t.buried.len()
	if from == Delayed {
		q, n = &t.delayed, t.delayed.len()-t.waiting // those that wait are the last
	}
	n = min(limit, n)
	terms := Terms{KeepCheckpoint: keep}
	for done := range n {
		if from == Delayed && m.coldFirst(t, q.head(&m.slab)) {
			return done
		}
		m.moveAlong(now, q.head(&m.slab), arrowAt[KickJob][from], 0, &terms)
	}
	return n
}

// SetAsideWith is SetAside for any job that is not buried, whoever has reserved it.
func (m *Machine) SetAsideWith(now Instant, id uint64, reason string) bool {
	j := m.Find(id)
	return j != nil && m.SetAside(now, j.holder, id, reason)
}

// SetAside buries job id, with a reason, because its body is damaged. It does nothing if a
// holder other than h has reserved the job. No counter grows, because no client
// asked for it. It returns whether the job was buried.
func (m *Machine) SetAside(now Instant, h Holder, id uint64, reason string) bool {
	j := m.Find(id)
	if j == nil || j.state == Buried || j.state == Reserved && j.holder != h {
		return false
	}
	m.noteReason(now, j, reason)
	m.clearAfter(now, j)
	m.dequeue(j)
	m.enter(now, j, Buried, nil)
	m.recount(now, j)
	m.journalChanged(j)
	m.batches.report()
	return true
}

// Untake undoes the Take of job id by h, whose body cannot be read at present: the job is where it
// was, and the Take counts neither as a delivery nor as a reservation nor as a start of a rate. It does nothing if h
// does not hold the job.
func (m *Machine) Untake(now Instant, h Holder, id uint64) {
	j := m.Find(id)
	if j == nil || j.state != Reserved || j.holder != h {
		return
	}
	j.counters[Reserves]--
	start, name, group := Instant(j.rank).Plus(-time.Duration(j.ttr)*time.Second), m.tubeOf(j).name, ""
	if l := m.laneOf(j); l != nil {
		group = l.name
	}
	m.moveAlong(now, j, arrowAt[GiveBack][Reserved], h, &noTerms)
	m.returnTokens(now, start, m.throttles.of(name, ""))
	if group != "" {
		m.returnTokens(now, start, m.throttles.of(name, group))
	}
}
