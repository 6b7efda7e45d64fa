package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// perHold is how many jobs are looked at under one hold of the lock.
	perHold = 256

	// perCatchUp is how many jobs are written to the tables for one sync of
	// the log.
	perCatchUp = 16 * perHold
)

// writeWindows writes window after window to the tables, and gives up the log
// that they came from.
func (j *journal) writeWindows() {
	defer j.checkpoint.Done()
	for w := range j.checkpoints {
		if err := j.writeWindow(w); err != nil {
			j.fatal(fmt.Errorf("writing to the tables: %w", err))
		}
		j.log.Release(w.segment)
		if w.reclaim {
			j.reclaim()
		}
		j.mu.Lock()
		j.behind--
		j.room.Broadcast()
		j.mu.Unlock()
	}
}

// writeWindow writes what has changed in a window, as it is now: what has
// changed since is in a later part of the log as well, and so comes out right.
func (j *journal) writeWindow(w *window) error {
	// In the order of their keys they are quickest to write.
	ids := slices.Sorted(maps.Keys(w.jobs))
	for chunk := range slices.Chunk(ids, perCatchUp) {
		if err := j.writeJobs(w, chunk); err != nil {
			return err
		}
	}
	if err := j.catchUp(); err != nil { // with the pauses
		return err
	}
	// A table of its own for what is written each time: one that held jobs as
	// well would span, and have to be merged with, the tables of all others.
	if err := j.tables.db.Flush(); err != nil {
		return err
	}
	b := j.tables.db.NewBatch()
	defer b.Close()
	for name, p := range w.pauses {
		j.writePause(b, name, p)
	}
	j.tables.setNumber(b, lastIDKey, w.lastID)
	j.tables.setNumber(b, segmentKey, w.segment+1)
	if err := errors.Join(b.Commit(pebble.NoSync), j.tables.db.Flush()); err != nil {
		return err
	}
	for from := 0; from < len(ids); from += perHold {
		j.shed(ids[from:min(from+perHold, len(ids))])
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

func (j *journal) writeJobs(w *window, ids []uint64) error {
	now := make([]current, 0, len(ids))
	for part := range slices.Chunk(ids, perHold) {
		now = j.look(now, part)
	}
	if err := j.catchUp(); err != nil {
		return err
	}
	for part := range slices.Chunk(ids, perHold) {
		if err := j.commitJobs(w, part, now[:len(part)]); err != nil {
			return err
		}
		now = now[len(part):]
	}
	return nil
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

func (j *journal) commitJobs(w *window, ids []uint64, now []current) error {
	b := j.tables.db.NewBatch()
	defer b.Close()
	for i, id := range ids {
		j.writeJob(b, id, w.jobs[id], &now[i])
	}
	return b.Commit(pebble.NoSync)
}

func (j *journal) writeJob(b *pebble.Batch, id uint64, s staleness, c *current) {
	t := j.tables
	t.key = idKey(t.key[:0], jobKey, id)
	t.value = t.value[:0]
	switch {
	case s == isGone || s == isGoneLarge:
		b.Delete(t.key, nil)
		t.key[0] = changeKey
		b.Delete(t.key, nil)
		if s == isGoneLarge {
			t.key[0] = bodyKey
			b.Delete(t.key, nil)
		}
	case !c.found:
		return // it went after the window: a later one deletes it
	case s == isNew:
		t.value = encodeRecord(t.value, &c.record)
		if inline(c.record.Size) {
			t.value = append(t.value, c.body...)
		}
		b.Set(t.key, t.value, nil)
		if !inline(c.record.Size) {
			t.key[0] = bodyKey
			b.Set(t.key, c.body, nil)
		}
	default:
		t.key[0] = changeKey
		b.Set(t.key, encodeRecord(t.value, &c.record), nil)
	}
	t.migrated.Add(1)
}

func (j *journal) writePause(b *pebble.Batch, name string, p pause) {
	key := append([]byte{pauseKey}, name...)
	if p.until == 0 {
		b.Delete(key, nil)
		return
	}
	b.Set(key, encodePause(nil, p), nil)
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
