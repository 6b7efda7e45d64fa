package redis

import (
	"maps"
	"slices"

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
