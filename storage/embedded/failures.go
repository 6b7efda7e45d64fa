package embedded

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/telemetry"
)

// failures logs that the tables cannot be written, and when they can be again. It is owned by
// the checkpointer.
type failures struct {
	log      *slog.Logger
	dir      string
	behind   telemetry.Log // limits messages that the log keeps what the tables lack
	refusing telemetry.Log // limits messages that puts are refused
	since    time.Time     // the first failure in a row; zero: there was none
	logged   bool          // a failure was logged
}

// report logs a failure, and whether puts are refused because of it. The text of the error is
// logged, not the error itself: the error carries a stack, which a log handler would print.
func (t *failures) report(err error, refusing bool) {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	logged := false
	if refusing {
		logged = t.refusing.Error(t.log, "the journal's tables cannot be written: puts are refused until they can be; all other changes stay in the log, which grows",
			"dir", t.dir, "err", err.Error())
		if logged {
			t.behind.Allow() // keeps the other message, which says less, from following at once
		}
	} else {
		logged = t.behind.Error(t.log, "the journal's tables cannot be written; the log keeps what they lack", "dir", t.dir, "err", err.Error())
	}
	t.logged = t.logged || logged
}

// ended records that the tables could be written.
func (t *failures) ended() {
	if t.logged {
		t.log.Warn("the journal's tables can be written again", "dir", t.dir, "after", time.Since(t.since))
	}
	t.logged, t.since = false, time.Time{}
}

// bodyReads counts and logs failures to read bodies.
type bodyReads struct {
	failures atomic.Int64 // in a row
	log      *slog.Logger
	limited  telemetry.Log
}

// maxFailures is how many failures in a row are attributed to damaged files. After more, the
// disk is at fault, and no further job is buried until a body could be read.
const maxFailures = 256

func (r *bodyReads) succeeded() {
	if r.failures.Load() != 0 {
		r.failures.Store(0)
	}
}

// failed counts a failure, and returns whether the job has to be buried.
func (r *bodyReads) failed(err error) bool {
	if errors.Is(err, ErrGone) {
		return false // the tables are not where they were; the job is intact
	}
	return tables.IsDamage(err) || r.failures.Add(1) <= maxFailures
}

// report logs a failure.
func (r *bodyReads) report(what string, job uint64, err error) {
	r.limited.Error(r.log, what, "job", job, "err", err.Error())
}
