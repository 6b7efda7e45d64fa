package embedded

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// window records which jobs have changed while some segments of the log were filled: what the
// tables lack of them. A job that was put in a window and deleted before the window is written
// never gets to the tables.
type window struct {
	base uint64               // the largest id that was given out before the window
	last uint64               // the largest id of a job that was put in it: these have all ids from base+1 on
	jobs map[uint64]staleness // of older jobs
	tables.TubeChanges
	lastID  uint64 // the largest id that was given out, at the end of the window
	reclaim bool   // the tables have to be compacted after it
	segment uint64 // the last segment of the log that ended in it; 0: none has, or it is about no part of the log
	written bool   // it is in the tables
	bytes   int64  // of the bodies that were put in it

	lastEnd    uint64 // the latest Ended.Seq of a record of a job that has ended in it; 0: there is none
	endedBytes int64  // of these records
	entries    int    // of the log, in it
}

// staleness is what the tables lack of a job.
type staleness uint8

const (
	isNew       staleness = iota // they do not have the job
	isChanged                    // they have an old record of it
	isGone                       // they have it, and it is deleted
	isGoneLarge                  // the same, with a body that is not inline
)

// newWindow returns a window. base is the largest id that was given out so far.
func newWindow(base uint64) *window {
	return &window{base: base, last: base, jobs: make(map[uint64]staleness), TubeChanges: tables.NewTubeChanges()}
}

// put records that a job was put. Its id is the one after the last, or a reserved one, see
// skipTo.
func (w *window) put(id uint64, size uint32) {
	if w.bytes += int64(size); id > w.base {
		w.last = id
	} else {
		w.jobs[id] = isNew
	}
}

// skipTo makes the next job that is put the one after id: the ids before it are reserved.
func (w *window) skipTo(id uint64) {
	for n := w.base + 1; n <= w.last; n++ {
		w.jobs[n] = isNew
	}
	w.base, w.last = id, id
}

// changed records that a job has changed.
func (w *window) changed(id uint64) {
	if _, known := w.jobs[id]; !known && id <= w.base {
		w.jobs[id] = isChanged
	}
}

// deleted records that a job was deleted. inline says that its body is in its record.
func (w *window) deleted(id uint64, inline bool) {
	s, known := w.jobs[id]
	switch {
	case id > w.base:
	case known && s == isNew:
		delete(w.jobs, id)
	case inline:
		w.jobs[id] = isGone
	default:
		w.jobs[id] = isGoneLarge
	}
}

// forget records that a job of an earlier window was deleted before it got to the tables.
func (w *window) forget(id uint64) { delete(w.jobs, id) }

// staleness returns what the tables lack of a job of the window.
func (w *window) staleness(id uint64) staleness { return w.jobs[id] }

// chunks calls do with the ids of all jobs of the window in ascending order, up to size ids at
// a time. Some of the new jobs may be deleted already.
func (w *window) chunks(size int, do func(ids []uint64) error) error {
	for ids := range slices.Chunk(slices.SortedFunc(maps.Keys(w.jobs), yielding(cmp.Compare[uint64])), size) {
		if err := do(ids); err != nil {
			return err
		}
	}
	ids := make([]uint64, 0, size)
	for id := w.base + 1; id <= w.last; id++ {
		if ids = append(ids, id); len(ids) < size && id < w.last {
			continue
		}
		if err := do(ids); err != nil {
			return err
		}
		ids = ids[:0]
	}
	return nil
}

// Windows are held back as long as that costs nothing but space in the log. A job that is put
// and deleted before its window is written never gets to the tables. So a window goes on over
// several segments, and when it ends it is held until the next one ends. With large bodies a
// segment is full after a few jobs, many of which still exist.

const (
	// A window ends when windowBytes of bodies were put in it, or windowFactor as many bytes as are
	// in memory then: after that most jobs that were put at its beginning are gone, if jobs are
	// deleted as fast as they are put. Longer windows need more segments.
	windowBytes  = 32 << 20
	windowFactor = 2

	// windowEntries is how many entries of the log a window has before it ends. All of them are
	// replayed after a crash.
	windowEntries = 64 << 10

	// windowEnded is how many bytes of records of ended jobs a window has before it ends.
	windowEnded = 4 << 20

	// maxHeldBytes is how many bytes of bodies can be in memory, beside those that are kept there
	// anyway, before windows are no longer held back.
	maxHeldBytes = 32 << 20

	// maxWindowAge is how long windows are held if no segment of the log ends.
	maxWindowAge = tube.Instant(5 * time.Second)
)

// mayHoldWindows reports whether windows may be held back: there is room in memory for the bodies of
// their jobs, which stay there until they are in the tables. The lock is held.
func (j *journal) mayHoldWindows() bool {
	return j.windowBytes > 0 && !j.failing && !j.guard.low && j.bytesInMemory() <= j.keep+maxHeldBytes
}

// segmentEnded is called when a segment of the log has ended, and all before it. It ends the
// window, unless the window may go on. The lock is held.
func (j *journal) segmentEnded(segment uint64) {
	w := j.window
	w.segment = segment
	j.segmentEndedAt = j.now()
	if !j.mayHoldWindows() || w.reclaim {
		j.flushWindows()
	} else if w.bytes >= min(j.windowBytes, windowFactor*j.bytesInMemory()) || w.entries >= windowEntries || w.endedBytes >= windowEnded {
		j.endWindow(true)
	}
}

// endWindow ends the window, which covers at least one segment of the log, and begins another
// one. It hands the held window to the checkpointer; and this one, too, unless it is held now.
// If the tables are too far behind, the window goes on. The lock is held.
//
// Jobs may have been put since the last of those segments ended. They are in this window, so
// they must not be in the next one: it would write them again, without the bodies that are only
// in the tables by then.
func (j *journal) endWindow(hold bool) {
	if j.behind > maxBehind {
		return
	}
	j.submitHeld()
	j.window.lastID = j.machine.LastID()
	j.held, j.window = j.window, newWindow(j.window.lastID)
	if !hold {
		j.submitHeld()
	}
}

// submitHeld hands the held window to the checkpointer, if there is one. The lock is held.
func (j *journal) submitHeld() {
	if j.held == nil {
		return
	}
	j.submit(j.held)
	j.held = nil
}

// flushWindows makes the checkpointer write all segments that have ended to the tables. The lock is
// held.
func (j *journal) flushWindows() {
	if j.window.segment > 0 {
		j.endWindow(false)
	} else if j.behind <= maxBehind {
		j.submitHeld()
	}
}

// flushOldWindows is flushWindows if no segment has ended for maxWindowAge. The lock is held.
func (j *journal) flushOldWindows(now tube.Instant) {
	if now-j.segmentEndedAt >= maxWindowAge {
		j.flushWindows()
	}
}

// neverStored reports whether a job that is deleted now never gets to the tables: it was put in
// the held window or later. The lock is held.
func (j *journal) neverStored(id uint64) bool { return j.held != nil && id > j.held.base }
