package tube

// The instants that a Machine is given come from a clock that never jumps, so that no TTR, delay or rate
// depends on whether somebody sets the wall clock, or on how long the computer sleeps. Three kinds of times
// are wall times, and follow it: those of schedules, those of puts with Tags.At, and those of delayed jobs and
// leases that were restored, since no other clock goes on over a restart. All instants that leave a Machine,
// for its journal or for people, are wall times too.

// SetWallClock says how far the wall clock is ahead of the instants that the Machine is given, in whole
// milliseconds; negative if it is behind. That is 0 in the beginning. If it changes, all jobs that are
// delayed or leased are examined.
func (m *Machine) SetWallClock(ahead Instant) {
	by := ahead - m.ahead
	if by == 0 {
		return
	}
	m.ahead = ahead
	m.schedules.dues.clockSet(by)
	m.schedules.rearm()
	for _, t := range m.order {
		if m.followWallClock(&t.delayed, by) {
			m.rearmTube(t)
		}
		m.rearmCold(&t.coldDelayed)
	}
	if h := m.holdings[LeaseHolder]; h != nil && m.followWallClock(&h.jobs, by) {
		m.alarms.set(&h.alarm, h.due(&m.slab))
	}
}

// followWallClock is called when the wall clock has jumped by that much. It moves jobs of q, whose ranks are
// times, that are due at a wall time. It returns whether there are any. Their order stays, and so does that of all others: as
// few as possible leave the queue meanwhile.
func (m *Machine) followWallClock(q *queue, by Instant) bool {
	moving := 0
	q.each(&m.slab, func(j *Job) { moving += int(j.place & byWallTime / byWallTime) })
	if moving == 0 {
		return false
	}
	few := uint8(byWallTime)
	if moving > q.len()/2 {
		few = 0
	}
	out := make([]*Job, 0, min(moving, q.len()-moving))
	q.each(&m.slab, func(j *Job) {
		if j.place&byWallTime == few {
			out = append(out, j)
		}
	})
	for _, j := range out {
		q.remove(&m.slab, j)
	}
	shift := func(j *Job) {
		j.rank = int64(Instant(j.rank).shifted(-by))
		m.expireLaterBy(j, -by)
	}
	if few == 0 {
		q.each(&m.slab, shift)
	}
	for _, j := range out {
		if few != 0 {
			shift(j)
		}
		q.add(&m.slab, j)
	}
	m.expiries.sort()
	return true
}

// expireLaterBy makes j expire that much later, if it does: its time counts from when it is due. Then the expiries must be
// sorted.
func (m *Machine) expireLaterBy(j *Job, by Instant) {
	f := m.metadata.of(j)
	if f.Expires == 0 {
		return
	}
	f.Expires = f.Expires.shifted(by)
	m.expiries.change(j.ID, f.Expires)
}
