package tube

import (
	"cmp"
	"slices"
)

// What is set for the groups of a tube, and what is known of them.

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

// MaxBusiest is how many groups LimitStats has.
const MaxBusiest = 10

// LimitStats are figures about the groups and the limits of a tube.
type LimitStats struct {
	Held    [LastHeld + 1]uint64 // ready jobs by what holds them; those that are not held are not counted
	Groups  uint64               // groups with a job
	Full    uint64               // those of them with as many reserved jobs as they can have
	Busiest []GroupCount         // up to MaxBusiest groups with the most reserved jobs, the largest number first
}

// GroupCount is a group and how many reserved jobs it has.
type GroupCount struct {
	Name     string
	Reserved uint64
}

// LimitStats returns the figures about the groups and the limits of a tube; nil if it has none.
func (m *groups) LimitStats(name string) *LimitStats {
	t := m.tubes[name]
	if t == nil || t.lanes == nil && *m.policies.limitsOf(t) == (Limits{}) {
		return nil
	}
	s, free := new(LimitStats), uint64(t.in(Ready))
	if ls := t.lanes; ls != nil {
		s.Held, s.Groups, s.Full, s.Busiest = ls.counts.held, uint64(ls.byName.count), ls.counts.full, ls.counts.busiest()
	}
	for _, n := range s.Held {
		free -= n
	}
	if held := m.heldInTube(t); held != NotHeld {
		s.Held[held] += free
	}
	return s
}

// busiest returns the groups with the most reserved jobs.
func (sum *laneCounts) busiest() (top []GroupCount) {
	for _, l := range sum.busy {
		one := GroupCount{l.name, uint64(l.reserved)}
		at, _ := slices.BinarySearchFunc(top, one, GroupCount.compare)
		if at < MaxBusiest {
			top = slices.Insert(top, at, one)
			top = top[:min(len(top), MaxBusiest)]
		}
	}
	return top
}

// compare orders groups by their reserved jobs, the largest number first, then by name.
func (g GroupCount) compare(other GroupCount) int {
	return cmp.Or(cmp.Compare(other.Reserved, g.Reserved), cmp.Compare(g.Name, other.Name))
}
