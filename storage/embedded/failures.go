package embedded

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/telemetry"
)

// trouble tells the operator when the tables cannot be written, and when they can be
// again. It belongs to the checkpointer.
type failures struct {
	log      *slog.Logger
	dir      string
	behind   telemetry.Log // messages that the log keeps what the tables lack
	refusing telemetry.Log // messages that puts are refused
	since    time.Time     // the first failure in a row; zero: there was none
	logged   bool          // the operator knows about it
}

// report tells about a failure, and whether puts are refused because of it. The text of
// the error is logged, not the error itself: that carries a stack, which a log handler
// would print.
func (t *failures) report(err error, refusing bool) {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	logged := false
	if refusing {
		logged = t.refusing.Error(t.log, "the journal's tables cannot be written: puts are refused until they can; the log grows by all other changes",
			"dir", t.dir, "err", err.Error())
		if logged {
			t.behind.Allow() // the other message says less: it must not follow at once
		}
	} else {
		logged = t.behind.Error(t.log, "the journal's tables cannot be written; the log keeps what they lack", "dir", t.dir, "err", err.Error())
	}
	t.logged = t.logged || logged
}

// over notes that the tables could be written.
func (t *failures) ended() {
	if t.logged {
		t.log.Warn("the journal's tables can be written again", "dir", t.dir, "after", time.Since(t.since))
	}
	t.logged, t.since = false, time.Time{}
}

// bodyReads counts failures to read bodies, and tells the operator.
type bodyReads struct {
	failures atomic.Int64 // in a row
	log      *slog.Logger
	limited  telemetry.Log
}

// maxFailures is after how many failures in a row they are put down to the disk, and not
// to damaged files: no further job is buried then until a body could be read.
const maxFailures = 256

func (r *bodyReads) succeeded() {
	if r.failures.Load() != 0 {
		r.failures.Store(0)
	}
}

// failed notes a failure, and returns whether the job has to be buried.
func (r *bodyReads) failed(err error) bool {
	if errors.Is(err, ErrGone) {
		return false // the tables are not where they were; the job is sound
	}
	return tables.IsDamage(err) || r.failures.Add(1) <= maxFailures
}

// report tells the operator.
func (r *bodyReads) report(what string, job uint64, err error) {
	r.limited.Error(r.log, what, "job", job, "err", err.Error())
}
