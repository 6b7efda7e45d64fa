package tube

import "strings"

// SetPolicy sets the policy of a tube or a pattern; nil removes it. The policy must not be changed
// after that. No tube of it need exist.
func (m *groups) SetPolicy(name string, p *Policy) {
	m.policies.set(name, p)
	m.limitsChanged(name)
	m.ends.noticeAll()
	if m.journal != nil {
		m.journal.PolicySet(name, p)
	}
}

// unchecked are the tubes and lanes whose limits may have changed since they were updated.
type unchecked struct {
	tubes  int    // those in Machine.order before this index
	prefix string // with which their names begin
	lanes  []*lane
	alarm  alarm
}

const (
	// tubesAtOnce is how many tubes are checked at once when the policy of a pattern changes; the next Ticks
	// continue.
	tubesAtOnce = 128

	// lanesPerTube is how many lanes become unchecked in the time in which a tube is checked.
	lanesPerTube = 32
)

// limitsChanged is called when the policy of a tube or a pattern has changed. The next Ticks check the tubes of a
// pattern, and the lanes of all tubes. A limit that has become narrower holds at once, see mayTake.
func (m *groups) limitsChanged(name string) {
	prefix, pattern := strings.CutSuffix(name, "*")
	if !pattern {
		if t := m.tubes[name]; t != nil {
			m.tubeLimitsChanged(t)
		}
		return
	}
	u := &m.unchecked
	if u.tubes > 0 && u.prefix != prefix {
		prefix = "" // those of another pattern are not all checked yet
	}
	u.tubes, u.prefix = len(m.order), prefix
	m.checkTubes(tubesAtOnce)
}

// checkTubes updates about n of the unchecked tubes. A tube that is removed from Machine.order is replaced by
// the last one, so those before the index may include tubes that are checked already, but lack none.
func (m *groups) checkTubes(n int) {
	u := &m.unchecked
	for u.tubes = min(u.tubes, len(m.order)); n > 0 && u.tubes > 0; n-- {
		u.tubes--
		if t := m.order[u.tubes]; strings.HasPrefix(t.name, u.prefix) {
			before := len(u.lanes)
			m.tubeLimitsChanged(t)
			n -= (len(u.lanes) - before) / lanesPerTube
		}
	}
	m.rearmUnchecked()
}

// rearmUnchecked sets the alarm of the unchecked tubes and lanes.
func (m *groups) rearmUnchecked() {
	at := Never
	if u := &m.unchecked; u.tubes > 0 || len(u.lanes) > 0 {
		at = 0
	}
	m.alarms.set(&m.unchecked.alarm, at)
}

func (m *groups) tubeLimitsChanged(t *Tube) {
	m.throttles.recheckTokens(t.throttle, m.policies.limitsOf(t).Rates)
	if m.updateTakeable(t) {
		m.addWakeUp(t)
	}
	if t.lanes == nil {
		return
	}
	for l := range t.lanes.byName.all() {
		m.unchecked.lanes = append(m.unchecked.lanes, l)
	}
	m.rearmUnchecked()
}

// checkNext updates one of the unchecked lanes, or if there are none a tube.
func (m *groups) checkNext(now Instant) {
	u := &m.unchecked
	last := len(u.lanes) - 1
	if last < 0 {
		m.checkTubes(1)
		return
	}
	l := u.lanes[last]
	u.lanes[last] = nil
	if u.lanes = u.lanes[:last]; last == 0 {
		u.lanes = nil
	}
	m.rearmUnchecked()
	if l.tube != nil {
		m.checkRates(now, l)
		m.updateLane(l)
	}
}
