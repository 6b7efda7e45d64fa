package tube

import "container/heap"

// lane is the jobs of one group of a tube. The jobs of the tube that have no group are in its plain
// lane, as long as the tube has groups. The lane of a group exists while it has a job.
type lane struct {
	tube     *Tube     // nil: the lane has been removed
	name     string    // of the group; "" for the plain lane
	throttle *throttle // of the group; nil: none
	handle   uint32    // index in Machine.handles
	jobs     uint32    // in any state

	ready                     queue // of the plain lane: empty, because its ready jobs are in Tube.ready
	reserved, delayed, buried uint32

	// What it is sorted by in lanes.eligible: the priority of its next job; its load, which is
	// thousandths of its reserved jobs by its weight; and when it had its last turn.
	rank int64
	load uint64
	turn uint64
	pos  int // its index there; -1: it is not there
}

// lanes are the lanes of a tube that has groups.
type lanes struct {
	byName   map[string]*lane
	plain    lane
	eligible eligible // the lanes from which a job can be taken, as far as is known, see updateLane
	live     int      // groups with ready or reserved jobs
	ready    int      // ready jobs of groups
	reserved int      // reserved jobs of groups
	turns    uint64   // number of the last turn; 0 if live is 0
}

// eligible is a container/heap of lanes, the next one first: by the priority of its next job, then by
// its load, then the one that has waited longest.
type eligible []*lane

func (e eligible) Len() int { return len(e) }

func (e eligible) Less(i, j int) bool {
	a, b := e[i], e[j]
	switch {
	case a.rank != b.rank:
		return a.rank < b.rank
	case a.load != b.load:
		return a.load < b.load
	}
	return a.turn < b.turn
}

func (e eligible) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].pos, e[j].pos = i, j
}

// Push is for container/heap only.
func (e *eligible) Push(x any) {
	x.(*lane).pos = len(*e)
	*e = append(*e, x.(*lane))
}

// Pop is for container/heap only.
func (e *eligible) Pop() any {
	last := len(*e) - 1
	l := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	l.pos = -1
	return l
}

// laneOf returns the lane of j: that of its group, or the plain one; nil if the tube has no groups.
func (m *Machine) laneOf(j *Job) *lane {
	h := &m.handles[j.tube]
	if h.lane == nil && h.tube.lanes != nil {
		return &h.tube.lanes.plain
	}
	return h.lane
}

// groupOf returns the group of j, "" if it has none.
func (m *Machine) groupOf(j *Job) string {
	if l := m.handles[j.tube].lane; l != nil {
		return l.name
	}
	return ""
}

// joinGroup adds j, which is in no queue and has no group, to a group of its tube.
func (m *Machine) joinGroup(j *Job, group string) {
	l := m.openLane(m.tubeOf(j), group)
	l.jobs++
	j.tube, j.hasMetadata = l.handle, true
}

// openLane returns the lane of a group. It creates it if there is none.
func (m *Machine) openLane(t *Tube, group string) *lane {
	if t.lanes == nil {
		t.lanes = &lanes{byName: make(map[string]*lane)}
		t.lanes.plain = lane{tube: t, handle: t.handle, reserved: uint32(t.reserved), pos: -1}
		m.updateLane(&t.lanes.plain)
	}
	l := t.lanes.byName[group]
	if l == nil {
		l = &lane{tube: t, name: group, throttle: m.throttleOf(t.name, group), pos: -1}
		l.handle = m.newHandle()
		m.handles[l.handle] = handle{t, l}
		t.lanes.byName[group] = l
	}
	return l
}

// leaveLane is called when a job has left the lane of its group for good. It removes the lane if it
// was the last job, and the lanes of the tube if that was the last group.
func (m *Machine) leaveLane(now Instant, l *lane) {
	if l.jobs--; l.jobs > 0 {
		return
	}
	t := l.tube
	delete(t.lanes.byName, l.name)
	m.freeHandle(l.handle)
	l.tube = nil
	if len(t.lanes.byName) == 0 {
		t.lanes = nil
		m.updateTakeable(t)
	}
	if l.throttle != nil {
		m.keepConfig(now, l.throttle)
	}
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
func (m *Machine) addReady(l *lane, j *Job) {
	q, before := l.queue(), l.live()
	if q.add(&m.slab, j); !l.isPlain() {
		l.tube.lanes.ready++
		l.countLive(before)
	}
	if q.len() == 1 {
		l.takeTurn()
	}
	m.updateLane(l)
}

// removeReady removes j, a ready job, from its lane.
func (m *Machine) removeReady(l *lane, j *Job) {
	q, before := l.queue(), l.live()
	if q.remove(&m.slab, j); !l.isPlain() {
		l.tube.lanes.ready--
		l.countLive(before)
	}
	m.updateLane(l)
}

// countInLane adds to the number of reserved jobs of a lane.
func (m *Machine) countInLane(l *lane, by int) {
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
func (m *Machine) countInGroup(j *Job, by int) {
	l := m.handles[j.tube].lane
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
func (m *Machine) leaveHead(l *lane, j *Job) {
	if th := l.throttle; th != nil && th.head == j.ID {
		th.head = 0
		m.throttleChanged(th)
	}
}

// queue returns the ready jobs of l.
func (l *lane) queue() *queue {
	if l.isPlain() {
		return &l.tube.ready
	}
	return &l.ready
}

// head returns the job of l that must be finished before others can start, because it has started in
// strict order; nil if there is none.
func (m *Machine) head(l *lane) *Job {
	if l.throttle == nil || l.throttle.head == 0 || !m.isStrict(l) {
		return nil
	}
	return m.Find(l.throttle.head)
}

// next returns the job of l that would be reserved next, were there no limits; nil if there is none.
func (m *Machine) next(l *lane) *Job {
	if head := m.head(l); head != nil {
		if head.state == Ready {
			return head
		}
		return nil
	}
	return l.queue().head(&m.slab)
}

// updateLane puts l where it belongs among the eligible lanes, after something about it has changed.
func (m *Machine) updateLane(l *lane) {
	e := &l.tube.lanes.eligible
	next := m.next(l)
	if next == nil || m.heldInLane(l) != NotHeld {
		if l.pos >= 0 {
			heap.Remove(e, l.pos)
			m.updateTakeable(l.tube)
		}
		return
	}
	l.rank, l.load = next.rank, uint64(l.reserved)*1000/uint64(l.weight())
	if l.pos >= 0 {
		heap.Fix(e, l.pos)
		return
	}
	heap.Push(e, l)
	m.updateTakeable(l.tube)
	m.addWakeUp(l.tube)
}

func (l *lane) weight() uint32 {
	if l.throttle != nil && l.throttle.config != nil {
		return l.throttle.config.Weight
	}
	return 1
}
