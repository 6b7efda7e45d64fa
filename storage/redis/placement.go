package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
)

// Where things are: a tube belongs to a partition by the hash of its name, and
// the number of a job's partition is the remainder of its id.

// placeOf returns the partition of a tube, of so many. It is FNV-1a; another
// one would not find the jobs that are there.
func partitionOf(tube string, of int) int {
	if of == 1 {
		return 0
	}
	hash := uint32(2166136261)
	for i := range len(tube) {
		hash = (hash ^ uint32(tube[i])) * 16777619
	}
	return int(hash % uint32(of))
}

// several is the place of an operation that concerns more than one partition, or may take
// several units, such as one on so many tubes of one that it takes several calls.
const several = -1

// placeOfTubes returns the partition that all of the tubes belong to; several
// if there is none.
func partitionOfTubes(tubes []string, of int) int {
	at := 0
	for i, name := range tubes {
		switch partition := partitionOf(name, of); {
		case i == 0:
			at = partition
		case partition != at:
			return several
		}
	}
	return at
}

// placeOfOp returns the partition that an operation concerns.
func partitionOfOp(op *storage.Op, of int) int {
	switch op.Kind {
	case storage.Put, storage.Kick, storage.PeekHead, storage.TubeStats, storage.Pause,
		storage.PeekKey, storage.DeleteKey, storage.SetPolicy, storage.GetPolicy, storage.Flush, storage.ListJobs:
		return partitionOf(op.Tube, of)
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

// order gives the jobs of all partitions ids that grow: whoever puts a job
// tells its partition the largest number that is known, and gets one above it.
// So a job has a larger id than all that were put before and that the instance
// knew of, and jobs of the same priority come out in the order in which they
// were put, whatever their tubes. Instances learn of each other's numbers with
// every heartbeat.
type idOrder struct {
	last atomic.Uint64

	mu      sync.Mutex
	from    uint64    // last, before it was skipped
	skipped time.Time // when that was
}

// skip has ids go on beyond the next so many. Partitions that do so at about the same
// time, for one reason, skip the same ones.
func (o *idOrder) skip(now time.Time, ids uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.skipped) > time.Second {
		o.from, o.skipped = o.last.Load(), now
	}
	o.saw(o.from + ids)
}

// saw notes that a number was given out.
func (o *idOrder) saw(n uint64) {
	for {
		was := o.last.Load()
		if n <= was || o.last.CompareAndSwap(was, n) {
			return
		}
	}
}
