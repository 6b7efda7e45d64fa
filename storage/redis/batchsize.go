package redis

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// stepTime is how much longer than the quickest call one should take that has a step of many
	// jobs in it: others wait for the one under way, and for that in which they are.
	targetStepTime = 2 * time.Millisecond

	// opTime is how long other operations of the call may have taken, each.
	assumedOpTime = 5 * time.Microsecond

	// firstStep and leastStep are how many jobs a step is about at first, and at least; maxMoves
	// is the most.
	initialStep = 64
	minStep     = 16
)

// pace is how many jobs a step of something is about that is done to many: fewer if the last ones
// have taken long, as some jobs are more work than others, and some machines are slower.
type batchSize struct{ jobs atomic.Int32 } // 0: as at first

// paces are those of a partition. Anybody may use them.
type batchSizes struct {
	flush, flushReserved, list, listReserved, move, kick, tick, reclaim batchSize

	quickest atomic.Int64 // what a call has taken at least, ns; 0: none was answered
}

// limit is how many jobs the next step may be about.
func (size *batchSize) limit() int {
	if n := size.jobs.Load(); n > 0 {
		return int(n)
	}
	return initialStep
}

// note takes down by how much longer than the quickest a call has taken that had a step. What has
// held up everything on the machine takes back half of the pace at most.
func (size *batchSize) adjust(longer time.Duration) {
	n := size.limit()
	if longer > targetStepTime {
		n = max(n/2, int(time.Duration(n)*targetStepTime/longer), minStep)
	} else {
		n = min(n+n/8, maxMoves)
	}
	size.jobs.Store(int32(n))
}

// some returns about how many jobs a step in the call may be.
func (c *call) stepSize(size *batchSize) int {
	c.measure(size)
	return size.limit()
}

// pacedBy has how long the call takes count for a pace.
func (c *call) measure(size *batchSize) {
	if !slices.Contains(c.measuredBy, size) {
		c.measuredBy = append(c.measuredBy, size)
	}
}

// notePace takes down how long a call has taken. The operations of clients that were in it as well
// are no reason for smaller steps.
func (p *partition) adjustBatchSizes(c *call, took time.Duration) {
	quickest := &p.batchSizes.quickest
	if least := quickest.Load(); least == 0 || int64(took) < least {
		quickest.Store(int64(took))
	}
	for _, size := range c.measuredBy {
		size.adjust(took - time.Duration(quickest.Load()) - time.Duration(c.ops-c.moved)*assumedOpTime)
	}
}
