package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/tube"
)

// loader brings back jobs, and what is beside them (loadtubes.go), from the tables and from
// what the log says beyond them.
type loader struct {
	*tables
	machine    *tube.Machine
	imports    map[string]importMark // gets how far imports are
	now        tube.Instant
	log        *slog.Logger
	fromLog    *history
	window     *window // gets what the tables lack
	keep       int64   // bodies, in bytes, that stay in memory although they are on disk
	pausesOver []string

	begun  time.Time
	saidAt time.Time // when the operator was last told
	jobs   int
}

// progressEvery is how often the operator is told that jobs are still being read.
const progressEvery = time.Second

// load brings back everything. Policies come before jobs, because they say what becomes of a
// job that was reserved.
func (l *loader) load() error {
	l.begun, l.saidAt = time.Now(), time.Now()
	if err := errors.Join(l.loadPolicies(), l.loadKeys(), l.loadImports()); err != nil {
		return err
	}
	if err := l.loadTables(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(l.fromLog.jobs)) {
		if err := l.loadLogged(id, l.fromLog.jobs[id]); err != nil {
			return err
		}
	}
	if err := l.loadPauses(); err != nil {
		return err
	}
	l.machine.SkipTo(l.fromLog.lastID)
	l.log.Info("the jobs are read", "jobs", l.jobs, "took", time.Since(l.begun))
	return nil
}

// loadTables brings back the jobs that are in the tables, and takes them out of
// fromLog.
func (l *loader) loadTables() error {
	changes, err := l.iterator(changeKey)
	if err != nil {
		return err
	}
	changes.First()
	err = l.each(jobKey, func(key, value []byte) error { return l.loadStored(key, value, changes) })
	if closeErr := changes.Close(); err == nil {
		err = closeErr
	}
	return err
}

var errNoJob = errors.New("there is no such job")

// loadStored brings back the job of a key in the tables. Its record is the one in the
// log, if there is one; else the one that changes has for it; else the one in the
// tables. changes is an iterator over the change keys, which is moved forward: both keys
// are in the order of ids.
func (l *loader) loadStored(key, value []byte, changes *pebble.Iterator) error {
	if len(key) != 9 {
		return fmt.Errorf("reading the key %x: it is none of a job", key)
	}
	id := binary.BigEndian.Uint64(key[1:])
	r, body, err := decodeRecord(id, value, l.fromLog.names.name)
	if err != nil {
		return err
	}
	if err := l.applyChange(&r, key, changes); err != nil {
		return err
	}
	if im := l.fromLog.jobs[id]; im != nil {
		delete(l.fromLog.jobs, id)
		if im.gone {
			l.window.jobs[id] = isGoneLarge
			return nil
		}
		l.window.jobs[id] = isChanged
		r = im.record
	}
	return l.restore(r, l.keepable(r, body))
}

// applyChange replaces the record of the job of a key by the one that changes has for
// it, if there is one.
func (l *loader) applyChange(r *tube.Record, key []byte, changes *pebble.Iterator) (err error) {
	if !changes.Valid() {
		return nil
	}
	switch c := bytes.Compare(changes.Key()[1:], key[1:]); {
	case c < 0:
		return fmt.Errorf("reading the change %x: %w", changes.Key(), errNoJob)
	case c == 0:
		if *r, _, err = decodeRecord(r.ID, changes.Value(), l.fromLog.names.name); err != nil {
			return err
		}
		changes.Next()
	}
	return nil
}

// keepable returns a copy of a body that is in its record, if the body stays in memory:
// it is likely to be wanted soon, and there is room. Else it returns nil.
func (l *loader) keepable(r tube.Record, body []byte) []byte {
	if len(body) == 0 || r.State != tube.Ready || l.machine.BodyBytes()+int64(len(body)) > l.keep {
		return nil
	}
	return bytes.Clone(body)
}

// loadLogged brings back a job that is in the log only.
func (l *loader) loadLogged(id uint64, im *image) error {
	switch {
	case im.gone:
		return nil
	case !im.put:
		return fmt.Errorf("reading the log's record of job %d: %w", id, errNoJob)
	}
	l.window.jobs[id] = isNew
	return l.restore(im.record, im.body)
}

// restore gives a job to the machine.
func (l *loader) restore(r tube.Record, body []byte) error {
	if l.jobs++; l.jobs%10_000 == 0 && time.Since(l.saidAt) >= progressEvery {
		l.saidAt = time.Now()
		l.log.Warn("reading the jobs; clients wait until that is done", "so far", l.jobs)
	}
	return l.machine.Restore(l.now, r, body)
}
