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
	th, l := m.throttleOf(tube, group), m.groupIn(m.tubes[tube], group)
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

// groupIn returns the lane of a group of t, which may be nil; nil if it has no job.
func (m *jobs) groupIn(t *Tube, group string) *lane {
	if t == nil || t.lanes == nil {
		return nil
	}
	return t.lanes.byName.find(group, hashOf(group))
}

// oldestInGroups returns when the oldest ready job of those that come first in their groups was put;
// Never if there is none. If there are more than mostLanes groups, an older one can be missed.
func (m *jobs) oldestInGroups(t *Tube) Instant {
	oldest, n := Never, 0
	for l := range t.lanes.byName.all() {
		if n++; n > mostLanes {
			break
		}
		if j := l.ready.head(&m.slab); j != nil {
			oldest = min(oldest, j.created)
		}
	}
	return oldest
}

// mostLanes is how many groups are examined for the oldest ready job.
const mostLanes = 1 << 14

// firstReadies returns the first n ready jobs of t, which has groups, by priority and id.
func (m *jobs) firstReadies(t *Tube, n int) (jobs []*Job) {
	var fronts heap[front]
	add := func(q *laneQueue, j *Job) {
		if j != nil {
			fronts.add(front{q, j})
		}
	}
	add(&t.lanes.plain.ready, t.ready.head(&m.slab))
	for l := range t.lanes.byName.all() {
		add(&l.ready, l.ready.head(&m.slab))
	}
	for len(jobs) < n && fronts.len() > 0 {
		first := fronts.take()
		jobs = append(jobs, first.job)
		add(first.queue, first.queue.after(&m.slab, first.job))
	}
	return jobs
}

// front is a queue and one of its jobs.
type front struct {
	queue *laneQueue
	job   *Job
}

func (f front) before(other front) bool { return before(f.job, other.job) }

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
