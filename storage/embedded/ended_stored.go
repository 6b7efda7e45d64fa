package embedded

import (
	"maps"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// What the tables have of the records of ended jobs: they get those of a window with the window, and lose those that are beyond the
// bounds then, or whose time is over.

// sweepLimit is how many records are dropped from the tables at a time.
const sweepLimit = 20_000

// Ended adds the entry of a record. The entry about the end of the job follows in the same frame. The lock is held.
func (j *journal) Ended(r *tube.Ended) {
	g := j.filling
	start := len(g.frame)
	g.frame = tables.AppendEnded(appendTubeEntry(g.frame, endedEntry, r.Tube), r)
	g.size += len(g.frame) - start
	j.window.ended = append(j.window.ended, r)
	j.window.endedBytes += int64(r.Bytes())
	j.countEntry()
}

// writeEnded writes the records of a window to ingest files. written must be called with whether they are in the tables; calls after
// the first one do nothing.
func (j *journal) writeEnded(in *tables.Ingest, w *window, yield func()) (written func(are bool), err error) {
	if len(w.ended) == 0 {
		return func(bool) {}, nil
	}
	j.ends.storing.Lock()
	added := j.ends.still(w.ended)
	c, err := j.ends.changes(j.tables, added, yield)
	if err == nil {
		err = in.SetEnded(c)
	}
	if err != nil {
		j.ends.storing.Unlock()
		return nil, err
	}
	ended := false
	return func(are bool) {
		if ended {
			return
		}
		ended = true
		if are {
			j.ends.changed(c, added)
		}
		j.ends.storing.Unlock()
	}, nil
}

// still returns those of the records that were not dropped meanwhile. The lock is not held.
func (all *endedJobs) still(records []*tube.Ended) (left []*tube.Ended) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, r := range records {
		if all.recent.Get(r.ID) == r {
			left = append(left, r)
		}
	}
	return left
}

// load loads how many records the tables have, and brings back those that are only in the log.
func (all *endedJobs) load(t *tables.Tables, fromLog []*tube.Ended, w *window) error {
	all.stored = make(map[string]tables.EndedOf)
	err := t.EndedTubes(func(name string, of tables.EndedOf) {
		all.stored[name] = of
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
		if !stored {
			w.ended = append(w.ended, r)
			w.endedBytes += int64(r.Bytes())
			all.recent.Add(r)
		}
	}
	return nil
}

// bounds returns the bounds of some tubes. The lock is not held.
func (all *endedJobs) bounds(of map[string]tables.EndedOf) map[string]uint64 {
	most := make(map[string]uint64, len(of))
	all.mu.Lock()
	defer all.mu.Unlock()
	for name := range of {
		most[name] = all.machine.KeepBytes(name)
	}
	return most
}

// changes returns what changes in the tables when they get these records: those that are beyond the bounds go. storing is held.
func (all *endedJobs) changes(t *tables.Tables, added []*tube.Ended, yield func()) (*tables.EndedChanges, error) {
	c := t.NewEndedChanges(tube.Instant(all.clock().UnixNano()), all.stored, added, yield)
	of := c.Tubes
	if len(added) == 0 {
		of = all.stored
	}
	for name, most := range all.bounds(of) {
		if err := c.Trim(name, all.stored[name], most, sweepLimit); err != nil {
			return nil, err
		}
	}
	if excess := int64(all.bytes) + c.Growth() - int64(all.most); excess > 0 {
		return c, c.TrimAll(all.stored, excess, max(sweepLimit, 2*len(added)))
	}
	return c, nil
}

// changed records that the tables have changed; added are in them now. storing is held, the lock is not.
func (all *endedJobs) changed(c *tables.EndedChanges, added []*tube.Ended) {
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
	for _, r := range added {
		all.recent.Drop(r)
	}
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
			e.ends.changed(c, nil)
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
