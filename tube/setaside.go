package tube

import "time"

// SetAsideWith is SetAside for any job that is not buried, whoever has reserved it.
func (m *Machine) SetAsideWith(now Instant, id uint64, reason string) bool {
	j := m.Find(id)
	return j != nil && m.SetAside(now, j.holder, id, reason)
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
	m.moveAlong(now, j, arrowAt[GiveBack][Reserved], h)
	m.returnTokens(now, start, m.throttleOf(name, ""))
	if group != "" {
		m.returnTokens(now, start, m.throttleOf(name, group))
	}
}

// returnTokens gives back the tokens that a start at that time has taken. th may be nil.
func (m *groups) returnTokens(now, start Instant, th *throttle) {
	if th == nil || th.windows == nil {
		return
	}
	th.windows.undo(start)
	if l := m.laneOfThrottle(th); l != nil {
		m.checkRates(now, l)
	} else if t := m.tubes[th.tube]; t != nil && th.group == "" {
		m.checkTokens(now, th, m.policies.limitsOf(t).Rates)
	}
	m.throttleChanged(th)
}
