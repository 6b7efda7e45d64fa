package embedded

import (
	"cmp"
	"maps"
	"slices"

	"redstalk/storage/embedded/tables"
)

// window is which jobs have changed while some segments of the log were filled: what the
// tables lack of them. A job that was put in a window and deleted before that is written
// never gets to the tables.
type window struct {
	base uint64               // the largest id that was given out before the window
	last uint64               // the largest id of a job that was put in it: these have all ids from base+1 on
	jobs map[uint64]staleness // of older jobs
	tables.TubeChanges
	lastID  uint64 // the largest id that was given out, at the end of the window
	reclaim bool   // the tables have to be made smaller after it
	segment uint64 // the last segment of the log that has ended in it; 0: none has
	bytes   int64  // of the bodies that were put in it
	entries int    // of the log, in it
}

// staleness is what the tables lack of a job.
type staleness uint8

const (
	isNew       staleness = iota // they do not have the job
	isChanged                    // they have it as it was before
	isGone                       // they have it, and it is deleted
	isGoneLarge                  // the same, with a body that has a key of its own
)

// newWindow returns a window. base is the largest id that was given out so far.
func newWindow(base uint64) *window {
	return &window{base: base, last: base, jobs: make(map[uint64]staleness), TubeChanges: tables.NewTubeChanges()}
}

// put notes that a job was put. Its id is the one after the last, or one that was set aside,
// see skipTo.
func (w *window) put(id uint64, size uint32) {
	if w.bytes += int64(size); id > w.base {
		w.last = id
	} else {
		w.jobs[id] = isNew
	}
}

// skipTo has the next job that is put be the one after id: those before it are set aside.
func (w *window) skipTo(id uint64) {
	for n := w.base + 1; n <= w.last; n++ {
		w.jobs[n] = isNew
	}
	w.base, w.last = id, id
}

// changed notes that a job has changed.
func (w *window) changed(id uint64) {
	if _, known := w.jobs[id]; !known && id <= w.base {
		w.jobs[id] = isChanged
	}
}

// deleted notes that a job was deleted. inline says that its body is in its record.
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

// forget notes that a job of an earlier window was deleted before it got to the tables.
func (w *window) forget(id uint64) { delete(w.jobs, id) }

// staleness returns what the tables lack of a job of the window.
func (w *window) staleness(id uint64) staleness { return w.jobs[id] }

// chunks calls do with the ids of all jobs of the window in their order, up to size ids at
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
