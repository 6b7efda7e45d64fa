package redis

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// tubeRefs counts the connections of this instance that use and watch each tube. Redis has a
// copy for the other instances. It is updated at once when a tube gets its first or loses its
// last connection here, because that decides whether the tube exists, and otherwise with the
// next heartbeat.
//
// A heartbeat compares at most maxReviewed tubes, and one call reports at most
// maxTubesReported. With more tubes, the numbers that other instances see are older.
//
// It belongs to the caller of the partition.
type tubeRefs struct {
	tubes      map[string]*tubeRef
	mustReport map[string]bool // to be reported even if the numbers are the same as last time
	toReview   []string        // tubes that the next heartbeats compare
	toReport   []string        // tubes to be reported to Redis
}

// maxReviewed is the limit of tubes that one heartbeat compares.
const maxReviewed = 10_000

func newTubeRefs() *tubeRefs {
	return &tubeRefs{tubes: make(map[string]*tubeRef), mustReport: make(map[string]bool)}
}

type tubeRef struct {
	refCounts
	reported [3]int // using, watching and waiting as Redis knows them
}

// refCounts is how many connections of this instance use and watch a tube.
type refCounts struct{ using, watching int }

// add adds delta connections. It returns whether Redis must be updated at once.
func (a *tubeRefs) add(name string, role tube.Role, delta int) bool {
	at := a.tubes[name]
	if at == nil {
		if delta <= 0 {
			return false
		}
		at = &tubeRef{}
		a.tubes[name] = at
	}
	before := at.using + at.watching
	if role == tube.Using {
		at.using += delta
	} else {
		at.watching += delta
	}
	after := at.using + at.watching
	if after == 0 {
		delete(a.tubes, name)
	}
	return (before == 0) != (after == 0)
}

// counts returns the present numbers of a tube, zeros if there are none.
func (a *tubeRefs) counts(name string) refCounts {
	if at := a.tubes[name]; at != nil {
		return at.refCounts
	}
	return refCounts{}
}

// isReported returns whether Redis knows of connections here that use or watch a tube.
func (a *tubeRefs) isReported(name string) bool {
	at := a.tubes[name]
	return at != nil && at.reported[0]+at.reported[1] > 0
}

// findChanged finds tubes whose numbers differ from those that Redis has. It does nothing while
// earlier results are still to be reported.
func (a *tubeRefs) findChanged(waiting func(string) int) {
	if len(a.toReport) > 0 {
		return
	}
	for name := range a.mustReport {
		a.toReport = append(a.toReport, name)
	}
	if len(a.toReview) == 0 {
		a.toReview = slices.Collect(maps.Keys(a.tubes))
	}
	n := min(len(a.toReview), maxReviewed)
	for _, name := range a.toReview[:n] {
		if at := a.tubes[name]; at != nil && !a.mustReport[name] && a.current(name, waiting) != at.reported {
			a.toReport = append(a.toReport, name)
		}
	}
	a.toReview = a.toReview[n:]
}

// nextToReport returns up to n of the tubes that findChanged has found.
func (a *tubeRefs) nextToReport(n int) []string {
	n = min(n, len(a.toReport))
	names := a.toReport[:n:n]
	a.toReport = a.toReport[n:]
	return names
}

// current returns how many connections use and watch a tube, and how many wait for it.
func (a *tubeRefs) current(name string, waiting func(string) int) (numbers [3]int) {
	if at := a.tubes[name]; at != nil {
		numbers = [3]int{at.using, at.watching, 0}
		if at.watching > 0 {
			numbers[2] = waiting(name)
		}
	}
	return numbers
}

// markReported records that these numbers of a tube are being sent to Redis.
func (a *tubeRefs) markReported(name string, waiting int) (using, watching int) {
	delete(a.mustReport, name)
	at := a.tubes[name]
	if at == nil {
		return 0, 0
	}
	at.reported = [3]int{at.using, at.watching, waiting}
	return at.using, at.watching
}

// markUnreported records that a tube must be reported, because an earlier report was lost.
func (a *tubeRefs) markUnreported(name string) {
	a.mustReport[name] = true
	if at := a.tubes[name]; at != nil {
		at.reported = [3]int{}
	}
}

// markAllUnreported is called when Redis knows nothing of this instance.
func (a *tubeRefs) markAllUnreported() {
	clear(a.mustReport) // tubes without connections need no report
	a.toReport = nil
	for name := range a.tubes {
		a.markUnreported(name)
	}
}

// What this instance counts: by tube, what its clients have done; and how often it has called
// Redis. Redis stores none of it. Puts, takes and deletes are known from the answers; the
// script reports everything else at the end of a reply, see SLOW.note in lua/slow/tubes.lua.

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

// timesOf reads what all instances have reported of a tube, and adds what this instance has
// yet to report.
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
