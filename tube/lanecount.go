package tube

// What LimitStats shows is counted with each change of a lane, so that nothing has to be searched for.

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
