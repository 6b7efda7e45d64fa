package embedded

import (
	"errors"
	"fmt"
	"slices"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

const (
	// perHold is how many jobs are read under one hold of the lock.
	perHold = 256

	// minFree is how many bytes of the disk must be free before Pebble ingests
	// files: if it cannot write that much to its manifest, it ends the process.
	minFree = 256 << 10
)

// writeWindow writes the jobs of a window to the tables, as they are now. A change
// that came after the window is in a later part of the log as well, so replaying the
// log over the tables gives the right result.
func (j *journal) writeWindow(w *window) error {
	if err := j.tables.Directory().Check(); err != nil {
		return err
	}
	var y yielder // of the checkpointer
	in := j.tables.NewIngest(y.work)
	defer in.Remove()
	var cold coldWritten
	if err := j.writeFiles(in, w, &cold); err != nil {
		return err
	}
	written, err := j.writeEnded(in, w, y.work)
	if err != nil {
		return err
	}
	defer written(false)
	if err := j.syncChanges(); err != nil {
		j.fatal(err)
	}
	if err := j.checkRoom(); err != nil {
		return err
	}
	if err := j.ingest(in, w, written); err != nil {
		return err
	}
	j.makeCold(&cold)
	if err := j.talliesSaved(w.Tallies); err != nil {
		return err
	}
	j.dropCheckpoints(w)
	return w.chunks(perHold, func(ids []uint64) error {
		j.dropBodies(ids)
		return nil
	})
}

// dropCheckpoints drops checkpoints from memory that are in the tables now.
func (j *journal) dropCheckpoints(w *window) {
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	j.saved.stored(w.Checkpoints)
}

// writeFiles writes a window to ingest files.
func (j *journal) writeFiles(in *tables.Ingest, w *window, cold *coldWritten) error {
	var jobs []jobNow
	err := w.chunks(perHold, func(ids []uint64) error {
		jobs = j.jobsNow(jobs, ids)
		defer releaseJobs(jobs)
		for i := range jobs {
			if err := j.writeJob(in, w, ids[i], &jobs[i], cold); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = in.SetIndex()
	}
	if err != nil || w.segment == 0 {
		return err
	}
	return in.SetOthers(w.TubeChanges, w.lastID, w.segment+1)
}

// checkRoom fails if the disk is nearly full.
func (j *journal) checkRoom() error {
	usage, err := j.guard.fs.GetDiskUsage(j.dir)
	if err == nil && usage.AvailBytes < minFree {
		return fmt.Errorf("ingesting files into the tables in %s: only %d bytes of the disk are free", j.dir, usage.AvailBytes)
	}
	return nil
}

// jobNow is a job as it is now.
type jobNow struct {
	record   tube.Record
	metadata tube.Metadata // that of record, if it has any
	body     []byte
	buffer   tube.Buffer // of body, or nil; it is retained until releaseJobs
	found    bool
	stored   storedCold // what the tables have of it as a cold job, if wasCold
	wasCold  bool
	isCold   bool // it is to be written as one
}

// releaseJobs releases the buffers of jobs.
func releaseJobs(jobs []jobNow) {
	for i := range jobs {
		if buffer := jobs[i].buffer; buffer != nil {
			buffer.Release()
		}
	}
}

// jobsNow returns jobs as they are now. It overwrites room, and uses its memory if that is
// large enough. Nothing is allocated while the lock is held: a goroutine that allocates may
// have to help the garbage collector first, and all others would wait.
func (j *journal) jobsNow(room []jobNow, ids []uint64) []jobNow {
	jobs := slices.Grow(room[:0], len(ids))[:len(ids)]
	clear(jobs)
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	for i, id := range ids {
		n := &jobs[i]
		n.record, n.body, n.found = j.machine.Record(id, &n.metadata)
		n.stored, n.wasCold = j.cold.stored[id]
		if n.found {
			job := j.machine.Find(id)
			n.buffer, n.isCold = j.machine.Buffer(job), j.canBeCold(job, &n.record)
		}
		if n.buffer != nil {
			n.buffer.Retain()
		}
	}
	return jobs
}

// writeJob writes what the tables lack of a job of the window.
func (j *journal) writeJob(in *tables.Ingest, w *window, id uint64, now *jobNow, cold *coldWritten) error {
	s := w.staleness(id)
	gone := s == isGone || s == isGoneLarge
	switch {
	case gone && now.wasCold:
		cold.others = append(cold.others, id)
		return in.RemoveCold(now.stored.place, now.stored.size, s == isGoneLarge)
	case gone:
		return in.RemoveJob(id, s == isGoneLarge)
	case !now.found:
		// The job was deleted after the window, and a later window removes it. Or it was
		// put and deleted within the window, and there is nothing to remove.
		return nil
	case now.isCold || now.wasCold:
		return j.writeCold(in, s, now, id > w.base, cold)
	case s == isChanged:
		return in.ChangeJob(&now.record)
	}
	return in.PutJob(&now.record, now.body, id > w.base)
}

// writeCold writes a job that is to be cold, or was in the tables.
func (j *journal) writeCold(in *tables.Ingest, s staleness, now *jobNow, recent bool, cold *coldWritten) (err error) {
	r, body := &now.record, now.body
	if s == isChanged || now.wasCold {
		if body, err = j.inlineBody(r, body); err != nil {
			return err
		}
	}
	if !now.isCold {
		cold.others = append(cold.others, r.ID)
		return errors.Join(in.RemoveCold(now.stored.place, r.Size, false), in.WarmJob(r, body))
	}
	cold.cold = append(cold.cold, storedCold{place: tables.PlaceOf(r), size: r.Size})
	if now.wasCold {
		return in.PutCold(r, body, &now.stored.place, recent)
	}
	if s == isChanged {
		err = in.RemoveJob(r.ID, false)
	}
	return errors.Join(err, in.PutCold(r, body, nil, recent))
}

// inlineBody returns the body of a job that the tables have, if it is inline.
func (j *journal) inlineBody(r *tube.Record, body []byte) ([]byte, error) {
	switch {
	case !tables.Inline(r.Size):
		return nil, nil
	case r.Size == 0 || body != nil:
		return body, nil
	}
	return j.tables.Body(r.ID)
}

// dropBodies drops bodies from memory that are in the tables now. It keeps those of
// ready jobs, which are likely to be needed soon, if there is room for them.
func (j *journal) dropBodies(ids []uint64) {
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	for _, id := range ids {
		job := j.machine.Find(id)
		if job != nil && (job.State() != tube.Ready || j.machine.BodyBytes() > j.keep) {
			j.machine.DropBody(job)
		}
	}
}
