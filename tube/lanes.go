package tube

// lane is the jobs of one group of a tube. The jobs of the tube that have no group are in its plain
// lane, as long as the tube has groups. The lane of a group exists while it has a job.
type lane struct {
	tube     *Tube     // nil: the lane has been removed
	name     string    // of the group; "" for the plain lane
	next     *lane     // in its bucket of the laneTable
	throttle *throttle // of the group; nil: none
	hash     uint32    // see hashOf
	handle   uint32    // number in Machine.handles
	jobs     uint32    // in any state

	ready                     laneQueue
	reserved, delayed, buried uint32

	turn          uint64 // when it had its last turn
	before, after *lane  // in the list of lanes.eligible
	rank          int64  // in that list: of its next job
	pos           int32  // its index in the heap of lanes.eligible; -1: it is not there
	stamp         uint32 // of the policies when it was last updated
	counted       laneCount
	listed        bool // it is in that list
}

// lanes are the lanes of a tube that has groups.
type lanes struct {
	byName   laneTable
	plain    lane
	eligible eligible // the lanes from which a job can be taken, as far as is known, see updateLane
	live     int      // groups with ready or reserved jobs
	ready    int      // ready jobs of groups
	reserved int      // reserved jobs of groups
	turns    uint64   // number of the last turn; 0 if live is 0
	counts   laneCounts
}

// joinGroup adds j, which is in no queue and has no group, to a group of its tube.
func (m *turns) joinGroup(j *Job, group string) {
	l := m.openLane(m.tubeOf(j), group)
	l.jobs++
	j.tube = l.handle
}

// openLane returns the lane of a group. It creates it if there is none.
func (m *turns) openLane(t *Tube, group string) *lane {
	if t.lanes == nil {
		t.lanes = new(lanes)
		t.lanes.plain = lane{tube: t, handle: t.handle, ready: laneQueue{many: &t.ready}, reserved: uint32(t.reserved), pos: -1}
		m.updateLane(&t.lanes.plain)
	}
	hash := hashOf(group)
	l := t.lanes.byName.find(group, hash)
	if l == nil {
		l = m.newLane()
		l.tube, l.name, l.hash, l.throttle = t, group, hash, m.throttles.of(t.name, group)
		l.handle = m.handles.add(handle{t, l})
		t.lanes.byName.add(l)
		m.listed.note(t.name, group)
		limits, _ := m.limitsOf(l)
		m.throttles.recheckTokens(l.throttle, limits.Rates)
	}
	return l
}

// leaveLane is called when a job has left the lane of its group for good. It removes the lane if it
// was the last job, and the lanes of the tube if that was the last group.
func (m *turns) leaveLane(now Instant, l *lane) {
	if l.jobs--; l.jobs > 0 {
		return
	}
	t, th := l.tube, l.throttle
	if l.isEligible() { // updateLane waits
		t.lanes.eligible.remove(l)
		m.updateTakeable(t)
	}
	l.count(NotHeld, false)
	t.lanes.byName.remove(l)
	m.handles.free(l.handle)
	m.keepLane(l)
	if t.lanes.byName.count == 0 {
		t.lanes = nil
		m.updateTakeable(t)
	}
	if th != nil {
		m.throttles.keepConfig(now, th)
	}
}

// maxSpareLanes is how many removed lanes are kept to be used again.
const maxSpareLanes = 1024

// keepLane keeps l, which is removed, to be used again.
func (m *turns) keepLane(l *lane) {
	*l = lane{pos: -1}
	if len(m.spareLanes) < maxSpareLanes {
		m.spareLanes = append(m.spareLanes, l)
	}
}

// newLane returns a lane without jobs.
func (m *turns) newLane() *lane {
	last := len(m.spareLanes) - 1
	if last < 0 {
		return &lane{pos: -1}
	}
	l := m.spareLanes[last]
	m.spareLanes = m.spareLanes[:last]
	return l
}

// live reports whether a lane has a ready or reserved job.
func (l *lane) live() bool { return l.ready.len() > 0 || l.reserved > 0 }

// countLive is called when the ready or reserved jobs of the lane of a group have changed. before is
// what live said before that.
func (l *lane) countLive(before bool) {
	ls := l.tube.lanes
	switch now := l.live(); {
	case now == before:
	case now:
		ls.live++
	default:
		if ls.live--; ls.live == 0 {
			ls.turns, ls.plain.turn = 0, 0
			ls.eligible.forgetTurn(&ls.plain)
		}
	}
}

// takeTurn puts a lane behind all others that have waited.
func (l *lane) takeTurn() {
	if ls := l.tube.lanes; ls.live > 0 {
		ls.turns++
		l.turn = ls.turns
	}
}

// isPlain reports whether the jobs of l have no group.
func (l *lane) isPlain() bool { return l.name == "" }

// addReady adds j, a ready job, to its lane.
func (m *turns) addReady(l *lane, j *Job) {
	before := l.live()
	if l.ready.add(&m.slab, j); !l.isPlain() {
		l.tube.lanes.ready++
		l.countLive(before)
	}
	if l.ready.len() == 1 {
		l.takeTurn()
	}
	m.updateLane(l)
}

// removeReady removes j, a ready job, from its lane.
func (m *turns) removeReady(l *lane, j *Job) {
	before := l.live()
	if l.ready.remove(&m.slab, j); !l.isPlain() {
		l.ready.shrink()
		l.tube.lanes.ready--
		l.countLive(before)
	}
	m.updateLane(l)
}

// countInLane adds to the number of reserved jobs of a lane.
func (m *turns) countInLane(l *lane, by int) {
	before := l.live()
	l.reserved += uint32(by)
	if !l.isPlain() {
		l.tube.lanes.reserved += by
		l.countLive(before)
	}
	m.updateLane(l)
}

// countInGroup adds to the number of jobs of the group of j, if it has one, that are in its state:
// Delayed or Buried.
func (m *turns) countInGroup(j *Job, by int) {
	l := m.handles.list[j.tube].lane
	switch {
	case l == nil:
	case j.state == Delayed:
		l.delayed += uint32(by)
	default:
		l.buried += uint32(by)
		m.leaveHead(l, j)
	}
	if l != nil && by > 0 {
		m.updateLane(l) // its head can be delayed now
	}
}

// leaveHead is called when j has ended, or is buried: if it was the head of its lane, other jobs can
// start.
func (m *turns) leaveHead(l *lane, j *Job) {
	if th := l.throttle; th != nil && th.head == j.ID {
		th.head = 0
		m.throttleChanged(th)
	}
}

// head returns the job of l that must be finished before others can start, because it has started in
// strict order; nil if there is none.
func (m *turns) head(l *lane) *Job {
	if l.throttle == nil || l.throttle.head == 0 || !m.isStrict(l) {
		return nil
	}
	return m.Find(l.throttle.head)
}

// next returns the job of l that would be reserved next, were there no limits; nil if there is none.
func (m *turns) next(l *lane) *Job {
	if head := m.head(l); head != nil {
		if head.state == Ready {
			return head
		}
		return nil
	}
	return l.ready.head(&m.slab)
}

// nextIn returns the job that a Take from t gets. t must be takeable.
func (m *turns) nextIn(t *Tube) *Job {
	if t.lanes == nil {
		return t.ready.head(&m.slab)
	}
	return m.next(t.lanes.eligible.next())
}

// deferLanes lets updateLane wait for updateDeferred, because a lane changes several times in a row.
func (m *turns) deferLanes() { m.deferring = true }

// updateDeferred updates the lane for which updateLane has waited, unless it has been removed, and t,
// the tube in which a job has changed.
func (m *turns) updateDeferred(t *Tube) {
	l := m.deferred
	m.deferring, m.deferred = false, nil
	if l != nil && l.tube != nil && l.tube.lanes != nil {
		m.updateLane(l)
	}
	if m.policies.limit(t) {
		t.countHold(m.heldInTube(t) != NotHeld)
	}
}

// updateLane puts l where it belongs among the eligible lanes, after something about it has changed.
func (m *turns) updateLane(l *lane) {
	if m.deferring && (m.deferred == nil || m.deferred == l) {
		m.deferred = l
		return
	}
	l.stamp = m.policies.stamp
	held, full := m.limitLane(l)
	if !l.isPlain() {
		l.count(held, full)
	}
	t, next := l.tube, m.next(l)
	if next == nil || held != NotHeld {
		if l.isEligible() {
			t.lanes.eligible.remove(l)
			m.updateTakeable(t)
		}
		return
	}
	begins := !l.isEligible()
	t.lanes.eligible.set(place{next.rank, uint64(l.reserved) * 1000 / uint64(l.weight()), l.turn, l})
	if begins {
		m.updateTakeable(t)
		m.addWakeUp(t)
	}
}

// isCurrent reports whether l is known to be eligible if it is among the eligible lanes of a takeable tube: no policy
// has changed since they were updated, and they have no limits that depend on time.
func (l *lane) isCurrent(stamp uint32) bool {
	return l.stamp == stamp && l.tube.checkedStamp == stamp && l.throttle == nil && l.tube.throttle == nil
}

func (l *lane) weight() uint32 {
	if l.throttle != nil && l.throttle.config != nil {
		return l.throttle.config.Weight
	}
	return 1
}
