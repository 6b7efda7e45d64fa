package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
)

// How jobs and tubes are assigned to partitions: a tube by the hash of its name, and a job by
// the remainder of its id.

// several is the partition of an operation that concerns more than one, or that can take
// several units, such as a take from so many tubes of one partition that it takes several
// calls.
const several = -1

// partitionOfTubes returns the partition of all the tubes; several if they differ.
func partitionOfTubes(tubes []string, of int) int {
	at := 0
	for i, name := range tubes {
		switch partition := schema.PartitionOf(name, of); {
		case i == 0:
			at = partition
		case partition != at:
			return several
		}
	}
	return at
}

// partitionOfOp returns the partition that an operation concerns.
func partitionOfOp(op *storage.Op, of int) int {
	switch op.Kind {
	case storage.Put, storage.Kick, storage.PeekHead, storage.TubeStats, storage.Pause,
		storage.PeekKey, storage.DeleteKey, storage.SetPolicy, storage.GetPolicy, storage.Flush, storage.ListJobs:
		return schema.PartitionOf(op.Tube, of)
	case storage.Move, storage.SetPriority, storage.Reschedule, storage.Peek, storage.JobStats:
		return int(op.ID % uint64(of))
	case storage.BeginImport, storage.ImportJobs:
		return op.Args.Import.Part
	case storage.Take:
		if len(op.Tubes) > maxTubes {
			return several
		}
		return partitionOfTubes(op.Tubes, of)
	case storage.Ref:
		return partitionOfTubes(op.Tubes, of)
	}
	return several
}

// idOrder makes the ids of jobs grow over all partitions: an instance that puts a job passes
// the largest known number, and the job gets a larger one. So a job has a larger id than all
// jobs that its instance knew of before, and jobs of the same priority are taken in the order
// in which they were put, whatever their tubes. Instances learn each other's numbers with every
// heartbeat.
type idOrder struct {
	last atomic.Uint64

	mu      sync.Mutex
	from    uint64    // last, before the skip
	skipped time.Time // time of the last skip
}

// skip skips so many ids. Partitions that do so at about the same time, for the same reason,
// skip the same ones.
func (o *idOrder) skip(now time.Time, ids uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.skipped) > time.Second {
		o.from, o.skipped = o.last.Load(), now
	}
	o.saw(o.from + ids)
}

// saw records that a number was given out.
func (o *idOrder) saw(n uint64) {
	for {
		was := o.last.Load()
		if n <= was || o.last.CompareAndSwap(was, n) {
			return
		}
	}
}
