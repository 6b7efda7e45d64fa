package embedded

// window is which jobs have changed since some moment, and so what the tables
// lack. A job that was put and deleted in one window never gets there.
type window struct {
	jobs    map[uint64]staleness
	pauses  map[string]pause
	lastID  uint64 // at its end
	reclaim bool   // the tables are to be made as small as they can be
	segment uint64 // of the log: this and all before it are in the tables once the window is
}

// staleness is what the tables do not know of a job.
type staleness uint8

const (
	isChanged   staleness = iota // they have it as it was
	isNew                        // they do not have it
	isGone                       // they have it
	isGoneLarge                  // the same, with a body of its own
)

func newWindow() *window {
	return &window{jobs: make(map[uint64]staleness), pauses: make(map[string]pause)}
}

func (w *window) put(id uint64) { w.jobs[id] = isNew }

func (w *window) changed(id uint64) {
	if _, known := w.jobs[id]; !known {
		w.jobs[id] = isChanged
	}
}

func (w *window) deleted(id uint64, inline bool) {
	switch {
	case w.jobs[id] == isNew:
		delete(w.jobs, id)
	case inline:
		w.jobs[id] = isGone
	default:
		w.jobs[id] = isGoneLarge
	}
}

func (w *window) empty() bool { return len(w.jobs) == 0 && len(w.pauses) == 0 }
