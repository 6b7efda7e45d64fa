package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"redstalk/tube"
)

const (
	// perHold is how many jobs are read under one hold of the lock.
	perHold = 256

	// minFree is how many bytes of the disk must be free before Pebble ingests
	// files: if it cannot write that to its manifest, it ends the process.
	minFree = 256 << 10
)

// writeWindow writes the jobs of a window to the tables, as they are now. A change
// that came after the window is in a later part of the log as well, so replaying the
// log over the tables gives the right result.
func (j *journal) writeWindow(w *window) error {
	if err := j.tables.dir.check(); err != nil {
		return err
	}
	in := newIngest(j.tables.fs, j.dir, j.tables.db)
	defer in.remove()
	if err := j.writeFiles(in, w); err != nil {
		return err
	}
	if err := j.syncChanges(); err != nil {
		j.fatal(err)
	}
	if err := j.checkRoom(); err != nil {
		return err
	}
	if err := in.into(j.tables.db); err != nil {
		return err
	}
	j.tables.migrated.Add(in.records)
	return w.chunks(perHold, func(ids []uint64) error {
		j.dropBodies(ids)
		return nil
	})
}

// writeFiles writes a window to ingest files.
func (j *journal) writeFiles(in *ingest, w *window) error {
	var jobs []jobNow
	err := w.chunks(perHold, func(ids []uint64) error {
		jobs = j.jobsNow(jobs, ids)
		defer releaseJobs(jobs)
		for i := range jobs {
			if err := j.writeJob(in, w, ids[i], &jobs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return writeOthers(in, w)
}

// checkRoom fails if the disk is nearly full.
func (j *journal) checkRoom() error {
	usage, err := j.tables.fs.GetDiskUsage(j.dir)
	if err == nil && usage.AvailBytes < minFree {
		return fmt.Errorf("ingesting files into the tables in %s: only %d bytes of the disk are free", j.dir, usage.AvailBytes)
	}
	return nil
}

// jobNow is a job as it is now.
type jobNow struct {
	record   tube.Record
	metadata tube.Metadata // those of record, if it has any
	body     []byte
	users    tube.Buffer // of body, or nil; there is a use of it until releaseJobs
	found    bool
}

// releaseJobs ends the uses of the bodies of jobs.
func releaseJobs(jobs []jobNow) {
	for i := range jobs {
		if users := jobs[i].users; users != nil {
			users.Release()
		}
	}
}

// jobsNow returns jobs as they are now. It overwrites room, and uses its memory if that is enough.
// Nothing is allocated while the lock is held: who allocates may have to help the collector first,
// and all others wait.
func (j *journal) jobsNow(room []jobNow, ids []uint64) []jobNow {
	jobs := slices.Grow(room[:0], len(ids))[:len(ids)]
	clear(jobs)
	j.mu.Lock()
	defer yieldLock(j.mu)
	for i, id := range ids {
		n := &jobs[i]
		n.record, n.body, n.found = j.machine.Record(id, &n.metadata)
		if n.found {
			n.users = j.machine.Buffer(j.machine.Find(id))
		}
		if n.users != nil {
			n.users.Retain()
		}
	}
	return jobs
}

// writeJob writes what the tables lack of a job of the window.
func (j *journal) writeJob(in *ingest, w *window, id uint64, now *jobNow) error {
	t, s := j.tables, w.staleness(id)
	t.key = idKey(t.key[:0], jobKey, id)
	switch {
	case s == isGone || s == isGoneLarge:
		return removeJob(in, t.key, s == isGoneLarge)
	case !now.found:
		// It is gone since the window, and a later window removes it. Or it came
		// and went within the window, and there is nothing to remove.
		return nil
	}
	in.records++
	t.value = encodeRecord(t.value[:0], &now.record)
	if s == isChanged {
		t.key[0] = changeKey
		return in.set(changes, t.key, t.value)
	}
	jobs, bodies := oldJobs, oldBodies
	if id > w.base {
		jobs, bodies = newJobs, newBodies
	}
	if inline(now.record.Size) {
		t.value = append(t.value, now.body...)
		return in.set(jobs, t.key, t.value)
	}
	if err := in.set(jobs, t.key, t.value); err != nil {
		return err
	}
	t.key[0] = bodyKey
	return in.set(bodies, t.key, now.body)
}

// removeJob removes all keys of an old job. key is its first one, and is changed.
func removeJob(in *ingest, key []byte, large bool) error {
	in.records++
	err := in.delete(oldJobs, key)
	key[0] = changeKey
	err = errors.Join(err, in.delete(changes, key))
	if large {
		key[0] = bodyKey
		err = errors.Join(err, in.delete(oldBodies, key))
	}
	return err
}

// writeOthers writes the keys that are not about a job, in their order.
func writeOthers(in *ingest, w *window) error {
	return errors.Join(
		writeKeptKeys(in, w.keys),
		writeImports(in, w.imports),
		in.set(others, []byte{lastIDKey}, binary.BigEndian.AppendUint64(nil, w.lastID)),
		writePauses(in, w.pauses),
		writePolicies(in, w.policies),
		in.set(others, []byte{segmentKey}, binary.BigEndian.AppendUint64(nil, w.segment+1)),
	)
}

func writePauses(in *ingest, pauses map[string]pause) (err error) {
	for _, name := range slices.Sorted(maps.Keys(pauses)) {
		p, key := pauses[name], append([]byte{pauseKey}, name...)
		if p.until == 0 {
			err = errors.Join(err, in.delete(others, key))
		} else {
			err = errors.Join(err, in.set(others, key, encodePause(nil, p)))
		}
	}
	return err
}

func writePolicies(in *ingest, policies map[string]*tube.Policy) (err error) {
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		p, key := policies[name], append([]byte{policyKey}, name...)
		if p == nil {
			err = errors.Join(err, in.delete(others, key))
		} else {
			err = errors.Join(err, in.set(others, key, appendPolicy(nil, p)))
		}
	}
	return err
}

func writeKeptKeys(in *ingest, keys map[keyOfTube]keptKey) (err error) {
	for _, k := range slices.SortedFunc(maps.Keys(keys), sorting(keyOfTube.compare)) {
		if kept := keys[k]; kept.until == 0 {
			err = errors.Join(err, in.delete(others, k.tablesKey()))
		} else {
			err = errors.Join(err, in.set(others, k.tablesKey(), encodeKeptKey(nil, kept)))
		}
	}
	return err
}

// dropBodies drops bodies from memory that are in the tables now. It keeps those of
// ready jobs, which are likely to be wanted soon, if there is room for them.
func (j *journal) dropBodies(ids []uint64) {
	j.mu.Lock()
	defer yieldLock(j.mu)
	for _, id := range ids {
		job := j.machine.Find(id)
		if job != nil && (job.State() != tube.Ready || j.machine.BodyBytes() > j.keep) {
			j.machine.DropBody(job)
		}
	}
}
