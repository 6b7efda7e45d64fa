package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
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
//	k TUBE 00 KEY  a key that stays taken, see encodeKeptKey
//	r TUBE     policy, see appendPolicy
const (
	layoutKey  byte = 'v'
	segmentKey byte = 's'
	lastIDKey  byte = 'n'
	jobKey     byte = 'j'
	bodyKey    byte = 'b'
	changeKey  byte = 'c'
	pauseKey   byte = 'p'
	keptKeyKey byte = 'k'
	policyKey  byte = 'r'
	importKey  byte = 'm' // between those of others, which are in one ingest file

	// layoutVersion is the layout of the tables. Tables with another one are refused.
	layoutVersion = 1
)

// maxInline is the size in bytes up to which a body is behind its record. All of these
// are read when the engine is opened.
const maxInline = 512

func inline(size uint32) bool { return size <= maxInline }

// idKey appends the key of a job's record or body.
func idKey(to []byte, kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(to, kind), id)
}

// tables is where jobs are once the log that tells about them is used again: in Pebble,
// without a log of its own.
type tables struct {
	fs       vfs.FS
	db       *pebble.DB
	cache    *pebble.Cache
	dir      *directory
	migrated atomic.Uint64 // records that came here since the start

	key, value []byte // scratch of the checkpointer
}

// number returns the value of a key with 8 bytes; 0 if the key is not there.
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

// checkLayout refuses tables of another layout. It returns the first segment of the log
// that is not in the tables. 0 means that the tables are new: call writeLayout once there
// is a log. From then on the log must be there.
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
		return 0, fmt.Errorf("its layout is %x, and this redstalk knows layout %d", value, layoutVersion)
	}
	if first, err = t.number(segmentKey); err == nil && first == 0 {
		err = errors.New("the key s is missing")
	}
	return first, err
}

// writeLayout marks new tables with their layout.
func (t *tables) writeLayout() error {
	b := t.db.NewBatch()
	defer b.Close()
	b.Set([]byte{layoutKey}, []byte{layoutVersion}, nil)
	t.setNumber(b, segmentKey, 1)
	if err := errors.Join(b.Commit(pebble.NoSync), t.db.Flush()); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
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

// iterator returns an iterator over the entries whose key begins with kind.
func (t *tables) iterator(kind byte) (*pebble.Iterator, error) {
	return t.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
}

func (t *tables) close() error {
	defer t.cache.Unref()
	return errors.Join(t.db.Close(), t.dir.file.Close())
}

// emptyCache forgets what was read of the tables, so that its memory can be given back.
func (t *tables) emptyCache() { t.cache.Reserve(cacheSize)() }
