package embedded

import (
	"time"

	"redstalk/tube"
)

const (
	// quietFor is how long there has to be next to no traffic before memory is
	// given back to the operating system, and quietWork how many batches in a
	// second are next to none.
	quietFor  = tube.Instant(20 * time.Second)
	quietWork = 20

	// worthFreeing is how many batches, or pieces of bytesPerWork of bodies, make
	// it worth while to do that again.
	worthFreeing = 2000
	bytesPerWork = 16 << 10
)

// quiet notices when much traffic has ended. Go looks for unused memory when more
// is wanted: without traffic a process would stay as large as its largest backlog.
type quiet struct {
	worked uint64 // batches and pieces of bodies so far
	looked tube.Instant
	seen   uint64       // worked, when looked at last
	since  tube.Instant // there was next to no traffic
	freed  uint64       // worked, when memory was given back last
}

// over tells whether it is time to give memory back. It is asked every second or
// more often.
func (q *quiet) over(now tube.Instant) bool {
	if now-q.looked < tube.Instant(time.Second) {
		return false
	}
	if q.worked-q.seen > quietWork {
		q.since = now
	}
	q.looked, q.seen = now, q.worked
	if now-q.since < quietFor || q.worked-q.freed < worthFreeing {
		return false
	}
	q.freed = q.worked
	return true
}
