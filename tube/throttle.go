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
	index int // in throttles.order
}

// throttles are those of a Machine.
type throttles struct {
	*base
	byName map[string]*throttle // by keyName
	order  []*throttle          // all, in no order
}

// of returns the throttle of a group, or with group "" of a tube; nil if there is none.
func (all *throttles) of(tube, group string) *throttle {
	if len(all.byName) == 0 {
		return nil
	}
	return all.byName[keyName(tube, group)]
}

// openThrottle returns the throttle of a group, or with group "" of a tube. It creates it if there is none.
func (m *turns) openThrottle(tube, group string) *throttle {
	th := m.throttles.of(tube, group)
	if th != nil {
		return th
	}
	th = m.throttles.add(tube, group)
	m.listed.note(tube, group)
	if t := m.tubes[tube]; t != nil {
		m.setThrottle(t, group, th)
	}
	return th
}

// setThrottle lets a tube, or the lane of a group if there is one, know its throttle.
func (m *turns) setThrottle(t *Tube, group string, th *throttle) {
	if group == "" {
		t.throttle = th
	} else if l := m.groupIn(t, group); l != nil {
		l.throttle = th
	}
}

// laneOfThrottle returns the lane of the group of th; nil if the group has no job.
func (m *turns) laneOfThrottle(th *throttle) *lane {
	return m.groupIn(m.tubes[th.tube], th.group)
}

// throttleChanged is called when something in th has changed. It sets its alarm, updates what it
// restricts, and removes th if there is nothing left in it.
func (m *turns) throttleChanged(th *throttle) {
	m.throttles.rearm(th)
	t := m.tubes[th.tube]
	l := m.laneOfThrottle(th)
	if th.config == nil && th.pauseUntil == 0 && th.head == 0 && th.windows.end() == 0 {
		m.throttles.remove(th)
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

// add adds a throttle, of which there must be none yet.
func (all *throttles) add(tube, group string) *throttle {
	name := keyName(tube, group)
	th := &throttle{tube: name[:len(tube)], group: name[len(tube)+1:], index: len(all.order)} // one string for all
	th.alarm.owner = th
	all.byName[name], all.order = th, append(all.order, th)
	return th
}

func (all *throttles) remove(th *throttle) {
	delete(all.byName, keyName(th.tube, th.group))
	last := len(all.order) - 1
	moved := all.order[last]
	all.order[th.index], moved.index = moved, th.index
	all.order[last] = nil
	all.order = all.order[:last]
}

// rearm sets the alarm of th to the next thing that is due in it. Windows in which no token
// is needed are only cleared when the last token has come back.
func (all *throttles) rearm(th *throttle) {
	at := Never
	for _, due := range [...]Instant{th.pauseUntil, th.rateUntil, th.forgetAt, th.windows.end()} {
		if due != 0 {
			at = min(at, due)
		}
	}
	all.alarms.set(&th.alarm, at)
}

// fireThrottle does what is due in th.
func (m *turns) fireThrottle(now Instant, th *throttle) {
	if th.pauseUntil != 0 && th.pauseUntil <= now {
		th.pauseSeconds, th.pauseUntil = 0, 0
		m.throttles.report(th)
	}
	if th.rateUntil <= now {
		th.rateUntil = 0
	}
	th.windows.drop(now)
	if th.forgetAt != 0 && th.forgetAt <= now {
		if m.laneOfThrottle(th) != nil {
			m.throttles.keepConfig(now, th)
		} else {
			th.config, th.forgetAt = nil, 0
			m.throttles.report(th)
		}
	}
	m.throttleChanged(th)
}

// journalParts is into how many parts the time is divided until a config is forgotten: the journal
// learns of a later time only if it is later by one of them.
const journalParts = 8

// keepConfig keeps the config of th, if it has one, for its whole TTL from now on.
func (all *throttles) keepConfig(now Instant, th *throttle) {
	if th.config == nil || th.config.TTL == 0 {
		return
	}
	th.forgetAt = now.Plus(th.config.TTL)
	all.rearm(th)
	if th.forgetAt-th.journaled > Instant(th.config.TTL/journalParts) {
		all.report(th)
	}
}

// checkTokens finds out whether there is a token of each rate.
func (all *throttles) checkTokens(now Instant, th *throttle, rates Rates) {
	waits := th.rateUntil != 0
	th.rateUntil = 0
	if at := th.windows.nextToken(now, rates); at > now {
		th.rateUntil = at
	}
	if all.rearm(th); waits && th.rateUntil == 0 {
		all.alarms.set(&th.alarm, 0) // the next Tick lets go on what has waited for the token
	}
}

// recheckTokens is checkTokens for limits that may have changed. th may be nil. If the token came
// back in the past, the next Tick notices that.
func (all *throttles) recheckTokens(th *throttle, rates Rates) {
	if th != nil {
		th.rateUntil = th.windows.nextToken(0, rates)
		all.rearm(th)
	}
}

// report reports th to the journal.
func (all *throttles) report(th *throttle) {
	th.journaled = th.forgetAt
	if all.journal != nil {
		all.journal.GroupSet(th.tube, th.group, GroupRecord{th.config, all.Wall(th.forgetAt), th.pauseSeconds, all.Wall(th.pauseUntil)})
	}
}
