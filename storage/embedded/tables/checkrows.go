package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage/embedded/ended"
	"redstalk/tube"
)

// Some rows follow from the records of others: those of the index from cold jobs, and the places of ended jobs from their records. To
// compare them without a look-up of each, and without memory of each, what should be there is added up, and what is there is taken
// away. Both are sums of hashes in many buckets. Only the rows in buckets that are not empty then are looked up.

// rowBuckets is how many buckets there are.
const rowBuckets = 1 << 16

type rowSums struct {
	hash    maphash.Hash
	buckets []uint64
}

func newRowSums() *rowSums { return &rowSums{buckets: make([]uint64, rowBuckets)} }

// bucket returns the bucket of a row, and its hash.
func (s *rowSums) bucket(key, value []byte) (sum *uint64, hash uint64) {
	s.hash.Reset()
	s.hash.Write(key)
	s.hash.Write(value)
	hash = s.hash.Sum64()
	return &s.buckets[hash%rowBuckets], hash
}

func (s *rowSums) add(key, value []byte) {
	sum, hash := s.bucket(key, value)
	*sum += hash
}

func (s *rowSums) take(key, value []byte) {
	sum, hash := s.bucket(key, value)
	*sum -= hash
}

// agree reports whether exactly those rows were taken away that were added.
func (s *rowSums) agree() bool {
	for _, sum := range s.buckets {
		if sum != 0 {
			return false
		}
	}
	return true
}

// differ reports whether a row is in a bucket where rows differ.
func (s *rowSums) differ(key, value []byte) bool {
	sum, _ := s.bucket(key, value)
	return *sum != 0
}

// derivation says which rows follow from records.
type derivation struct {
	records byte                                    // their kind
	rows    []byte                                  // kinds
	of      func(key, value []byte) ([]pair, error) // the rows of a record; an error: it is damaged
	origin  func(key, value []byte) []byte          // the key of the record of a row; nil: it cannot have one
	name    func(key []byte) string                 // says what a row is
	counts  byte                                    // kind of the counts that are not known if a record is damaged
	counted func(key, value []byte) []byte          // under which key of these a row that has an origin is counted
}

// checkIndex compares the cold jobs with their index.
func (c *checker) checkIndex() error {
	return c.compareRows(c.coldPlaces, &derivation{
		records: coldKey, rows: []byte{indexKey}, counts: coldCountKey,
		of: func(key, value []byte) ([]pair, error) {
			if len(key) != 9 {
				return nil, errRecord
			}
			r, _, err := DecodeRecord(binary.BigEndian.Uint64(key[1:]), value, c.name)
			if err == nil && !mayBeCold(&r) {
				err = errRecord
			}
			return []pair{{PlaceOf(&r).key(), nil}}, err
		},
		origin: func(key, _ []byte) []byte {
			if len(key) < len(indexPrefix(tube.ColdQueue{}))+16 {
				return nil
			}
			return idKey(nil, coldKey, binary.BigEndian.Uint64(key[len(key)-8:]))
		},
		name: func(key []byte) string {
			if n := len(key) - 17; n >= 2 {
				return fmt.Sprintf("the entry of job %d in the index of tube %q", binary.BigEndian.Uint64(key[n+9:]), key[2:n])
			}
			return fmt.Sprintf("the entry %x of the index", key)
		},
		counted: func(key, _ []byte) []byte { return key[1 : len(key)-17] },
	})
}

// checkEnded checks the records of ended jobs, and compares them with their places.
func (c *checker) checkEnded() error {
	err := c.each(endedKey, "records of ended jobs", func(key, value []byte) {
		name, h, err := readEndedRow(key, value)
		if err != nil {
			c.found("", "%v", err)
			return
		}
		for _, p := range endedPlaces(name, &h) {
			c.endedPlaces.add(p.key, p.value)
		}
		of := c.endedCounts[name]
		if of.Records == 0 {
			of.First, of.FirstUntil = h.Seq, h.Until
		}
		of.Records, of.Bytes, of.Last = of.Records+1, of.Bytes+h.Bytes, h.Seq
		c.endedCounts[name] = of
	})
	if err != nil {
		return err
	}
	return c.compareRows(c.endedPlaces, &derivation{
		records: endedKey, rows: []byte{endedIDKey, endedBatchKey}, counts: endedTubeKey,
		of: func(key, value []byte) ([]pair, error) {
			name, h, err := readEndedRow(key, value)
			return endedPlaces(name, &h), err
		},
		origin: func(key, value []byte) []byte {
			switch {
			case key[0] == endedIDKey && len(key) == 9 && len(value) > 8:
				return seqKey(endedKey, string(value[8:]), binary.BigEndian.Uint64(value))
			case key[0] == endedBatchKey && len(key) > 9:
				return seqKey(endedKey, string(value), seqOf(key))
			}
			return nil
		},
		name: func(key []byte) string { return fmt.Sprintf("the place %x of the record of an ended job", key) },
		counted: func(key, value []byte) []byte {
			if key[0] == endedIDKey {
				return value[8:]
			}
			return value
		},
	})
}

// readEndedRow reads the record of an ended job, and of which tube it is.
func readEndedRow(key, value []byte) (name string, h ended.Head, err error) {
	end := len(key) - 9
	if end < 1 || key[end] != 0 {
		return "", h, fmt.Errorf("reading the record %x: %w", key, errEnded)
	}
	name = string(key[1:end])
	if _, _, err = ended.Decode(name, value); err == nil {
		h, err = ended.ReadHead(value)
	}
	if err == nil && h.Seq != seqOf(key) {
		err = fmt.Errorf("reading the record of the ended job %d of tube %q: it is that of another place: %w", h.ID, name, errEnded)
	}
	return name, h, err
}

// compareRows compares the rows of which sums has what should be there, and reports those that are missing or left over.
func (c *checker) compareRows(sums *rowSums, d *derivation) error {
	for _, kind := range d.rows {
		if err := c.each(kind, "index entries", sums.take); err != nil {
			return err
		}
	}
	if sums.agree() {
		return nil
	}
	for _, kind := range d.rows {
		err := c.each(kind, "index entries", func(key, value []byte) {
			if sums.differ(key, value) && c.isLeftOver(d, key, value) {
				c.found("it is removed", "%s belongs to no record", d.name(key))
				c.remove(key)
			}
		})
		if err = errors.Join(err, c.commit(0)); err != nil {
			return err
		}
	}
	return c.each(d.records, "records again", func(key, value []byte) {
		rows, err := d.of(key, value)
		if err != nil {
			return // that was reported
		}
		for _, row := range rows {
			if sums.differ(row.key, row.value) && !c.has(row) {
				c.found("it is written", "%s is missing", d.name(row.key))
				c.set(row.key, row.value)
			}
		}
	})
}

// isLeftOver reports whether a row follows from no record.
func (c *checker) isLeftOver(d *derivation, key, value []byte) bool {
	origin := d.origin(key, value)
	record, found := c.get(origin)
	if !found {
		return true
	}
	rows, err := d.of(origin, record)
	if err != nil {
		c.uncounted[string(d.counts)+string(d.counted(key, value))] = true
		return false
	}
	return !slices.ContainsFunc(rows, func(r pair) bool { return bytes.Equal(r.key, key) && bytes.Equal(r.value, value) })
}

// has reports whether there is such a row.
func (c *checker) has(row pair) bool {
	value, found := c.get(row.key)
	return found && bytes.Equal(value, row.value)
}

// get returns the value of a key; there is none of nil.
func (c *checker) get(key []byte) (value []byte, found bool) {
	if key == nil {
		return nil, false
	}
	value, err := get(c.from, key, func(value []byte) ([]byte, error) { return value, nil })
	if err != nil && !errors.Is(err, pebble.ErrNotFound) {
		c.failed = err
	}
	return value, err == nil
}
