package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// perHold is how many jobs are looked at under one hold of the lock.
const perHold = 256

// retryTables is how long to wait until the tables are tried again, and twice as
// long each time that it has failed once more, up to retrySeldom: a window may be
// written to the last byte before it is found that there is no room for it.
// Until then the log keeps what they lack.
const (
	retryTables = 250 * time.Millisecond
	retrySeldom = 2 * time.Second
)

// enoughForTables is how many bytes of the disk have to be free before Pebble is
// given files to take over: if it cannot say so in its manifest, it ends the
// process.
const enoughForTables = 256 << 10

// writeWindows writes window after window to the tables, and gives up the log
// that they came from.
func (j *journal) writeWindows() {
	defer j.checkpoint.Done()
	for w := range j.checkpoints {
		if !j.writeUntilDone(w) {
			continue // the journal ends, and the log has what the tables lack
		}
		j.mustOwn() // or what is given up would be somebody else's
		j.log.Release(w.segment)
		if w.reclaim {
			j.reclaim()
		}
		j.windowDone()
	}
}

// windowDone notes that a window is in the tables. If it was the last one, and
// more segments of the log have ended since than there were windows for, it
// hands over the next one.
func (j *journal) windowDone() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.behind--
	if j.failing = false; j.behind == 0 && j.window.segment > 0 && !j.ending {
		j.endWindow(j.window.segment)
	}
	j.room.Broadcast()
	j.roomMade()
}

// writeUntilDone writes a window, again and again while that fails: there may
// be no room now, and some later. It gives up, and returns false, when the
// journal ends.
func (j *journal) writeUntilDone(w *window) bool {
	for wait := retryTables; !j.gaveUp; wait = min(2*wait, retrySeldom) {
		j.mustOwn()
		err := j.writeWindow(w)
		if err == nil {
			j.trouble.over()
			return true
		}
		j.trouble.tell(err, j.noteFailure())
		select {
		case <-time.After(wait):
		case <-j.ended:
			j.gaveUp = true // the windows after this one rest on it
		}
	}
	return false
}

// noteFailure notes that a window could not be written, and tells whether puts
// are refused for that. Who waits for the tables does not any more.
func (j *journal) noteFailure() (refusing bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failing = true
	j.room.Broadcast()
	j.roomMade()
	return j.stuck()
}

// stuck tells whether the tables are far behind the log, or very much in memory
// waits for them, and they cannot be written.
// Then puts are refused, and everything else goes on, in the log. The lock is
// held.
func (j *journal) stuck() bool {
	return j.failing && (j.behind > maxBehind || j.machine.BodyBytes() > j.keep+maxUnkept)
}

// writeWindow writes what has changed in a window, as it is now: what has
// changed since is in a later part of the log as well, and so comes out right.
func (j *journal) writeWindow(w *window) error {
	if err := j.tables.dir.check(); err != nil {
		return err
	}
	d := newDraft(j.tables.fs, j.dir, j.tables.db)
	defer d.drop()
	if err := w.chunks(perHold, func(ids []uint64) error { return j.writeJobs(d, w, ids) }); err != nil {
		return err
	}
	if err := j.writeOthers(d, w); err != nil {
		return err
	}
	if err := j.catchUp(); err != nil {
		j.fatal(err)
	}
	if err := j.roomForTables(); err != nil {
		return err
	}
	if err := d.takeOver(j.tables.db); err != nil {
		return err
	}
	j.tables.migrated.Add(d.records)
	return w.chunks(perHold, func(ids []uint64) error {
		j.shed(ids)
		return nil
	})
}

// roomForTables fails if the disk is full but for a few blocks.
func (j *journal) roomForTables() error {
	usage, err := j.tables.fs.GetDiskUsage(j.dir)
	if err == nil && usage.AvailBytes < enoughForTables {
		return fmt.Errorf("taking over tables in %s: only %d bytes of the disk are free", j.dir, usage.AvailBytes)
	}
	return nil
}

// reclaim has Pebble give up what was deleted in the tables.
func (j *journal) reclaim() {
	err := j.tables.db.Compact(context.Background(), []byte{bodyKey}, []byte{jobKey + 1}, false)
	if err != nil {
		j.slog.Warn("the tables cannot be made smaller", "dir", j.dir, "err", err.Error())
	}
}

// current is a job as it is.
type current struct {
	record tube.Record
	body   []byte
	found  bool
}

// look appends jobs as they are now.
func (j *journal) look(to []current, ids []uint64) []current {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		var c current
		c.record, c.body, c.found = j.machine.Record(id)
		to = append(to, c)
	}
	return to
}

func (j *journal) writeJobs(d *draft, w *window, ids []uint64) error {
	d.now = j.look(d.now[:0], ids)
	for i := range d.now {
		if err := j.writeJob(d, w, ids[i], &d.now[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) writeJob(d *draft, w *window, id uint64, c *current) error {
	jobs, bodies := oldJobs, oldBodies
	if id > w.base {
		jobs, bodies = newJobs, newBodies
	}
	t, s := j.tables, w.staleness(id)
	t.key, t.value = idKey(t.key[:0], jobKey, id), t.value[:0]
	switch {
	case s == isGone || s == isGoneLarge:
		return removeJob(d, t.key, s == isGoneLarge)
	case !c.found:
		return nil // it went after the window, or in it: a later one deletes it, or need not
	case s == isChanged:
		t.value = encodeRecord(t.value, &c.record)
		t.key[0] = changeKey
		d.records++
		return d.set(changes, t.key, t.value)
	}
	t.value = encodeRecord(t.value, &c.record)
	d.records++
	if inline(c.record.Size) {
		t.value = append(t.value, c.body...)
		return d.set(jobs, t.key, t.value)
	}
	if err := d.set(jobs, t.key, t.value); err != nil {
		return err
	}
	t.key[0] = bodyKey
	return d.set(bodies, t.key, c.body)
}

// removeJob removes the keys of an old job, of which key is the first.
func removeJob(d *draft, key []byte, large bool) error {
	d.records++
	err := d.remove(oldJobs, key)
	key[0] = changeKey
	err = errors.Join(err, d.remove(changes, key))
	if large {
		key[0] = bodyKey
		err = errors.Join(err, d.remove(oldBodies, key))
	}
	return err
}

// writeOthers writes what is not about a job, in the order of its keys.
func (j *journal) writeOthers(d *draft, w *window) error {
	err := d.set(others, []byte{lastIDKey}, binary.BigEndian.AppendUint64(nil, w.lastID))
	for _, name := range slices.Sorted(maps.Keys(w.pauses)) {
		p, key := w.pauses[name], append([]byte{pauseKey}, name...)
		if p.until == 0 {
			err = errors.Join(err, d.remove(others, key))
		} else {
			err = errors.Join(err, d.set(others, key, encodePause(nil, p)))
		}
	}
	return errors.Join(err, d.set(others, []byte{segmentKey}, binary.BigEndian.AppendUint64(nil, w.segment+1)))
}

// catchUp returns when all that has changed so far is on the disk as a part of
// the log. If the tables got what the log may still lose, they would have one
// half of a batch without the other, or lack a job that the log goes on about.
func (j *journal) catchUp() error {
	written := make(chan struct{})
	j.mu.Lock()
	lead, ready := j.submit(nil, []*storage.Batch{{Done: func() { close(written) }}}, true)
	j.mu.Unlock()
	done(ready)
	if lead != nil {
		j.lead(lead, nil)
	}
	<-written
	return j.log.Sync()
}

// shed lets go of bodies that the tables have now, unless they are likely to
// be asked for soon and there is room for them.
func (j *journal) shed(ids []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		job := j.machine.Find(id)
		if job != nil && (job.State() != tube.Ready || j.machine.BodyBytes() > j.keep) {
			j.machine.DropBody(job)
		}
	}
}
