package tube

// throttle is what restricts the starts of a group, or of a tube, beyond what a policy says. It is
// independent of lanes and tubes, which end with their last job.
type throttle struct {
	tube, group string // group is "" for the tube itself

	config    *GroupConfig
	forgetAt  Instant // when the config is forgotten, if the group has no job then; 0: never
	journaled Instant // forgetAt, as the journal has it

	pauseSeconds uint32
	pauseUntil   Instant // 0: the group is not paused

	head      uint64   // the job that has started last in strict order and still exists, not buried; 0: none
	windows   *windows // nil: nothing has started
	rateUntil Instant  // no token is left until then; 0: as far as is known one is left

	alarm alarm
	index int // in Machine.throttleOrder
}

// throttleOf returns the throttle of a group, or with group "" of a tube; nil if there is none.
func (m *groups) throttleOf(tube, group string) *throttle {
	if len(m.throttles) == 0 {
		return nil
	}
	return m.throttles[keyName(tube, group)]
}

// openThrottle is throttleOf, but creates it if there is none.
func (m *groups) openThrottle(tube, group string) *throttle {
	th := m.throttleOf(tube, group)
	if th != nil {
		return th
	}
	name := keyName(tube, group)
	th = &throttle{tube: name[:len(tube)], group: name[len(tube)+1:]} // one string for all
	th.alarm.owner = th
	th.index = len(m.throttleOrder)
	m.throttles[name], m.throttleOrder = th, append(m.throttleOrder, th)
	m.noteGroup(tube, group)
	if t := m.tubes[tube]; t != nil {
		m.setThrottle(t, group, th)
	}
	return th
}

// setThrottle lets a tube, or the lane of a group if there is one, know its throttle.
func (m *groups) setThrottle(t *Tube, group string, th *throttle) {
	if group == "" {
		t.throttle = th
	} else if l := m.groupIn(t, group); l != nil {
		l.throttle = th
	}
}

// laneOfThrottle returns the lane of the group of th; nil if the group has no job.
func (m *groups) laneOfThrottle(th *throttle) *lane {
	return m.groupIn(m.tubes[th.tube], th.group)
}

// throttleChanged is called when something in th has changed. It sets its alarm, updates what it
// restricts, and removes th if there is nothing left in it.
func (m *groups) throttleChanged(th *throttle) {
	m.rearmThrottle(th)
	t := m.tubes[th.tube]
	l := m.laneOfThrottle(th)
	if th.config == nil && th.pauseUntil == 0 && th.head == 0 && th.windows.end() == 0 {
		m.removeThrottle(th)
		if t != nil {
			m.setThrottle(t, th.group, nil)
		}
	}
	switch {
	case l != nil:
		m.updateLane(l)
	case t != nil && th.group == "" && m.updateTakeable(t):
		m.addWakeUp(t)
	}
}

// removeThrottle removes th from those of the Machine.
func (m *groups) removeThrottle(th *throttle) {
	delete(m.throttles, keyName(th.tube, th.group))
	last := len(m.throttleOrder) - 1
	moved := m.throttleOrder[last]
	m.throttleOrder[th.index], moved.index = moved, th.index
	m.throttleOrder[last] = nil
	m.throttleOrder = m.throttleOrder[:last]
}

// rearmThrottle sets the alarm of th to the next thing that is due in it. Windows in which no token
// is needed are only cleared when the last token has come back.
func (m *groups) rearmThrottle(th *throttle) {
	at := Never
	for _, due := range [...]Instant{th.pauseUntil, th.rateUntil, th.forgetAt, th.windows.end()} {
		if due != 0 {
			at = min(at, due)
		}
	}
	m.alarms.set(&th.alarm, at)
}

// fireThrottle does what is due in th.
func (m *groups) fireThrottle(now Instant, th *throttle) {
	if th.pauseUntil != 0 && th.pauseUntil <= now {
		th.pauseSeconds, th.pauseUntil = 0, 0
		m.journalThrottle(th)
	}
	if th.rateUntil <= now {
		th.rateUntil = 0
	}
	th.windows.drop(now)
	if th.forgetAt != 0 && th.forgetAt <= now {
		if m.laneOfThrottle(th) != nil {
			m.keepConfig(now, th)
		} else {
			th.config, th.forgetAt = nil, 0
			m.journalThrottle(th)
		}
	}
	m.throttleChanged(th)
}

// journalParts is into how many parts the time is divided until a config is forgotten: the journal
// learns of a later time only if it is later by one of them.
const journalParts = 8

// keepConfig keeps the config of th, if it has one, for its whole TTL from now on.
func (m *groups) keepConfig(now Instant, th *throttle) {
	if th.config == nil || th.config.TTL == 0 {
		return
	}
	th.forgetAt = now.Plus(th.config.TTL)
	m.rearmThrottle(th)
	if th.forgetAt-th.journaled > Instant(th.config.TTL/journalParts) {
		m.journalThrottle(th)
	}
}

// started records that j has just been reserved by a command.
func (m *groups) started(now Instant, j *Job) {
	t, l := m.tubeOf(j), m.laneOf(j)
	if l == nil && !m.policies.any() {
		return
	}
	if rates := m.policies.limitsOf(t).Rates; rates != (Rates{}) {
		m.useTokens(now, m.openThrottle(t.name, ""), rates)
		m.updateTakeable(t)
	}
	if l == nil {
		return
	}
	if l.ready.len() > 0 {
		l.takeTurn()
	}
	limits, strict := m.limitsOf(l)
	switch {
	case strict:
		m.openThrottle(t.name, l.name).head = j.ID
	case l.throttle != nil && l.throttle.head != 0: // of a time when it was strict
		l.throttle.head = 0
		m.throttleChanged(l.throttle)
	}
	if limits.Rates != (Rates{}) {
		m.useTokens(now, m.openThrottle(t.name, l.name), limits.Rates)
	}
	m.updateLane(l)
}

// useTokens takes a token of each rate that is set.
func (m *groups) useTokens(now Instant, th *throttle, rates Rates) {
	if th.windows == nil {
		th.windows = new(windows)
	}
	th.windows.add(now, rates)
	m.checkTokens(now, th, rates)
}

// checkTokens finds out whether there is a token of each rate.
func (m *groups) checkTokens(now Instant, th *throttle, rates Rates) {
	waits := th.rateUntil != 0
	th.rateUntil = 0
	if at := th.windows.nextToken(now, rates); at > now {
		th.rateUntil = at
	}
	if m.rearmThrottle(th); waits && th.rateUntil == 0 {
		m.alarms.set(&th.alarm, 0) // the next Tick lets go on what has waited for the token
	}
}

// recheckTokens is checkTokens for limits that may have changed. th may be nil. If the token came
// back in the past, the next Tick notices that.
func (m *groups) recheckTokens(th *throttle, rates Rates) {
	if th != nil {
		th.rateUntil = th.windows.nextToken(0, rates)
		m.rearmThrottle(th)
	}
}

// SetGroup sets what applies to a group of a tube instead of the policy; nil removes it. Neither
// the tube nor the group need exist. The config must not be changed after that.
func (m *groups) SetGroup(now Instant, tube, group string, config *GroupConfig) {
	if config == nil && m.throttleOf(tube, group) == nil {
		return
	}
	th := m.openThrottle(tube, group)
	th.config, th.forgetAt = config, 0
	if config != nil && config.TTL > 0 {
		th.forgetAt = now.Plus(config.TTL)
	}
	m.journalThrottle(th)
	if l := m.laneOfThrottle(th); l != nil {
		m.checkRates(now, l)
	}
	m.throttleChanged(th)
}

// Group returns what SetGroup has set for a group of a tube; nil if that is nothing.
func (m *groups) Group(tube, group string) *GroupConfig {
	if th := m.throttleOf(tube, group); th != nil {
		return th.config
	}
	return nil
}

// PauseGroup lets no job of a group start for that many seconds; 0 ends the pause. Neither the tube
// nor the group need exist.
func (m *groups) PauseGroup(now Instant, tube, group string, seconds uint32) {
	if seconds == 0 && m.throttleOf(tube, group) == nil {
		return
	}
	th := m.openThrottle(tube, group)
	th.pauseSeconds, th.pauseUntil = seconds, 0
	if seconds > 0 {
		th.pauseUntil = now.After(seconds)
	}
	m.journalThrottle(th)
	m.throttleChanged(th)
}

// GroupRecord is what survives a restart of a group that has no policy of its own, or is paused. The
// zero value is nothing.
type GroupRecord struct {
	Config       *GroupConfig
	ForgetAt     Instant // when the Config is forgotten, if the group has no job then; 0: never
	PauseSeconds uint32  // as the client asked for it
	PauseUntil   Instant // 0: the group is not paused
}

// journalThrottle reports th to the journal.
func (m *groups) journalThrottle(th *throttle) {
	th.journaled = th.forgetAt
	if m.journal != nil {
		m.journal.GroupSet(th.tube, th.group, GroupRecord{th.config, m.Wall(th.forgetAt), th.pauseSeconds, m.Wall(th.pauseUntil)})
	}
}

// RestoreGroup brings back a group's record. It must be called before the jobs are restored. What is
// over ends with the next Tick; nothing lasts longer from now on than it was set to.
func (m *groups) RestoreGroup(now Instant, tube, group string, r GroupRecord) {
	th := m.openThrottle(tube, group)
	th.config, th.forgetAt, th.journaled = r.Config, r.ForgetAt, r.ForgetAt
	if r.Config != nil && r.ForgetAt != 0 {
		th.forgetAt = min(r.ForgetAt, now.Plus(r.Config.TTL))
	}
	th.pauseSeconds, th.pauseUntil = r.PauseSeconds, min(r.PauseUntil, now.After(r.PauseSeconds))
	m.rearmThrottle(th)
}
