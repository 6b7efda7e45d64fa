package tube

// Role says how a connection refers to a tube.
type Role uint8

// The roles. Both keep a tube alive.
const (
	Using Role = iota
	Watching
)

// Ref adds delta to the number of connections that refer to a tube in a role. It
// creates the tube if delta is positive and there is none of that name. It removes
// the tube if nothing keeps it alive any more.
func (m *queues) Ref(name string, role Role, delta int) {
	t := m.tubes[name]
	if t == nil {
		if delta <= 0 {
			return
		}
		t = m.open(name)
	}
	if role == Using {
		t.using += delta
	} else {
		t.watching += delta
	}
	if delta < 0 {
		m.dropUnused(t)
	}
}

// Pause makes Take find nothing in a tube for that many seconds; 0 ends the pause. It
// returns false if there is no such tube.
func (m *queues) Pause(now Instant, name string, seconds uint32) bool {
	t := m.tubes[name]
	if t == nil {
		return false
	}
	t.pauses++
	if seconds == 0 {
		m.resume(t)
		m.rearmTube(t)
		m.addWakeUp(t)
		return true
	}
	t.pauseSeconds = seconds
	t.pauseUntil = now.After(seconds)
	m.updateTakeable(t)
	m.rearmTube(t)
	if m.journal != nil {
		m.journal.Paused(name, seconds, m.Wall(t.pauseUntil))
	}
	return true
}

// resume ends the pause of t, if it has one.
func (m *queues) resume(t *Tube) {
	if !t.paused() {
		return
	}
	t.pauseSeconds, t.pauseUntil = 0, 0
	m.updateTakeable(t)
	if m.journal != nil {
		m.journal.Paused(t.name, 0, 0)
	}
}

// open returns the tube of that name. It creates it if there is none.
func (m *queues) open(name string) *Tube {
	t := m.tubes[name]
	if t == nil {
		t = &Tube{name: name, index: len(m.order), flow: m.flows.Open(name), throttle: m.throttles.of(name, "")}
		t.handle = m.handles.add(handle{tube: t})
		t.alarm.owner = t
		for _, s := range ColdStates {
			c := t.cold(s)
			c.tube, c.state, c.alarm.owner = t, s, c
		}
		m.tubes[name] = t
		m.order = append(m.order, t)
		m.throttles.recheckTokens(t.throttle, m.policies.limitsOf(t).Rates)
		m.watched.forget()
	}
	return t
}

// dropUnused removes t if nothing keeps it alive.
func (m *queues) dropUnused(t *Tube) {
	if t.jobs > 0 || t.using > 0 || t.watching > 0 || t.name == Default {
		return
	}
	m.resume(t)
	m.alarms.set(&t.alarm, Never)
	delete(m.tubes, t.name)
	delete(m.policies.merged, t.name)
	m.flows.Drop(t.name)
	m.handles.free(t.handle)
	last := len(m.order) - 1
	m.order[t.index] = m.order[last]
	m.order[t.index].index = t.index
	m.order[last] = nil
	m.order = m.order[:last]
}

// rearmTube sets the tube's alarm to the next thing that is due in it.
func (m *queues) rearmTube(t *Tube) {
	at := Never
	if j := t.delayed.head(&m.slab); j != nil {
		at = Instant(j.rank)
	}
	if t.paused() {
		at = min(at, t.pauseUntil)
	}
	m.alarms.set(&t.alarm, at)
}
