package tube

// Tick does up to limit of the things that are due: it makes delayed jobs ready, ends
// pauses, takes back reservations whose TTR has run out, lets jobs expire, frees keys, and notices
// records that are due (TakeRecordsDue). It returns when the next thing is due. If that is now or earlier, limit was reached.
func (m *Machine) Tick(now Instant, limit int) Instant {
	for ; limit > 0 && m.alarms.next() <= now; limit-- {
		m.alarms.first().owner.fire(m, now)
	}
	return m.alarms.next()
}

// Next returns when the next thing is due, or Never.
func (m *Machine) Next() Instant { return m.alarms.next() }

// fire lets a job go on whose delay is over, or ends the pause.
func (t *Tube) fire(m *Machine, now Instant) {
	if j := t.delayed.head(&m.slab); j != nil && Instant(j.rank) <= now {
		m.moveAlong(now, j, arrowAt[Mature][Delayed], 0, &noTerms)
		return
	}
	m.resume(t)
	m.rearmTube(t)
	m.addWakeUp(t)
}

// fire ends the reservation whose TTR has run out.
func (h *holding) fire(m *Machine, now Instant) {
	m.moveAlong(now, h.jobs.head(&m.slab), arrowAt[Expire][Reserved], h.holder, &noTerms)
}

func (*expiries) fire(m *Machine, now Instant)    { m.expireNext(now) }
func (k *keys) fire(*Machine, Instant)            { k.freeNext() }
func (th *throttle) fire(m *Machine, now Instant) { m.fireThrottle(now, th) }
func (*unchecked) fire(m *Machine, now Instant)   { m.checkNext(now) }
func (l *listedGroups) fire(*Machine, Instant)    { l.drop() }
