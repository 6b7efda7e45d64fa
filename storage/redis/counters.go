package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// What this instance counts: by tube, what its clients have done; and how often it has called
// Redis. Redis stores none of it. Puts, takes and deletes are known from the answers; the
// script reports everything else at the end of a reply, see OPS.note in lua/slow/tubes.lua.

// tubeFlows is what has happened in the tubes of a partition. mu is held while a reply is
// decoded.
type tubeFlows struct {
	mu       sync.Mutex
	flows    *tube.Flows
	reported map[string]reportedTimes // by tube
}

func newTubeFlows() tubeFlows {
	return tubeFlows{flows: tube.NewFlows(tube.RoomFor(tube.DefaultNamed)), reported: make(map[string]reportedTimes)}
}

// of returns the flow of a tube.
func (f *tubeFlows) of(name string) *tube.Flow { return f.flows.Open(name) }

// storeStats is what a store counts of its own work. It is safe for concurrent use.
type storeStats struct { // duration from sending to the reply
	calls      *telemetry.Histogram // from sending to the answer
	operations *telemetry.Histogram
	retries    atomic.Uint64
	replays    atomic.Uint64
}

func newStoreStats() *storeStats {
	return &storeStats{calls: telemetry.NewDurations(), operations: telemetry.NewSizes()}
}

// reportedTimes is what was reported about a tube.
type reportedTimes struct {
	waits, runs tube.Times
	notBefore   time.Time // nothing is reported before that
}

// drop is called for a tube that does not exist any more. What was reported is gone as well.
func (f *tubeFlows) drop(name string) {
	f.flows.Drop(name)
	delete(f.reported, name)
}

// timesOf reads what all instances have reported of a tube, and adds what this one has yet to
// report.
func (f *tubeFlows) timesOf(name string, r *reply) (waits, runs tube.Times) {
	for _, t := range []*tube.Times{&waits, &runs} {
		for i := range t.Counts {
			t.Counts[i] = r.count()
		}
		t.Sum = r.ms()
	}
	if flow := f.flows.Find(name); flow != nil {
		before := f.reported[name]
		waits.Add(&flow.Waits)
		waits.Sub(&before.waits)
		runs.Add(&flow.Runs)
		runs.Sub(&before.runs)
	}
	return waits, runs
}
