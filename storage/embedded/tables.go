package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/tube"
)

// The keys of the tables. Numbers in keys are big-endian, so that jobs are
// found in the order of their ids.
//
//	v          layout version, one byte
//	s          8 bytes: the first segment of the log that is not in here
//	n          8 bytes: the largest id that was given out before it
//	j ID       record of a job as it first came here, see encodeRecord, and
//	           behind it its body if that is inline
//	b ID       its body if that is not
//	c ID       record of a job as it came here last; missing if only once
//	p TUBE     pause: seconds (4 bytes), until (8 bytes, ns since the epoch)
const (
	layoutKey  byte = 'v'
	segmentKey byte = 's'
	lastIDKey  byte = 'n'
	jobKey     byte = 'j'
	bodyKey    byte = 'b'
	changeKey  byte = 'c'
	pauseKey   byte = 'p'

	layoutVersion = 3
)

// maxInline is the size in bytes up to which a body stands behind its record.
// All of these are read when the engine is opened.
const maxInline = 512

func inline(size uint32) bool { return size <= maxInline }

// idKey appends the key of a job's record or body.
func idKey(to []byte, kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(to, kind), id)
}

// tables are where jobs are once the log that tells of them is to be used
// again: in Pebble, without a log of its own.
type tables struct {
	fs       vfs.FS
	db       *pebble.DB
	dir      *directory
	migrated atomic.Uint64 // records that came here since the start

	key, value []byte // scratch of the one who writes
}

// number reads a key whose value is 8 bytes; 0 if it is not there.
func (t *tables) number(kind byte) (uint64, error) {
	value, closer, err := t.db.Get([]byte{kind})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the key %c: %w", kind, err)
	}
	defer closer.Close()
	if len(value) != 8 {
		return 0, fmt.Errorf("reading the key %c: it has %d bytes", kind, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// checkLayout refuses tables of another layout. It returns the first segment of
// the log that is not in the tables; 0 if they are new, and so are to be marked
// once there is a log: from then on its segments must be there.
func (t *tables) checkLayout() (first uint64, err error) {
	value, closer, err := t.db.Get([]byte{layoutKey})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the layout: %w", err)
	}
	defer closer.Close()
	if len(value) != 1 || value[0] != layoutVersion {
		return 0, fmt.Errorf("its layout is %x, and this redstalk knows %d", value, layoutVersion)
	}
	if first, err = t.number(segmentKey); err == nil && first == 0 {
		err = errors.New("the key s is missing")
	}
	return first, err
}

func (t *tables) mark() error {
	b := t.db.NewBatch()
	defer b.Close()
	b.Set([]byte{layoutKey}, []byte{layoutVersion}, nil)
	t.setNumber(b, segmentKey, 1)
	if err := errors.Join(b.Commit(pebble.NoSync), t.db.Flush()); err != nil {
		return fmt.Errorf("marking the layout: %w", err)
	}
	return nil
}

func (t *tables) setNumber(b *pebble.Batch, kind byte, n uint64) {
	b.Set([]byte{kind}, binary.BigEndian.AppendUint64(nil, n), nil)
}

// each calls do with every entry whose key begins with kind.
func (t *tables) each(kind byte, do func(key, value []byte) error) error {
	it, err := t.iterator(kind)
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		err = do(it.Key(), it.Value())
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (t *tables) iterator(kind byte) (*pebble.Iterator, error) {
	return t.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
}

func (t *tables) close() error { return errors.Join(t.db.Close(), t.dir.file.Close()) }

// loader brings back jobs and pauses from the tables and from what the log
// says beyond them.
type loader struct {
	*tables
	machine *tube.Machine
	now     tube.Instant
	log     *slog.Logger
	later   *history
	window  *window // gets what the tables lack
	keep    int64
	over    []string // tubes whose pause is recorded but over

	begun time.Time
	told  time.Time // when the operator was last told
	jobs  int
}

// progressEvery is how often the operator is told that jobs are still being
// read.
const progressEvery = time.Second

func (l *loader) load() error {
	l.begun, l.told = time.Now(), time.Now()
	changes, err := l.iterator(changeKey)
	if err != nil {
		return err
	}
	changes.First()
	err = l.each(jobKey, func(key, value []byte) error { return l.fromTables(key, value, changes) })
	if closeErr := changes.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(l.later.jobs)) {
		if err := l.fromLog(id, l.later.jobs[id]); err != nil {
			return err
		}
	}
	if err := l.loadPauses(); err != nil {
		return err
	}
	l.machine.SkipTo(l.later.lastID)
	l.log.Info("the jobs are read", "jobs", l.jobs, "took", time.Since(l.begun))
	return nil
}

var errNoJob = errors.New("there is no such job")

// fromTables brings back the job with this key, as the log or a change has it
// if they do: both keys are in the order of ids.
func (l *loader) fromTables(key, value []byte, changes *pebble.Iterator) error {
	if len(key) != 9 {
		return fmt.Errorf("reading the key %x: it is none of a job", key)
	}
	id := binary.BigEndian.Uint64(key[1:])
	r, body, err := decodeRecord(id, value, l.later.names.name)
	if err != nil {
		return err
	}
	if changes.Valid() {
		switch c := bytes.Compare(changes.Key()[1:], key[1:]); {
		case c < 0:
			return fmt.Errorf("reading the change %x: %w", changes.Key(), errNoJob)
		case c == 0:
			if r, _, err = decodeRecord(id, changes.Value(), l.later.names.name); err != nil {
				return err
			}
			changes.Next()
		}
	}
	if im := l.later.jobs[id]; im != nil {
		delete(l.later.jobs, id)
		if im.gone {
			l.window.jobs[id] = isGoneLarge
			return nil
		}
		l.window.jobs[id] = isChanged
		r = im.record
	}
	return l.restore(r, l.keepable(r, body))
}

// keepable is a copy of an inline body if it is likely to be asked for before
// there is no room left; nil otherwise.
func (l *loader) keepable(r tube.Record, body []byte) []byte {
	if len(body) == 0 || r.State != tube.Ready || l.machine.BodyBytes()+int64(len(body)) > l.keep {
		return nil
	}
	return bytes.Clone(body)
}

// fromLog brings back a job that the tables do not have.
func (l *loader) fromLog(id uint64, im *image) error {
	switch {
	case im.gone:
		return nil
	case !im.put:
		return fmt.Errorf("reading the log's record of job %d: %w", id, errNoJob)
	}
	l.window.jobs[id] = isNew
	return l.restore(im.record, im.body)
}

func (l *loader) restore(r tube.Record, body []byte) error {
	if l.jobs++; l.jobs%10_000 == 0 && time.Since(l.told) >= progressEvery {
		l.told = time.Now()
		l.log.Warn("reading the jobs; clients wait until that is done", "so far", l.jobs)
	}
	return l.machine.Restore(l.now, r, body)
}

func (l *loader) loadPauses() error {
	err := l.each(pauseKey, func(key, value []byte) error {
		if len(value) != pauseSize {
			return fmt.Errorf("reading the pause of tube %q: it has %d bytes", key[1:], len(value))
		}
		if _, later := l.later.pauses[string(key[1:])]; !later {
			l.later.pauses[string(key[1:])] = decodePause(value)
		}
		return nil
	})
	for name, p := range l.later.pauses {
		if l.machine.RestorePause(l.now, name, p.seconds, p.until) {
			l.window.pauses[name] = p
		} else {
			l.over = append(l.over, name)
		}
	}
	return err
}
