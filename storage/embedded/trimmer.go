package embedded

import (
	"time"

	"redstalk/tube"
)

const (
	// trimAfter is how long there must be hardly any traffic before memory is returned to the
	// operating system. Up to idleBatches batches in a second are hardly any traffic.
	trimAfter   = tube.Instant(20 * time.Second)
	idleBatches = 20

	// worthTrimming is how many batches, or pieces of bodies of bytesPerWork bytes, there must
	// have been since memory was last returned.
	worthTrimming = 2000
	bytesPerWork  = 16 << 10
)

// trimmer notices when a period of much traffic has ended. Go frees memory when it needs more:
// so without traffic a process would stay as large as its largest backlog. Pebble's cache is
// emptied as well: the operating system caches the same files.
type trimmer struct {
	work      uint64       // batches and pieces of bodies so far
	checkedAt tube.Instant // when due last measured the traffic
	seen      uint64       // work at that time
	since     tube.Instant // since then there has been hardly any traffic
	freed     uint64       // work when memory was last returned
}

// due reports whether it is time to return memory. It has to be called at least once a second.
func (q *trimmer) due(now tube.Instant) bool {
	if now-q.checkedAt < tube.Instant(time.Second) {
		return false
	}
	if q.work-q.seen > idleBatches {
		q.since = now
	}
	q.checkedAt, q.seen = now, q.work
	if now-q.since < trimAfter || q.work-q.freed < worthTrimming {
		return false
	}
	q.freed = q.work
	return true
}
