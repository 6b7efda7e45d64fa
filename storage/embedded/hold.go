package embedded

import (
	"time"

	"redstalk/tube"
)

// Windows are held back as long as that costs nothing but space in the log. A job that is put
// and deleted before its window is written never gets to the tables. So a window goes on over
// several segments, and when it ends it is held until the next one ends. With large bodies a
// segment is full after a few jobs, many of which still exist.

const (
	// A window ends when holdBytes of bodies were put in it, or holdTimes as many bytes as are
	// in memory then: after that most jobs that were put at its beginning are gone, if jobs are
	// deleted as fast as they are put. Longer windows need more segments.
	holdBytes = 32 << 20
	holdTimes = 2

	// holdEntries is how many entries of the log a window has before it ends. All of them are
	// replayed after a crash.
	holdEntries = 64 << 10

	// maxHeld is how many bytes of bodies can be in memory, beside those that are kept there
	// anyway, before windows are no longer held back.
	maxHeld = 32 << 20

	// holdFor is how long windows are held if no segment of the log ends.
	holdFor = tube.Instant(5 * time.Second)
)

// mayHold reports whether windows may be held back: there is room in memory for the bodies of
// their jobs, which stay there until they are in the tables. The lock is held.
func (j *journal) mayHold() bool {
	return j.hold > 0 && !j.failing && !j.guard.low && j.machine.BodyBytes() <= j.keep+maxHeld
}

// segmentEnded is called when a segment of the log has ended, and all before it. It ends the
// window, unless the window may go on. The lock is held.
func (j *journal) segmentEnded(segment uint64) {
	w := j.window
	w.segment = segment
	j.segmentEndedAt = j.now()
	if !j.mayHold() || w.reclaim {
		j.endHold()
	} else if w.bytes >= min(j.hold, holdTimes*j.machine.BodyBytes()) || w.entries >= holdEntries {
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
	j.behind++
	j.checkpoints <- j.held // does not block: the channel has room for maxWindows
	j.held = nil
}

// endHold makes the checkpointer write all segments that have ended to the tables. The lock is
// held.
func (j *journal) endHold() {
	if j.window.segment > 0 {
		j.endWindow(false)
	} else if j.behind <= maxBehind {
		j.submitHeld()
	}
}

// endLongHold is endHold if no segment has ended for holdFor. The lock is held.
func (j *journal) endLongHold(now tube.Instant) {
	if now-j.segmentEndedAt >= holdFor {
		j.endHold()
	}
}

// neverStored reports whether a job that is deleted now never gets to the tables: it was put in
// the held window or later. The lock is held.
func (j *journal) neverStored(id uint64) bool { return j.held != nil && id > j.held.base }
