package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
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
	switch op.Kind.Spec().Subject {
	case storage.OfTube:
		if op.Kind == storage.SetPolicy && tube.IsPattern(op.Tube) {
			return several // every partition has it
		}
		return schema.PartitionOf(op.Tube, of)
	case storage.OfJob:
		return int(op.ID % uint64(of))
	case storage.OfImport:
		return op.Args.Import.Part
	case storage.OfPart:
		return op.Args.Settle.Part
	case storage.OfFirst:
		return 0
	case storage.OfTubes:
		if op.Kind == storage.Take && len(op.Tubes) > maxTubes {
			return several
		}
		return partitionOfTubes(op.Tubes, of)
	}
	if op.Kind == storage.ListMembers {
		return parseMembersCursor(op.Args.Cursor).part % of
	}
	if op.Kind == storage.ListEnded && batchOf(op) == "" {
		return schema.PartitionOf(op.Tube, of)
	}
	if op.Kind == storage.DeleteSchedule && op.Tube != "" {
		return schema.PartitionOf(op.Tube, of)
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

// Redis can go back in time: it restarts from an older snapshot, a replica takes over that
// lacks the last writes, somebody runs FLUSHALL. Then it would assign ids again that clients
// know, and a late delete would hit another job. An instance notices in two ways: the script
// answers LOST, or another process answers than before. From then on it puts jobs with ids
// beyond all that can have been assigned meanwhile.

// maxIDRate is more ids than one partition can assign to all instances in a second.
const maxIDRate = 1_000_000

// serverID identifies the process that a partition calls.
type serverID struct {
	addr    string
	changes uint64 // how many times it was another one than before, see conn.Link
}

// ids is the progress of the ids of a partition, as far as this instance knows. It belongs to
// the caller of the partition, except for order.
type ids struct {
	order    *idOrder  // common to all partitions
	of       int       // partitions in all
	server   serverID  // to which the calls go
	counted  time.Time // when the number of assigned ids was last known; zero if never
	skipping bool      // the next job must get an id beyond those that order knows
}

// saw records the last number that had been assigned when a call was sent.
func (i *ids) saw(n uint64, sent time.Time) {
	i.order.saw(n)
	i.counted = sent
}

// mustExceedKnown returns whether the next job must get an id beyond those that order knows.
func (i *ids) mustExceedKnown() bool { return i.of > 1 || i.skipping }

// least is the number that each heartbeat sends to Redis, which continues after it; 0 if that
// is not needed.
func (i *ids) least() uint64 {
	if !i.mustExceedKnown() {
		return 0
	}
	return i.order.last.Load()
}

// meet checks whether the calls go to another process than before. The link has
// met another process so many times, see conn.Link.
func (i *ids) meet(addr string, changes uint64, now time.Time) {
	if i.server.addr != "" && (addr != i.server.addr || changes != i.server.changes) {
		i.skip(now)
	}
	i.server = serverID{addr, changes}
}

// skip makes the next jobs get ids beyond all that can have been assigned since this instance
// last knew their number.
func (i *ids) skip(now time.Time) {
	if i.counted.IsZero() {
		return // it knows of no ids
	}
	since := min(max(elapsed(i.counted, now), 0), maxAway) + time.Second
	i.order.skip(now, uint64(since.Seconds()*maxIDRate))
	i.counted, i.skipping = now, true
}

// maxAway limits how long other instances can have put jobs, unknown to this one, of which
// Redis has none any more.
const maxAway = 24 * time.Hour

// elapsed returns the time between two moments, by the clock that has advanced more: the wall
// clock if the machine was suspended, the monotonic clock if the wall clock was set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
