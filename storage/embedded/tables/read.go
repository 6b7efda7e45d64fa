package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// Jobs calls do with every job, in the order of ids: with its record as it was last
// written, and its body if that is inline. The body is valid until do returns. name makes a
// string of the name of a tube.
func (t *Tables) Jobs(name func([]byte) string, do func(r tube.Record, body []byte) error) error {
	changes, err := t.iterator(changeKey)
	if err != nil {
		return err
	}
	changes.First()
	err = t.each(jobKey, func(key, value []byte) error {
		r, body, err := decodeJob(key, value, changes, name)
		if err != nil {
			return err
		}
		return do(r, body)
	})
	if closeErr := changes.Close(); err == nil {
		err = closeErr
	}
	return err
}

// errNoJob says that there is a change of a job, but no job.
var errNoJob = errors.New("there is no such job")

// decodeJob returns the job of a key. Its record is the one that changes has for it; if
// there is none, the one in value. changes is an iterator over the change keys. It moves
// forward only, because both kinds of keys are in the order of ids.
func decodeJob(key, value []byte, changes *pebble.Iterator, name func([]byte) string) (r tube.Record, body []byte, err error) {
	if len(key) != 9 {
		return r, nil, fmt.Errorf("reading the key %x: it is not the key of a job", key)
	}
	id := binary.BigEndian.Uint64(key[1:])
	if r, body, err = DecodeRecord(id, value, name); err != nil || !changes.Valid() {
		return r, body, err
	}
	switch c := bytes.Compare(changes.Key()[1:], key[1:]); {
	case c < 0:
		return r, nil, fmt.Errorf("reading the change %x: %w", changes.Key(), errNoJob)
	case c == 0:
		if r, _, err = DecodeRecord(id, changes.Value(), name); err != nil {
			return r, nil, err
		}
		changes.Next()
	}
	return r, body, nil
}

// Pauses calls do with every pause.
func (t *Tables) Pauses(do func(tube string, p Pause)) error {
	return t.each(pauseKey, func(key, value []byte) error {
		if len(value) != PauseSize {
			return fmt.Errorf("reading the pause of tube %q: it has %d bytes", key[1:], len(value))
		}
		do(string(key[1:]), DecodePause(value))
		return nil
	})
}

// Policies calls do with every policy for whose tube wanted returns true. name makes a string
// of the name of a tube.
func (t *Tables) Policies(name func([]byte) string, wanted func(tube string) bool, do func(tube string, p *tube.Policy)) error {
	return t.each(policyKey, func(key, value []byte) error {
		of := name(key[1:])
		if !wanted(of) {
			return nil
		}
		p, rest, err := DecodePolicy(of, value, name)
		if err != nil || len(rest) > 0 {
			return fmt.Errorf("reading the policy of tube %q: %w", of, errPolicy)
		}
		do(of, p)
		return nil
	})
}

// Tombstones calls do with every tombstone.
func (t *Tables) Tombstones(do func(key TubeKey, tomb Tombstone)) error {
	return t.each(tombstoneKey, func(key, value []byte) error {
		of, name, ok := strings.Cut(string(key[1:]), "\x00")
		if !ok || len(value) != TombstoneSize {
			return fmt.Errorf("reading the tombstone %q: it has %d bytes", key[1:], len(value))
		}
		do(TubeKey{of, name}, DecodeTombstone(value))
		return nil
	})
}

// Groups calls do with what is set for every group.
func (t *Tables) Groups(do func(group TubeKey, r tube.GroupRecord)) error {
	return t.each(groupKey, func(key, value []byte) error {
		of, group, ok := strings.Cut(string(key[1:]), "\x00")
		r, rest, err := DecodeGroup(value)
		if !ok || err != nil || len(rest) > 0 {
			return fmt.Errorf("reading what is set for the group %q: %w", key[1:], errPolicy)
		}
		do(TubeKey{of, group}, r)
		return nil
	})
}

// Named calls do with every named record of a kind, in the order of their names.
func (t *Tables) Named(kind tube.RecordKind, do func(r tube.NamedRecord)) error {
	return t.each(namedForms[kind].key, func(key, value []byte) error {
		r, rest, err := DecodeNamed(kind, string(key[1:]), value)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("reading the record %q: there are %d bytes behind it", key[1:], len(rest))
		}
		if err == nil {
			do(r)
		}
		return err
	})
}

// Imports calls do with every import.
func (t *Tables) Imports(do func(source string, m ImportMark)) error {
	return t.each(importKey, func(key, value []byte) error {
		if len(value) != ImportMarkSize {
			return fmt.Errorf("reading the import %q: it has %d bytes", key[1:], len(value))
		}
		do(string(key[1:]), DecodeImportMark(value))
		return nil
	})
}

// each calls do with every entry whose key begins with kind.
func (t *Tables) each(kind byte, do func(key, value []byte) error) error {
	return eachIn(t.db, kind, func(key, value []byte) error {
		err := do(key, value)
		if err != nil && t.damaged != nil {
			t.damaged(err)
			return nil
		}
		return err
	})
}

func eachIn(from pebble.Reader, kind byte, do func(key, value []byte) error) error {
	it, err := iteratorIn(from, kind)
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
func (t *Tables) iterator(kind byte) (*pebble.Iterator, error) { return iteratorIn(t.db, kind) }

func iteratorIn(from pebble.Reader, kind byte) (*pebble.Iterator, error) {
	return from.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
}

// Snapshot is the tables as they were at one time.
type Snapshot struct{ s *pebble.Snapshot }

// Snapshot returns the tables as they are now. It needs Pebble's own lock.
func (t *Tables) Snapshot() Snapshot { return Snapshot{t.db.NewSnapshot()} }

// Body reads the body of a job that has one.
func (s Snapshot) Body(id uint64) ([]byte, error) { return readBody(s.s, id) }

// Close releases the snapshot.
func (s Snapshot) Close() { s.s.Close() }

// Body reads the body of a job that has one.
func (t *Tables) Body(id uint64) ([]byte, error) { return readBody(t.db, id) }

// readBody tries twice: Pebble returns the error of a file that could not be opened to one more
// reader, even if the file can be opened by then.
func readBody(from pebble.Reader, id uint64) ([]byte, error) {
	body, err := tryBody(from, id)
	if err != nil && (!IsDamage(err) || errors.Is(err, pebble.ErrNotFound)) { // a job can become cold, or cease to be, between two reads
		body, err = tryBody(from, id)
	}
	return body, err
}

func tryBody(from pebble.Reader, id uint64) ([]byte, error) {
	body, err := readInline(from, id)
	if err == nil && len(body) == 0 {
		body, err = get(from, idKey(nil, bodyKey, id), func(value []byte) ([]byte, error) { return value, nil })
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body of job %d: %w", id, err)
	}
	return body, nil
}

// readInline reads the body behind a job's record; it is empty if there is none.
func readInline(from pebble.Reader, id uint64) ([]byte, error) {
	ofRecord := func(value []byte) ([]byte, error) {
		_, body, err := DecodeRecord(id, value, func([]byte) string { return "" })
		return body, err
	}
	body, err := get(from, idKey(nil, jobKey, id), ofRecord)
	if errors.Is(err, pebble.ErrNotFound) {
		return get(from, idKey(nil, coldKey, id), ofRecord)
	}
	return body, err
}

// get returns a copy of a part of the value of key.
func get(from pebble.Reader, key []byte, part func([]byte) ([]byte, error)) ([]byte, error) {
	value, closer, err := from.Get(key)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	p, err := part(value)
	return bytes.Clone(p), err
}

// IsDamage reports whether an error says that data is damaged or missing for good: a checksum is
// wrong, or a file is missing or ends too early. All other errors may pass.
func IsDamage(err error) bool {
	if errors.Is(err, wal.ErrGone) {
		return false // the files are elsewhere
	}
	for _, damage := range []error{pebble.ErrNotFound, errRecord, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, damage) {
			return true
		}
	}
	return pebble.IsCorruptionError(err) // errors.Is does not see Pebble's marks
}
