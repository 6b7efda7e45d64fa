package tube

import (
	"cmp"
	"maps"
	"slices"
)

// What is known of the groups of a tube.

// GroupStats returns what stats-group prints about a group; false if it has no job, no config and is
// not paused.
func (m *groups) GroupStats(now Instant, tube, group string) (GroupStats, bool) {
	th, l := m.throttles.of(tube, group), m.groupIn(m.tubes[tube], group)
	if l == nil && (th == nil || th.config == nil && th.pauseUntil == 0) {
		return GroupStats{}, false
	}
	s := GroupStats{Name: group, Weight: 1}
	if l != nil {
		s.Ready, s.Delayed, s.Reserved, s.Buried = uint64(l.ready.len()), uint64(l.delayed), uint64(l.reserved), uint64(l.buried)
		if next := l.ready.head(&m.slab); next != nil {
			s.Held = m.held(now, next)
		}
	}
	if th != nil && th.config != nil {
		s.Limits, s.Weight = th.config.Limits, th.config.Weight
	}
	if p := m.policyOf(tube); p != nil {
		s.Limits = s.Limits.Over(p.GroupLimits)
		if p.GroupOrder == Strict {
			s.Concurrency = 1
		}
	}
	if th != nil && th.pauseUntil > now {
		s.PauseLeft = th.pauseUntil.Until(now)
	}
	return s, true
}

// restoreLanes gives turns and heads to the lanes, after all jobs are restored: turns in the order of
// the ready job of each lane that was put first. The head is a delayed job that was reserved before,
// or else a ready one.
func (m *groups) restoreLanes() {
	first, heads := make(map[*lane]uint64), make(map[*lane]*Job)
	all := m.beginScan()
	all.pass(&m.slab, 1<<62, func(j *Job) bool {
		l := m.laneOf(j)
		if l == nil {
			return true
		}
		if id, found := first[l]; j.state == Ready && (!found || j.ID < id) {
			first[l] = j.ID
		}
		if j.counters[Reserves] > 0 && (j.state == Delayed || j.state == Ready) && m.isStrict(l) && headBefore(j, heads[l]) {
			heads[l] = j
		}
		return true
	})
	order := slices.Collect(maps.Keys(first))
	slices.SortFunc(order, func(a, b *lane) int { return cmp.Compare(first[a], first[b]) })
	for _, l := range order {
		l.takeTurn()
	}
	for l, head := range heads {
		m.openThrottle(l.tube.name, l.name).head = head.ID
	}
	for l := range first {
		m.updateLane(l)
	}
}

// headBefore reports whether j rather than other, which may be nil, was the head of its lane.
func headBefore(j, other *Job) bool {
	if other == nil || j.state != other.state {
		return other == nil || j.state == Delayed
	}
	return j.ID < other.ID
}

// SetGroup sets what applies to a group of a tube instead of the policy; nil removes it. Neither
// the tube nor the group need exist. The config must not be changed after that.
func (m *groups) SetGroup(now Instant, tube, group string, config *GroupConfig) {
	if config == nil && m.throttles.of(tube, group) == nil {
		return
	}
	th := m.openThrottle(tube, group)
	th.config, th.forgetAt = config, 0
	if config != nil && config.TTL > 0 {
		th.forgetAt = now.Plus(config.TTL)
	}
	m.throttles.report(th)
	if l := m.laneOfThrottle(th); l != nil {
		m.checkRates(now, l)
	}
	m.throttleChanged(th)
}

// Group returns what SetGroup has set for a group of a tube; nil if that is nothing.
func (m *groups) Group(tube, group string) *GroupConfig {
	if th := m.throttles.of(tube, group); th != nil {
		return th.config
	}
	return nil
}

// PauseGroup lets no job of a group start for that many seconds; 0 ends the pause. Neither the tube
// nor the group need exist.
func (m *groups) PauseGroup(now Instant, tube, group string, seconds uint32) {
	if seconds == 0 && m.throttles.of(tube, group) == nil {
		return
	}
	th := m.openThrottle(tube, group)
	th.pauseSeconds, th.pauseUntil = seconds, 0
	if seconds > 0 {
		th.pauseUntil = now.After(seconds)
	}
	m.throttles.report(th)
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

// RestoreGroup brings back a group's record. It must be called before the jobs are restored. What is
// over ends with the next Tick; nothing lasts longer from now on than it was set to.
func (m *groups) RestoreGroup(now Instant, tube, group string, r GroupRecord) {
	th := m.openThrottle(tube, group)
	th.config, th.forgetAt, th.journaled = r.Config, r.ForgetAt, r.ForgetAt
	if r.Config != nil && r.ForgetAt != 0 {
		th.forgetAt = min(r.ForgetAt, now.Plus(r.Config.TTL))
	}
	th.pauseSeconds, th.pauseUntil = r.PauseSeconds, min(r.PauseUntil, now.After(r.PauseSeconds))
	m.throttles.rearm(th)
}
