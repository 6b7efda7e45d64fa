package tube

// Whether a job may start, that is, be reserved by a command: what limits of its group and its tube
// say.

// limitsOf returns the limits of a lane, and whether its jobs are in strict order.
func (m *turns) limitsOf(l *lane) (limits Limits, strict bool) {
	if l.isPlain() {
		return limits, false
	}
	if p := m.policies.ofTube(l.tube); p != nil {
		limits, strict = p.GroupLimits, p.GroupOrder == Strict
	}
	if l.throttle != nil && l.throttle.config != nil {
		limits = l.throttle.config.Limits.Over(limits)
	}
	return limits, strict
}

func (m *turns) isStrict(l *lane) bool {
	_, strict := m.limitsOf(l)
	return strict
}

// heldInLane returns why no job of l can start, as far as its group is concerned. Of a rate it knows
// what checkRates has found.
func (m *turns) heldInLane(l *lane) Held {
	held, _ := m.limitLane(l)
	return held
}

// limitLane is heldInLane, and returns whether l has as many reserved jobs as it can have.
func (m *turns) limitLane(l *lane) (held Held, full bool) {
	if l.isPlain() {
		return NotHeld, false
	}
	limits, strict := m.limitsOf(l)
	if strict {
		limits.Concurrency = 1
	}
	full = limits.Concurrency > 0 && l.reserved >= limits.Concurrency
	head := m.head(l)
	switch th := l.throttle; {
	case th != nil && th.pauseUntil != 0:
		return HeldByPause, full
	case full, head != nil && head.state != Ready:
		return HeldByConcurrency, full
	case th != nil && th.rateUntil != 0:
		return HeldByRate, full
	}
	return NotHeld, full
}

// heldInTube is heldInLane for a tube. A pause of the tube plays no part.
func (m *turns) heldInTube(t *Tube) Held {
	switch limits := m.policies.limitsOf(t); {
	case limits.Concurrency > 0 && t.reserved >= int(limits.Concurrency):
		return HeldByConcurrency
	case t.throttle != nil && t.throttle.rateUntil != 0:
		return HeldByRate
	}
	return NotHeld
}

// checkRates finds out whether the rates of a lane have a token.
func (m *turns) checkRates(now Instant, l *lane) {
	if l.throttle != nil {
		limits, _ := m.limitsOf(l)
		m.throttles.checkTokens(now, l.throttle, limits.Rates)
	}
}

// held returns why j, which is not reserved, cannot start.
func (m *turns) held(now Instant, j *Job) Held {
	t, l := m.tubeOf(j), m.laneOf(j)
	if l != nil {
		m.checkRates(now, l)
		if held := m.heldInLane(l); held != NotHeld {
			return held
		}
	}
	if t.throttle != nil {
		m.throttles.checkTokens(now, t.throttle, m.policies.limitsOf(t).Rates)
	}
	return m.heldInTube(t)
}

// unlimited reports whether nothing limits the starts of jobs of t.
func (m *turns) unlimited(t *Tube) bool { return t.lanes == nil && !m.policies.any() }

// heldReady is held for a ready job.
func (m *turns) heldReady(now Instant, j *Job) Held {
	if m.unlimited(m.tubeOf(j)) {
		return NotHeld
	}
	return m.held(now, j)
}

// mayTake reports whether j, which a Take has found, may start now. If not, it takes note, so that
// the Take does not find it again.
func (m *turns) mayTake(now Instant, j *Job) bool {
	t, l := m.tubeOf(j), m.laneOf(j)
	if m.unlimited(t) || l != nil && l.isCurrent(m.policies.stamp) {
		return true
	}
	if m.held(now, j) == NotHeld {
		t.checkedStamp = m.policies.stamp
		return true
	}
	if l != nil {
		m.updateLane(l)
	}
	m.updateTakeable(t)
	return false
}

// mayReserve reports whether j, which is not reserved, may start because somebody asks for it by
// its id.
func (m *turns) mayReserve(now Instant, j *Job) bool {
	if m.unlimited(m.tubeOf(j)) {
		return true
	}
	if l := m.laneOf(j); l != nil {
		if head := m.head(l); head != nil && head != j {
			return false
		}
	}
	return m.held(now, j) == NotHeld
}

// started records that j has just been reserved by a command.
func (m *turns) started(now Instant, j *Job) {
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
func (m *turns) useTokens(now Instant, th *throttle, rates Rates) {
	if th.windows == nil {
		th.windows = new(windows)
	}
	th.windows.add(now, rates)
	m.throttles.checkTokens(now, th, rates)
}

// returnTokens gives back the tokens that a start at that time has taken. th may be nil.
func (m *turns) returnTokens(now, start Instant, th *throttle) {
	if th == nil || th.windows == nil {
		return
	}
	th.windows.undo(start)
	if l := m.laneOfThrottle(th); l != nil {
		m.checkRates(now, l)
	} else if t := m.tubes[th.tube]; t != nil && th.group == "" {
		m.throttles.checkTokens(now, th, m.policies.limitsOf(t).Rates)
	}
	m.throttleChanged(th)
}
