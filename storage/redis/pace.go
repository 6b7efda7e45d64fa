package redis

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// stepTime is how much longer than the quickest call one should take that has a step of many
	// jobs in it: others wait for the one under way, and for that in which they are.
	stepTime = 2 * time.Millisecond

	// opTime is how long other operations of the call may have taken, each.
	opTime = 5 * time.Microsecond

	// firstStep and leastStep are how many jobs a step is about at first, and at least; maxMoves
	// is the most.
	firstStep = 64
	leastStep = 16
)

// pace is how many jobs a step of something is about that is done to many: fewer if the last ones
// have taken long, as some jobs are more work than others, and some machines are slower.
type pace struct{ jobs atomic.Int32 } // 0: as at first

// paces are those of a partition. Anybody may use them.
type paces struct {
	flush, flushReserved, list, listReserved, move, kick, tick, reclaim pace

	quickest atomic.Int64 // what a call has taken at least, ns; 0: none was answered
}

// limit is how many jobs the next step may be about.
func (its *pace) limit() int {
	if n := its.jobs.Load(); n > 0 {
		return int(n)
	}
	return firstStep
}

// note takes down by how much longer than the quickest a call has taken that had a step. What has
// held up everything on the machine takes back half of the pace at most.
func (its *pace) note(longer time.Duration) {
	n := its.limit()
	if longer > stepTime {
		n = max(n/2, int(time.Duration(n)*stepTime/longer), leastStep)
	} else {
		n = min(n+n/8, maxMoves)
	}
	its.jobs.Store(int32(n))
}

// some returns about how many jobs a step in the call may be.
func (c *call) some(its *pace) int {
	c.pacedBy(its)
	return its.limit()
}

// pacedBy has how long the call takes count for a pace.
func (c *call) pacedBy(its *pace) {
	if !slices.Contains(c.paced, its) {
		c.paced = append(c.paced, its)
	}
}

// notePace takes down how long a call has taken. The operations of clients that were in it as well
// are no reason for smaller steps.
func (p *partition) notePace(c *call, took time.Duration) {
	quickest := &p.paces.quickest
	if least := quickest.Load(); least == 0 || int64(took) < least {
		quickest.Store(int64(took))
	}
	for _, pace := range c.paced {
		pace.note(took - time.Duration(quickest.Load()) - time.Duration(c.ops-c.moved)*opTime)
	}
}
