package tables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// The keys of the tables. Numbers in keys are big-endian, so that jobs are
// found in the order of their ids.
//
//	v          layout version, one byte
//	s          8 bytes: the first segment of the log that is not in the tables
//	n          8 bytes: the largest id that was given out before that segment
//	j ID       record of a job as it was first written, see AppendRecord, followed by
//	           its body if that is inline
//	J ID       the same of a cold job, as it was last written
//	x STATE TUBE 00 RANK ID  the index of cold jobs: RANK (when they are due, or the priority of ready ones) and ID in 8 bytes each; the value is empty
//	y STATE TUBE  how many cold jobs of that state a tube has, how many bytes their bodies, and how many are ready and urgent; 8 bytes each
//	b ID       its body if that is not inline
//	c ID       record of a job as it was last written; missing if it was written once
//	e TUBE 00 SEQ  the record of an ended job, see ended.Append
//	f BATCH 00 SEQ  the tube of that record, of a member of a batch
//	g TUBE     how many records of ended jobs a tube has, see EndedOf
//	i ID       SEQ and the tube of the record of that job
//	m SOURCE   how far an import is, see AppendImportMark
//	p TUBE     pause: seconds (4 bytes), until (8 bytes, ns since the epoch)
//	k TUBE 00 KEY  the tombstone of a key, see AppendTombstone
//	r TUBE     policy, see AppendPolicy
//	l TUBE 00 GROUP  what is set for a group of a tube, see AppendGroup
//	o NAME     the record of a schedule, see AppendSchedule
//	q NAME     the record of a batch, see AppendBatch
//	H PERIOD NUMBER TUBE  what happened in a tube in a period, see AppendTally: a tube.Period, one byte; its number, 8 bytes;
//	           without a name all tubes together
//
// Pebble takes over the files of an Ingest only if their ranges of keys do not overlap: between two
// keys of the file others there can be none of another file.
const (
	layoutKey    byte = 'v'
	segmentKey   byte = 's'
	lastIDKey    byte = 'n'
	jobKey       byte = 'j'
	bodyKey      byte = 'b'
	changeKey    byte = 'c'
	pauseKey     byte = 'p'
	tombstoneKey byte = 'k'
	policyKey    byte = 'r'
	groupKey     byte = 'l'
	scheduleKey  byte = 'o'
	batchKey     byte = 'q'
	importKey    byte = 'm'
	tallyKey     byte = 'H'

	checkpointKey byte = 'C'

	coldKey      byte = 'J'
	indexKey     byte = 'x'
	coldCountKey byte = 'y'

	endedKey      byte = 'e'
	endedBatchKey byte = 'f'
	endedTubeKey  byte = 'g'
	endedIDKey    byte = 'i'

	// LayoutVersion is the layout of the tables. Those of an older one are upgraded, see Upgrade;
	// others are refused. Layout 1, of 0.1.0, has no notes in its metadata; layout 2, of 0.2.0, no records of ended jobs.
	LayoutVersion = 3
	oldestLayout  = 1
)

// MaxInline is the size in bytes up to which a body is stored behind its record. All of
// these bodies are read when the engine is opened.
const MaxInline = 512

// Inline reports whether a body of that size is stored behind its record.
func Inline(size uint32) bool { return size <= MaxInline }

// idKey appends the key of a job's record or body.
func idKey(to []byte, kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(to, kind), id)
}

// Tables is a Pebble database without a log of its own.
type Tables struct {
	fs       vfs.FS
	parent   string // the engine's directory, which also has the ingest files
	db       *pebble.DB
	cache    *pebble.Cache
	dir      *wal.Directory
	migrated atomic.Uint64                // see Migrated
	cold     map[tube.ColdQueue]ColdCount // as they are written; owned by whoever commits an Ingest with cold jobs
	damaged  func(error)                  // for Check: is called with what is wrong with a row, instead of ending at it
}

// Directory returns the directory of the tables.
func (t *Tables) Directory() *wal.Directory { return t.dir }

// Migrated returns how many records were written to the tables since they were opened.
func (t *Tables) Migrated() uint64 { return t.migrated.Load() }

// LastID returns the largest id that was given out before FirstSegment; 0 if none was.
func (t *Tables) LastID() (uint64, error) { return t.number(lastIDKey) }

// number returns the value of a key with 8 bytes; 0 if the key is not there.
func (t *Tables) number(kind byte) (uint64, error) {
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

// FirstSegment returns the first segment of the log that is not in the tables. It refuses
// tables of an unknown layout. 0 means that the tables are new: call WriteLayout once there is
// a log. From then on the log must exist.
func (t *Tables) FirstSegment() (first uint64, err error) {
	value, closer, err := t.db.Get([]byte{layoutKey})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the layout: %w", err)
	}
	defer closer.Close()
	if len(value) != 1 {
		return 0, fmt.Errorf("layout %x %w", value, ErrLayout)
	}
	if err := CheckLayout(int(value[0])); err != nil {
		return 0, err
	}
	if first, err = t.number(segmentKey); err == nil && first == 0 {
		err = errors.New("the key s is missing")
	}
	return first, err
}

// ErrLayout is in the chain of an error if tables have a layout that is not supported.
var ErrLayout = errors.New("is not supported")

// CheckLayout returns an error if tables of a layout are not supported.
func CheckLayout(layout int) error {
	if layout < oldestLayout || layout > LayoutVersion {
		return fmt.Errorf("layout %d %w; this redstalk supports layouts from %d to %d", layout, ErrLayout, oldestLayout, LayoutVersion)
	}
	return nil
}

// WriteLayout writes the layout version into new tables.
func (t *Tables) WriteLayout() error {
	b := t.db.NewBatch()
	defer b.Close()
	b.Set([]byte{segmentKey}, binary.BigEndian.AppendUint64(nil, 1), nil)
	return t.commitLayout(b)
}

// Layout returns the layout of tables that have one.
func (t *Tables) Layout() (int, error) {
	value, closer, err := t.db.Get([]byte{layoutKey})
	if err != nil {
		return 0, fmt.Errorf("reading the layout: %w", err)
	}
	defer closer.Close() // the value is valid until then
	return int(value[0]), nil
}

// Upgrade gives tables of an older layout the present one, of which that is a part. It must be
// called before anything else is written to them or to the log, so that no older program finds
// what it cannot read.
func (t *Tables) Upgrade() error {
	if is, err := t.Layout(); err != nil || is == LayoutVersion {
		return err
	}
	b := t.db.NewBatch()
	defer b.Close()
	return t.commitLayout(b)
}

// commitLayout adds the layout to b, and commits it.
func (t *Tables) commitLayout(b *pebble.Batch) error {
	b.Set([]byte{layoutKey}, []byte{LayoutVersion}, nil)
	if err := errors.Join(b.Commit(pebble.NoSync), t.db.Flush()); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	return nil
}

// Compact makes Pebble free the space of deleted jobs.
func (t *Tables) Compact() error {
	return errors.Join(t.db.Compact(context.Background(), []byte{coldKey}, []byte{jobKey + 1}, false),
		t.db.Compact(context.Background(), []byte{indexKey}, []byte{indexKey + 1}, false))
}

// Checkpoint writes the tables as they are now to a directory that must not exist. It links the
// files that never change, if it is on the same file system.
func (t *Tables) Checkpoint(dir string) error {
	if err := t.db.Checkpoint(dir); err != nil {
		return fmt.Errorf("writing a checkpoint of the tables: %w", err)
	}
	return nil
}

// EmptyCache drops the blocks of files that Pebble has cached, so that their memory can be
// given back to the operating system.
func (t *Tables) EmptyCache() { t.cache.Reserve(cacheSize)() }

// LimitCache keeps the cache small until release is called: a start reads each block once.
func (t *Tables) LimitCache() (release func()) { return t.cache.Reserve(cacheSize - cacheSize/16) }

// CacheBytes returns how many bytes of its files Pebble has cached.
func (t *Tables) CacheBytes() int64 { return t.cache.Metrics().Size }

// Close closes the tables.
func (t *Tables) Close() error {
	defer t.cache.Unref()
	return errors.Join(t.db.Close(), t.dir.Close())
}
