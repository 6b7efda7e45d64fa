package tube

import (
	"cmp"
	"slices"
)

// What monitoring shows of groups and limits. It is counted with each change of a lane, so that nothing
// has to be searched for.

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

// laneCounts are the sums of what the lanes of a tube count.
type laneCounts struct {
	held [LastHeld + 1]uint64 // ready jobs of lanes that are held
	full uint64               // lanes with as many reserved jobs as they can have
	busy []*lane              // those with reserved jobs
}

// laneCount is what one lane adds to the laneCounts of its tube.
type laneCount struct {
	held Held
	full bool
	jobs uint32 // ready jobs that are held
	busy uint32 // its index in laneCounts.busy, counted from 1; 0: it is not there
}

// count replaces what l, the lane of a group, has added to the counts of its tube.
func (l *lane) count(held Held, full bool) {
	sum, jobs := &l.tube.lanes.counts, uint32(0)
	if held != NotHeld {
		jobs = uint32(l.ready.len())
	}
	c := &l.counted
	if c.jobs == 0 && jobs > 0 {
		l.tube.flow.Holds++
	}
	sum.held[c.held] -= uint64(c.jobs)
	sum.held[held] += uint64(jobs)
	if full != c.full {
		sum.full++
		if !full {
			sum.full -= 2
		}
	}
	c.held, c.jobs, c.full = held, jobs, full
	if busy := l.reserved > 0; busy != (c.busy > 0) {
		sum.setBusy(l, busy)
	}
}

// setBusy adds l to the lanes with reserved jobs, or removes it.
func (sum *laneCounts) setBusy(l *lane, busy bool) {
	at := &l.counted.busy
	if busy {
		sum.busy = append(sum.busy, l)
		*at = uint32(len(sum.busy))
		return
	}
	last := len(sum.busy) - 1
	moved := sum.busy[last]
	sum.busy[*at-1], moved.counted.busy = moved, *at
	sum.busy[last], sum.busy, *at = nil, sum.busy[:last], 0
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
