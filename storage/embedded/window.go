package embedded

import (
	"maps"
	"slices"
)

// window is which jobs have changed since some moment, and so what the tables
// lack. A job that was put and deleted in one window never gets there.
type window struct {
	base    uint64               // the largest id that was given out before it
	last    uint64               // of the jobs that were put in it: they have all ids from base+1 on
	jobs    map[uint64]staleness // of the jobs that are older
	pauses  map[string]pause
	lastID  uint64 // at its end
	reclaim bool   // the tables are to be made as small as they can be
	segment uint64 // of the log: this and all before it are in the tables once the window is
}

// staleness is what the tables do not know of a job.
type staleness uint8

const (
	isNew       staleness = iota // they do not have it
	isChanged                    // they have it as it was
	isGone                       // they have it
	isGoneLarge                  // the same, with a body of its own
)

// newWindow begins a window, of whose jobs base is the last that is not new.
func newWindow(base uint64) *window {
	return &window{base: base, last: base, jobs: make(map[uint64]staleness), pauses: make(map[string]pause)}
}

// put notes that a job has come, with the id after the last one's.
func (w *window) put(id uint64) { w.last = id }

func (w *window) changed(id uint64) {
	if _, known := w.jobs[id]; !known && id <= w.base {
		w.jobs[id] = isChanged
	}
}

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

// staleness tells what the tables do not know of a job of the window.
func (w *window) staleness(id uint64) staleness { return w.jobs[id] }

// chunks calls do with the ids of the jobs of the window, in their order, so
// many at a time. Of the new ones some may be gone again.
func (w *window) chunks(size int, do func(ids []uint64) error) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(w.jobs)), size) {
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
