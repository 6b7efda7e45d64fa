package embedded

import (
	"log/slog"
	"time"

	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// A checkpoint writes a window to the tables: what has changed in some segments of the log
// (window.go, writewindow.go). Then these segments can be used again. The checkpointer, a
// goroutine of the journal, does that.

// A failed attempt to write the tables is repeated after minRetry, and after twice as long each
// further time, up to maxRetry: an attempt may write nearly all of a window before it fails for
// lack of space. Until then the log keeps what the tables lack.
const (
	minRetry = 250 * time.Millisecond
	maxRetry = 2 * time.Second
)

// rotate begins a new segment of the log, and ends the window of the segments before it. With
// reclaim the tables are compacted after that window.
func (j *journal) rotate(reclaim bool) {
	j.requireOwnership()
	ended, err := j.log.Rotate()
	if err != nil {
		j.fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.window.reclaim = j.window.reclaim || reclaim
	j.segmentEnded(ended)
}

// writeWindows is the checkpointer: it writes one window after another to the tables, and
// releases the segments of the log that they cover.
func (j *journal) writeWindows() {
	defer j.checkpointer.Done()
	for w := range j.checkpoints {
		if !j.writeUntilDone(w) {
			continue // the journal ends; the log has what the tables lack
		}
		j.requireOwnership() // otherwise it might release segments that are no longer the engine's
		if w.segment > 0 {
			j.log.Release(w.segment)
		}
		if w.reclaim {
			j.compactTables()
		}
		j.windowDone(w)
	}
}

// writeUntilDone writes a window, and retries while that fails: there may be room later. It
// returns false if the journal ends before it is done.
func (j *journal) writeUntilDone(w *window) bool {
	for wait := minRetry; !j.gaveUp; wait = min(2*wait, maxRetry) {
		j.requireOwnership()
		err := j.writeWindow(w)
		if err == nil {
			j.failures.ended()
			return true
		}
		j.failures.report(err, j.setFailing())
		select {
		case <-time.After(wait):
		case <-j.ended:
			j.gaveUp = true
		}
	}
	return false
}

// setFailing records that a window could not be written. Calls that wait for the tables stop waiting.
// It returns whether puts are refused now.
func (j *journal) setFailing() (refusing bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failing = true
	j.cond.Broadcast()
	j.roomMade()
	return j.stalled()
}

// windowDone records that a window is in the tables. If it was the last one, and the next one
// could not end because too many waited, the next one ends now.
func (j *journal) windowDone(w *window) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w.written = true
	j.behind--
	j.windowsDone++
	if j.failing = false; j.behind == 0 && !j.ending && !j.mayHoldWindows() {
		j.flushWindows()
	}
	j.cond.Broadcast()
	j.roomMade()
}

// syncChanges returns when everything that has changed so far is on the disk, in the log. The
// tables must not contain what the log can still lose: they would have one half of a batch
// without the other, or lack a job that a later entry of the log refers to.
func (j *journal) syncChanges() error {
	written := make(chan struct{})
	j.mu.Lock()
	commit, done := j.addBatches(nil, []*storage.Batch{{Done: func() { close(written) }}}, true)
	j.mu.Unlock()
	endBatches(done)
	if commit != nil {
		j.commit(commit, nil)
	}
	<-written
	return j.log.Sync()
}

// compactTables frees the space of deleted jobs in the tables.
func (j *journal) compactTables() {
	err := j.tables.Compact()
	if err != nil {
		j.slog.Warn("the tables cannot be compacted", "dir", j.dir, "err", err.Error())
	}
}

// failures logs that the tables cannot be written, and when they can be again. It is owned by
// the checkpointer.
type failures struct {
	log      *slog.Logger
	dir      string
	behind   telemetry.Throttle // limits messages that the log keeps what the tables lack
	refusing telemetry.Throttle // limits messages that puts are refused
	since    time.Time          // the first failure in a row; zero: there was none
	logged   bool               // a failure was logged
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
