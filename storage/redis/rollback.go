package redis

import (
	"time"
)

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
