package embedded

import (
	"maps"
	"time"

	"redstalk/storage/embedded/ended"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// What the tables have of the records of ended jobs: they get those of a window with the window, and lose those that are beyond the
// bounds then, or whose time is over.

// sweepLimit is how many records are dropped from the tables at a time.
const sweepLimit = 50_000

// Ended adds the entry of a record, which is encoded. The entry about the end of the job follows in the same frame. The lock is held.
func (j *journal) Ended(r *tube.Ended, encoded []byte) {
	g := j.filling
	start := len(g.frame)
	g.frame = append(appendTubeEntry(g.frame, endedEntry, r.Tube), encoded...)
	g.size += len(g.frame) - start
	j.window.lastEnd = r.Seq
	j.window.endedBytes += int64(r.Bytes())
	j.countEntry()
}

// writeEnded writes the records of a window to ingest files. written must be called with whether they are in the tables; calls after
// the first one do nothing.
func (j *journal) writeEnded(in *tables.Ingest, w *window, yield func()) (written func(are bool), err error) {
	if w.lastEnd == 0 {
		return func(bool) {}, nil
	}
	j.ends.storing.Lock()
	c, err := j.ends.changes(j.tables, j.ends.upTo(w.lastEnd), yield)
	if err == nil {
		err = in.SetEnded(c)
	}
	if err != nil {
		j.ends.storing.Unlock()
		return nil, err
	}
	done := false
	return func(are bool) {
		if done {
			return
		}
		if done = true; are {
			j.ends.changed(c, w.lastEnd)
		}
		j.ends.storing.Unlock()
	}, nil
}

// upTo returns the records in memory up to one with that Ended.Seq. The lock is not held.
func (all *endedJobs) upTo(seq uint64) []ended.Run {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.recent.UpTo(seq)
}

// load loads how many records the tables have, and brings back those that are only in the log.
func (all *endedJobs) load(t *tables.Tables, fromLog []*tube.Ended, w *window) error {
	all.stored = make(map[string]tables.EndedOf)
	err := t.EndedTubes(func(name string, of tables.EndedOf) {
		all.stored[name] = of
		all.lastSeq = max(all.lastSeq, of.Last)
		all.records += of.Records
		all.bytes += of.Bytes
	})
	if err != nil {
		return err
	}
	for _, r := range fromLog {
		stored, err := t.HasEnded(r) // a window can have been written with records that are behind its segments
		if err != nil {
			return err
		}
		all.lastSeq = max(all.lastSeq, r.Seq)
		if !stored {
			w.lastEnd = r.Seq
			w.endedBytes += int64(r.Bytes())
			all.recent.Add(r)
		}
	}
	return nil
}

// bounds returns the bounds of some tubes in the tables. sweeping says that the records that are only in memory stay there: they count, too. The
// lock is not held.
func (all *endedJobs) bounds(of map[string]tables.EndedOf, sweeping bool) map[string]tables.EndedBound {
	bounds := make(map[string]tables.EndedBound, len(of))
	all.mu.Lock()
	defer all.mu.Unlock()
	for name := range of {
		b := tables.EndedBound{Bytes: all.machine.KeepBytes(name), Floor: all.recent.Floor(name)}
		if sweeping {
			b.Bytes -= min(b.Bytes, all.recent.BytesOf(name))
		}
		bounds[name] = b
	}
	return bounds
}

// changes returns what changes in the tables when they get these records: those that are beyond the bounds go. storing is held.
func (all *endedJobs) changes(t *tables.Tables, added []ended.Run, yield func()) (*tables.EndedChanges, error) {
	c := t.NewEndedChanges(tube.Instant(all.clock().UnixNano()), all.stored, added, yield)
	of, sweeping := c.Tubes, len(added) == 0
	if sweeping {
		of = all.stored
	}
	for name, bound := range all.bounds(of, sweeping) {
		if err := c.Trim(name, all.stored, bound, sweepLimit); err != nil {
			return nil, err
		}
	}
	if excess := int64(all.bytes) + c.Growth() - int64(all.most); excess > 0 {
		return c, c.TrimAll(all.stored, excess, sweepLimit)
	}
	return c, nil
}

// changed records that the tables have changed; the records up to one with that Ended.Seq are in them now. storing is held, the lock is
// not.
func (all *endedJobs) changed(c *tables.EndedChanges, upTo uint64) {
	for name, of := range c.Tubes {
		if of.Records == 0 {
			delete(all.stored, name)
		} else {
			all.stored[name] = of
		}
	}
	var records, bytes uint64
	for of := range maps.Values(all.stored) {
		records, bytes = records+of.Records, bytes+of.Bytes
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.records, all.bytes = records, bytes
	for name, floor := range all.recent.Floors() {
		if of := all.stored[name]; of.Records == 0 || of.First > floor {
			all.recent.ForgetFloor(name, floor)
		}
	}
	all.recent.DropUpTo(upTo)
}

// sweepEnded drops records from the tables whose time is over, or that a lower bound excludes. It returns whether there may be more
// of them.
func (e *Engine) sweepEnded() (more bool) {
	e.ends.storing.Lock()
	defer e.ends.storing.Unlock()
	if len(e.ends.stored) == 0 {
		return false
	}
	y := yielder{time.Now()}
	c, err := e.ends.changes(e.journal.tables, nil, y.work)
	if err == nil && len(c.Tubes) > 0 {
		if err = e.journal.tables.DropEnded(c); err == nil {
			e.ends.changed(c, 0)
			return c.Dropped() >= sweepLimit
		}
	}
	if err != nil {
		e.journal.slog.Warn("records of ended jobs cannot be dropped from the tables; that is tried again", "dir", e.journal.dir, "err", err.Error())
	}
	return false
}

// sweep drops records from time to time, until the journal ends.
func (e *Engine) sweep() {
	ticker := time.NewTicker(time.Duration(trimEvery))
	defer ticker.Stop()
	for {
		for e.sweepEnded() {
		}
		select {
		case <-ticker.C:
		case <-e.journal.ended:
			return
		}
	}
}
