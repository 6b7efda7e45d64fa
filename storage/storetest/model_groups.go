package storetest

import (
	"cmp"
	"slices"
	"time"

	"redstalk/tube"
)

// Groups in the model: which lane of a tube comes next, and why a lane is held.

// modelLane names the jobs of a group in a tube; without a group, the other jobs of the tube.
type modelLane struct{ tube, group string }

func (j *modelJob) lane() modelLane { return modelLane{j.tube.name, j.metadata.Group} }

// modelGroup is what is known of a lane beside its jobs.
type modelGroup struct {
	config *tube.GroupConfig // nil: none
	hadJob time.Duration     // when config was set, or later the last time that the group had a job
	paused bool
	until  time.Duration // end of the pause
	turn   modelTurn
	starts modelStarts // those of the group; of a lane without a group: those of the whole tube
}

// modelTurn says since when a lane waits for its turn: the smaller, the longer. Of what happens in
// one step, such as the end of several delays, the order is undefined: such a turn is equal to
// others, or it can be any from first to last.
type modelTurn struct{ first, last int }

// mayPrecede reports whether a lane with the turn a can come before one with the turn b.
func (a modelTurn) mayPrecede(b modelTurn) bool { return a.first <= b.last }

// group returns what is known of a lane, for a change.
func (m *Model) group(l modelLane) *modelGroup {
	if m.groups[l] == nil {
		m.groups[l] = new(modelGroup)
	}
	return m.groups[l]
}

// inLane counts the jobs of a lane in a state.
func (m *Model) inLane(l modelLane, s tube.State) uint64 {
	n, _ := m.count(s, func(j *modelJob) bool { return j.lane() == l })
	return n
}

// reservedOf counts the reserved jobs of a tube.
func (m *Model) reservedOf(name string) uint64 {
	n, _ := m.count(tube.Reserved, func(j *modelJob) bool { return j.tube.name == name })
	return n
}

// hasLiveGroup reports whether a tube has a group with a ready or reserved job.
func (m *Model) hasLiveGroup(name string) bool {
	return slices.ContainsFunc(m.jobs, func(j *modelJob) bool {
		return j.tube.name == name && j.metadata.Group != "" && (j.state == tube.Ready || j.state == tube.Reserved)
	})
}

// isStrict reports whether the jobs of a lane run one at a time, in order.
func (m *Model) isStrict(l modelLane) bool {
	for _, p := range m.policiesOf(l.tube) {
		if l.group != "" && p.GroupOrder != tube.NoGroupOrder {
			return p.GroupOrder == tube.Strict
		}
	}
	return false
}

// headOf returns the job that alone can start in a lane that is strict, nil if any can.
func (m *Model) headOf(l modelLane) *modelJob {
	for _, j := range m.jobs {
		if j.head && j.lane() == l && m.isStrict(l) {
			return j
		}
	}
	return nil
}

// nextOf returns the ready job of a lane that starts next.
func (m *Model) nextOf(l modelLane) *modelJob {
	if head := m.headOf(l); head != nil {
		return head
	}
	return m.first(tube.Ready, func(j *modelJob) bool { return j.lane() == l })
}

// held returns why no job of a lane can start; tube.NotHeld if one can.
func (m *Model) held(l modelLane) tube.Held {
	if why := m.heldByGroup(l); why != tube.NotHeld {
		return why
	}
	limits := m.tubeLimits(l.tube)
	switch {
	case limits.Concurrency > 0 && m.reservedOf(l.tube) >= uint64(limits.Concurrency):
		return tube.HeldByConcurrency
	case !m.hasTokens(modelLane{l.tube, ""}, limits.Rates):
		return tube.HeldByRate
	}
	return tube.NotHeld
}

// heldByGroup returns what held does, as far as it is because of the group.
func (m *Model) heldByGroup(l modelLane) tube.Held {
	if l.group == "" {
		return tube.NotHeld
	}
	limits, head := m.groupLimits(l), m.headOf(l)
	switch {
	case m.group(l).paused:
		return tube.HeldByPause
	case head != nil && head.state != tube.Ready:
		return tube.HeldByConcurrency
	case limits.Concurrency > 0 && m.inLane(l, tube.Reserved) >= uint64(limits.Concurrency):
		return tube.HeldByConcurrency
	case !m.hasTokens(l, limits.Rates):
		return tube.HeldByRate
	}
	return tube.NotHeld
}

// mayStart reports whether the limits allow that a job starts by its id.
func (m *Model) mayStart(j *modelJob) bool {
	head := m.headOf(j.lane())
	return m.held(j.lane()) == tube.NotHeld && (head == nil || head == j)
}

// load returns how many jobs of a lane are reserved for its weight.
func (m *Model) load(l modelLane) uint64 {
	return m.inLane(l, tube.Reserved) * 1000 / uint64(m.weight(l))
}

// offers returns the jobs of a tube that a take can get: several if the order of their lanes is
// undefined.
func (m *Model) offers(name string) []*modelJob {
	if t := m.find(name); t == nil || t.paused {
		return nil
	}
	return m.firstOfLanes(name)
}

// firstOfLanes is offers, whether the tube is paused or not.
func (m *Model) firstOfLanes(name string) (jobs []*modelJob) {
	var best []modelLane
	for l := range m.readyLanes() {
		if l.tube != name || m.held(l) != tube.NotHeld {
			continue
		}
		if len(best) > 0 && m.compareLanes(l, best[0]) < 0 {
			best = nil
		}
		if len(best) == 0 || m.compareLanes(l, best[0]) == 0 {
			best = append(best, l)
		}
	}
	for _, l := range best {
		later := func(other modelLane) bool { return !m.group(l).turn.mayPrecede(m.group(other).turn) }
		if !slices.ContainsFunc(best, later) {
			jobs = append(jobs, m.nextOf(l))
		}
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) })
	return jobs
}

// compareLanes compares lanes by all but their turns.
func (m *Model) compareLanes(a, b modelLane) int {
	return cmp.Or(cmp.Compare(m.nextOf(a).pri, m.nextOf(b).pri), cmp.Compare(m.load(a), m.load(b)))
}

// choose returns one of several jobs, nil if there is none: the one that the store has chosen, if
// it is among them. If it has found none, it is the largest one, because that may have been too
// large. Else it is the last one, whose id may not be known yet; and if the store has chosen a job of
// another tube, that is most likely to be the better one then.
func (m *Model) choose(jobs []*modelJob) (chosen *modelJob) {
	for _, j := range jobs {
		if j.id == m.hint {
			return j
		}
		if chosen == nil || m.hint != 0 || len(j.body) > len(chosen.body) {
			chosen = j
		}
	}
	return chosen
}

// readyLanes returns the ready jobs by their lanes.
func (m *Model) readyLanes() map[modelLane][]*modelJob {
	lanes := make(map[modelLane][]*modelJob)
	for _, j := range m.jobs {
		if j.state == tube.Ready {
			lanes[j.lane()] = append(lanes[j.lane()], j)
		}
	}
	return lanes
}

// start records that a job starts.
func (m *Model) start(j *modelJob) {
	l := j.lane()
	for _, other := range m.jobs {
		other.head = other.head && other.lane() != l
	}
	j.head = m.isStrict(l)
	if l.group != "" {
		m.takeTokens(l, m.groupLimits(l).Rates)
	}
	m.takeTokens(modelLane{l.tube, ""}, m.tubeLimits(l.tube).Rates)
	m.started = &l
}

// giveTurns gives turns to the lanes that begin to wait for one in this step. before are the ready
// jobs before it.
func (m *Model) giveTurns(before map[modelLane][]*modelJob) {
	given := make(map[string]int)
	for l, jobs := range m.readyLanes() {
		if !m.hasLiveGroup(l.tube) {
			continue
		}
		stayed := slices.ContainsFunc(jobs, func(j *modelJob) bool { return j != m.moved && slices.Contains(before[l], j) })
		turn, now := &m.group(l).turn, m.turns[l.tube]+1
		switch {
		case len(before[l]) == 0 || m.started != nil && *m.started == l:
			*turn, given[l.tube] = modelTurn{now, now}, now
		case !stayed: // between the old jobs and the new ones it may have had none
			turn.last, given[l.tube] = now, now
		}
	}
	for name, turn := range given {
		m.turns[name] = turn
	}
	m.started, m.moved = nil, nil
	m.forgetTurns()
}

// forgetTurns forgets the turns of tubes that have no live group.
func (m *Model) forgetTurns() {
	for l, g := range m.groups {
		if !m.hasLiveGroup(l.tube) {
			g.turn = modelTurn{}
			delete(m.turns, l.tube)
		}
	}
}

// reopenGroups does what reopening a store does that keeps neither starts nor turns nor heads.
func (m *Model) reopenGroups() {
	for _, g := range m.groups {
		g.starts, g.turn = modelStarts{}, modelTurn{}
	}
	clear(m.turns)
	for l := range m.readyLanes() {
		if m.hasLiveGroup(l.tube) { // all begin to wait
			m.turns[l.tube], m.group(l).turn = 1, modelTurn{1, 1}
		}
	}
	m.findHeads()
}

// findHeads finds heads as such a store does, which it can only guess.
func (m *Model) findHeads() {
	heads := make(map[modelLane]*modelJob)
	for _, j := range m.jobs {
		j.head = false
		if j.state != tube.Ready && j.state != tube.Delayed || j.counters[tube.Reserves] == 0 && !j.heldAtEnd || !m.isStrict(j.lane()) {
			continue
		}
		head := heads[j.lane()]
		if head == nil || head.state == tube.Ready && j.state == tube.Delayed || head.state == j.state && j.id < head.id {
			heads[j.lane()] = j
		}
	}
	for _, j := range heads {
		j.head = true
	}
}

// atMost returns the smaller of two numbers, of which 0 means any number.
func atMost(a, b uint32) uint32 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
