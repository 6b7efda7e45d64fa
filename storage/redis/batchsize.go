package redis

import (
	"sync/atomic"
	"time"
)

const (
	// targetStepTime is how much longer than the quickest call a call should take that has a
	// step of many jobs in it: other clients wait for it.
	targetStepTime = 2 * time.Millisecond

	// assumedOpTime is the time allowed for each of the other operations of the call.
	assumedOpTime = 5 * time.Microsecond

	// initialStep and minStep are the initial and the minimum number of jobs of a step;
	// maxMoves is the maximum.
	initialStep = 64
	minStep     = 16
)

// batchSize is the adaptive number of jobs in a step of one kind of work: smaller after slow
// steps, as some jobs are more work than others and some machines are slower.
type batchSize struct{ jobs atomic.Int32 } // 0: the initial value

// batchSizes are those of a partition. They are safe for concurrent use.
type batchSizes struct {
	flush, flushReserved, list, listReserved, move, kick, tick, reclaim batchSize

	quickest atomic.Int64 // the least time that a call has taken, ns; 0: none was answered
}

// limit returns how many jobs the next step can have.
func (size *batchSize) limit() int {
	if n := size.jobs.Load(); n > 0 {
		return int(n)
	}
	return initialStep
}

// adjust adapts the size to how much longer than the quickest call a call with a step has
// taken. A stall of the whole machine at most halves it.
func (size *batchSize) adjust(longer time.Duration) {
	n := size.limit()
	if longer > targetStepTime {
		n = max(n/2, int(time.Duration(n)*targetStepTime/longer), minStep)
	} else {
		n = min(n+n/8, maxMoves)
	}
	size.jobs.Store(int32(n))
}
