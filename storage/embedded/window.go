package embedded

import (
	"cmp"
	"maps"
	"slices"

	"redstalk/storage/embedded/tables"
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
	segment uint64 // the last segment of the log that ended in it; 0: none has
	bytes   int64  // of the bodies that were put in it
	entries int    // of the log, in it
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
