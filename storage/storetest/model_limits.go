package storetest

import (
	"cmp"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Limits and rates in the model, and the operations about groups.

// modelStarts are starts that have taken tokens, by tube.RatePeriods.
type modelStarts [len(tube.RatePeriods)][]modelWindow

// modelWindow is a number of starts whose tokens come back together, one period after last.
type modelWindow struct {
	first, last time.Duration
	count       uint32
}

// tubeLimits returns the limits of a tube. push-rate is one more rate.
func (m *Model) tubeLimits(name string) (l tube.Limits) {
	for _, p := range m.policiesOf(name) {
		l = completedLimits(l, p.Limits)
	}
	if p := m.policies[name]; p != nil && p.Push.Rate > 0 {
		period := slices.Index(tube.RatePeriods[:], p.Push.RateEvery)
		l.Rates[period] = atMost(l.Rates[period], p.Push.Rate)
	}
	return l
}

// groupLimits returns the limits of a group.
func (m *Model) groupLimits(l modelLane) (limits tube.Limits) {
	if config := m.group(l).config; config != nil {
		limits = config.Limits
	}
	for _, p := range m.policiesOf(l.tube) {
		limits = completedLimits(limits, p.GroupLimits)
	}
	if m.isStrict(l) {
		limits.Concurrency = 1
	}
	return limits
}

// completedLimits returns limits, with what they lack from others.
func completedLimits(l, others tube.Limits) tube.Limits {
	if l.Rates == (tube.Rates{}) {
		l.Rates = others.Rates
	}
	l.Concurrency = cmp.Or(l.Concurrency, others.Concurrency)
	return l
}

func (m *Model) weight(l modelLane) uint32 {
	if config := m.group(l).config; config != nil {
		return config.Weight
	}
	return 1
}

// hasTokens reports whether each of these rates has a token for one more start.
func (m *Model) hasTokens(l modelLane, rates tube.Rates) bool {
	for i, most := range rates {
		taken := uint32(0)
		for _, w := range m.group(l).starts[i] {
			if w.last+tube.RatePeriods[i] > m.now {
				taken += w.count
			}
		}
		if most > 0 && taken >= most {
			return false
		}
	}
	return true
}

// takeTokens takes a token of each of these rates. Tokens that are taken at the same time come back
// together, and up to a 64th of them if they are taken within an eighth of the period.
func (m *Model) takeTokens(l modelLane, rates tube.Rates) {
	for i, most := range rates {
		windows := slices.Clone(m.group(l).starts[i])
		switch n := len(windows) - 1; {
		case most == 0:
			continue
		case n >= 0 && (m.now == windows[n].last || m.now-windows[n].first < tube.RatePeriods[i]/8 && 64*windows[n].count < most):
			windows[n].last, windows[n].count = m.now, windows[n].count+1
		default:
			windows = append(windows, modelWindow{m.now, m.now, 1})
		}
		m.group(l).starts[i] = windows
	}
}

// aboutGroups carries out an operation about groups.
func (m *Model) aboutGroups(op *storage.Op) {
	a, l := &op.Answer, modelLane{op.Tube, ""}
	if op.Args != nil {
		l.group = op.Args.Group
	}
	switch op.Kind {
	case storage.SetGroup:
		m.group(l).config, m.group(l).hadJob = op.Args.GroupConfig, m.now
	case storage.GetGroup:
		config := m.group(l).config
		a.NotFound, a.Result = config == nil, &storage.Result{GroupConfig: config}
	case storage.PauseGroup:
		m.group(l).paused, m.group(l).until = op.Delay > 0, m.now+time.Duration(op.Delay)*time.Second
	case storage.GroupStats:
		if a.NotFound = !m.hasGroup(l); !a.NotFound {
			a.Result = &storage.Result{Groups: []tube.GroupStats{m.groupStats(l)}}
		}
	case storage.ListGroups:
		m.listGroups(op)
	}
}

// hasGroup reports whether a group has a job, a config or a pause.
func (m *Model) hasGroup(l modelLane) bool {
	return m.hasJobs(l) || m.group(l).config != nil || m.group(l).paused
}

func (m *Model) hasJobs(l modelLane) bool {
	return slices.ContainsFunc(m.jobs, func(j *modelJob) bool { return j.lane() == l })
}

func (m *Model) groupStats(l modelLane) tube.GroupStats {
	s := tube.GroupStats{
		Name: l.group, Ready: m.inLane(l, tube.Ready), Delayed: m.inLane(l, tube.Delayed), Reserved: m.inLane(l, tube.Reserved),
		Buried: m.inLane(l, tube.Buried), Limits: m.groupLimits(l), Weight: m.weight(l),
	}
	if g := m.group(l); g.paused {
		s.PauseLeft = g.until - m.now
	}
	if s.Ready > 0 {
		s.Held = m.held(l)
	}
	return s
}

// listGroups answers with a page of groups. A cursor means: behind the page that was listed last.
func (m *Model) listGroups(op *storage.Op) {
	names := make(map[string]bool)
	for l := range m.groups {
		names[l.group] = names[l.group] || l.tube == op.Tube && m.hasGroup(l)
	}
	for _, j := range m.jobs {
		names[j.metadata.Group] = names[j.metadata.Group] || j.tube.name == op.Tube
	}
	result := &storage.Result{}
	op.Answer.Result = result
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name, listed := range names {
			more := op.Args == nil || op.Args.Cursor == "" || name > m.listedGroup
			if listed && name != "" && more && !yield(name) {
				return
			}
		}
	}) {
		if len(result.Groups) == int(op.MaxJobs) {
			result.Cursor = "more"
			break
		}
		result.Groups = append(result.Groups, m.groupStats(modelLane{op.Tube, name}))
	}
	if n := len(result.Groups); n > 0 {
		m.listedGroup = result.Groups[n-1].Name
	}
}

// tickGroups ends the pauses of groups that are over.
func (m *Model) tickGroups() {
	for _, g := range m.groups {
		if g.paused && g.until <= m.now {
			g.paused = false
		}
	}
}

// busyGroups returns the groups that have a job.
func (m *Model) busyGroups() map[modelLane]bool {
	busy := make(map[modelLane]bool)
	for _, j := range m.jobs {
		busy[j.lane()] = true
	}
	return busy
}

// seeGroups records which groups have jobs now. A group that gets one in the step in which its
// config can be forgotten may have lost it: that is known only for those that were busy before.
func (m *Model) seeGroups(before map[modelLane]bool) {
	busy := m.busyGroups()
	for l, g := range m.groups {
		if busy[l] && (before[l] || !g.forgettable(m.now)) {
			g.hadJob = m.now
		}
	}
}

// forgettable reports whether the store can forget the config of a group now, because the group had
// no job for its TTL. A store checks that rarely: at the latest it is a TTL later.
func (g *modelGroup) forgettable(now time.Duration) bool {
	return g.config != nil && g.config.TTL > 0 && g.hadJob+g.config.TTL <= now
}
