package embedded

import (
	"time"

	"redstalk/tube"
)

const (
	// quietFor is how long there must be hardly any traffic before memory is given
	// back to the operating system. quietWork is how many batches in a second are
	// hardly any.
	trimAfter   = tube.Instant(20 * time.Second)
	idleBatches = 20

	// worthFreeing is how many batches, or pieces of bodies of bytesPerWork bytes,
	// must have come since the last time that memory was given back.
	worthTrimming = 2000
	bytesPerWork  = 16 << 10
)

// quiet notices when a time of much traffic has ended. Go frees memory when it needs more:
// so without traffic a process would stay as large as its largest backlog. What Pebble keeps of its
// files is given up as well: the operating system has it, too.
type trimmer struct {
	work      uint64       // batches and pieces of bodies so far
	checkedAt tube.Instant // when over last measured the traffic
	seen      uint64       // worked at that time
	since     tube.Instant // the start of the time with hardly any traffic
	freed     uint64       // worked when memory was last given back
}

// over reports whether it is time to give memory back. It has to be called every second or
// more often.
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
