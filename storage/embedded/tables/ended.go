package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage/embedded/ended"
	"redstalk/tube"
)

var errEnded = errors.New("not the record of an ended job")

// seqKey returns the key of a record of a tube, or of the member of a batch; with Seq 0 the beginning of all of them.
func seqKey(kind byte, name string, seq uint64) []byte {
	key := append(append([]byte{kind}, name...), 0)
	if seq == 0 {
		return key
	}
	return binary.BigEndian.AppendUint64(key, seq)
}

// EndedOf is what the tables say of the records of a tube.
type EndedOf struct {
	Records, Bytes uint64
	First, Last    uint64       // Ended.Seq of the oldest record, or of none that is newer, and of the newest one
	FirstUntil     tube.Instant // when the oldest one goes, or earlier
}

func (o *EndedOf) append(to []byte) []byte {
	for _, n := range [...]uint64{o.Records, o.Bytes, o.First, o.Last, inMS(o.FirstUntil)} {
		to = binary.AppendUvarint(to, n)
	}
	return to
}

// EndedTubes calls do with every tube that has records of ended jobs.
func (t *Tables) EndedTubes(do func(tube string, of EndedOf)) error {
	return t.each(endedTubeKey, func(key, value []byte) error {
		of, err := readEndedOf(key, value)
		if err == nil {
			do(string(key[1:]), of)
		}
		return err
	})
}

func readEndedOf(key, value []byte) (EndedOf, error) {
	b := block{rest: value}
	number := func() uint64 { return b.number(math.MaxUint64) }
	of := EndedOf{Records: number(), Bytes: number(), First: number(), Last: number(), FirstUntil: b.instant()}
	if b.bad {
		return of, fmt.Errorf("reading the number of ended jobs of tube %q: %w", key[1:], errEnded)
	}
	return of, nil
}

// Ended returns the record of a job; nil if there is none.
func (s Snapshot) Ended(id uint64) (*tube.Ended, error) { return readEnded(s.s, id) }

// HasEnded reports whether the tables have that record.
func (t *Tables) HasEnded(e *tube.Ended) (bool, error) {
	has, err := readEnded(t.db, e.ID)
	return has != nil && has.Seq == e.Seq, err
}

func readEnded(from pebble.Reader, id uint64) (*tube.Ended, error) {
	place, err := get(from, idKey(nil, endedIDKey, id), func(value []byte) ([]byte, error) { return value, nil })
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err == nil && len(place) < 9 {
		err = errEnded
	}
	if err != nil {
		return nil, fmt.Errorf("reading where the record of the ended job %d is: %w", id, err)
	}
	return readEndedAt(from, string(place[8:]), binary.BigEndian.Uint64(place))
}

// readEndedAt returns the record of a tube with that Ended.Seq; nil if there is none.
func readEndedAt(from pebble.Reader, tubeName string, seq uint64) (e *tube.Ended, err error) {
	value, closer, err := from.Get(seqKey(endedKey, tubeName, seq))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of an ended job of tube %q: %w", tubeName, err)
	}
	defer closer.Close()
	e, _, err = ended.Decode(tubeName, value)
	return e, err
}

// ListEnded calls more with the records of a tube, or of the members of a batch if that is not "", that are older than before, the
// newest first, until it returns false.
func (s Snapshot) ListEnded(tubeName, batch string, before uint64, more func(*tube.Ended) bool) error {
	kind, name := endedKey, tubeName
	if batch != "" {
		kind, name = endedBatchKey, batch
	}
	it, err := s.s.NewIter(&pebble.IterOptions{LowerBound: seqKey(kind, name, 0), UpperBound: seqKey(kind, name, before)})
	if err != nil {
		return err
	}
	for it.Last(); it.Valid() && err == nil; it.Prev() {
		var e *tube.Ended
		if batch != "" {
			e, err = readEndedAt(s.s, string(it.Value()), seqOf(it.Key()))
		} else {
			e, _, err = ended.Decode(tubeName, it.Value())
		}
		if e != nil && !more(e) {
			break
		}
	}
	return errors.Join(err, it.Close())
}

func seqOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// EndedChanges are changes of the records of ended jobs: new ones, and those that are dropped.
type EndedChanges struct {
	tables *Tables
	now    tube.Instant
	yield  func()

	Tubes   map[string]EndedOf // of the tubes that change, as they are after it; without records: there are none any more
	total   int64              // bytes that are added, minus those that are dropped
	dropped int
	added   map[string][]addedEnd // by tube, the oldest first
	pairs   []pair
}

// addedEnd is a new record.
type addedEnd struct {
	ended.Head
	encoded []byte
}

// pair is a key and its value; nil if it is deleted.
type pair struct{ key, value []byte }

// NewEndedChanges begins changes of the tables at an instant, a wall time. of are the tubes that have records; added are new records.
func (t *Tables) NewEndedChanges(now tube.Instant, of map[string]EndedOf, added []ended.Run, yield func()) *EndedChanges {
	c := &EndedChanges{tables: t, now: now, yield: yield, Tubes: make(map[string]EndedOf), added: make(map[string][]addedEnd)}
	for _, run := range added {
		o, has := c.Tubes[run.Tube]
		if !has {
			o = of[run.Tube]
		}
		all := c.added[run.Tube]
		run.Records(func(h ended.Head, encoded []byte) {
			if o.Records == 0 {
				o.First, o.FirstUntil = h.Seq, h.Until
			}
			o.Records++
			o.Bytes += h.Bytes
			o.Last = max(o.Last, h.Seq)
			c.total += int64(h.Bytes)
			all = append(all, addedEnd{h, encoded})
		})
		c.Tubes[run.Tube], c.added[run.Tube] = o, all
	}
	return c
}

// Growth returns by how many bytes the records grow.
func (c *EndedChanges) Growth() int64 { return c.total }

// Dropped returns how many records are dropped.
func (c *EndedChanges) Dropped() int { return c.dropped }

// of returns what the tables say of a tube after these changes.
func (c *EndedChanges) of(name string, stored map[string]EndedOf) EndedOf {
	if o, changed := c.Tubes[name]; changed {
		return o
	}
	return stored[name]
}

// EndedBound is the bound of the records of a tube: their bytes, and the Ended.Seq of the newest one that must go in any case.
type EndedBound struct{ Bytes, Floor uint64 }

// Trim drops the oldest records of a tube while they are beyond the bound, or their time is over; at most limit of them. stored
// are the tubes that have records.
func (c *EndedChanges) Trim(name string, stored map[string]EndedOf, b EndedBound, limit int) error {
	of := c.of(name, stored)
	stays := func() bool { return of.Bytes <= b.Bytes && of.First > b.Floor && of.FirstUntil > c.now }
	if of.Records == 0 || stays() {
		return nil
	}
	it, err := c.tables.db.NewIter(&pebble.IterOptions{LowerBound: seqKey(endedKey, name, 0), UpperBound: seqKey(endedKey, name, math.MaxUint64)})
	if err != nil {
		return fmt.Errorf("reading the oldest records of ended jobs: %w", err)
	}
	defer it.Close()
	it.SeekGE(seqKey(endedKey, name, of.First))
	for ; ; limit-- {
		var oldest ended.Head
		fresh := c.added[name]
		switch {
		case it.Valid():
			if oldest, err = ended.ReadHead(it.Value()); err != nil {
				return err
			}
		case len(fresh) > 0:
			oldest = fresh[0].Head
		default:
			c.Tubes[name] = EndedOf{}
			return it.Error()
		}
		of.First, of.FirstUntil = oldest.Seq, oldest.Until
		if c.Tubes[name] = of; limit <= 0 || stays() {
			return nil
		}
		if it.Valid() {
			c.drop(name, &oldest)
			it.Next()
		} else {
			c.added[name] = fresh[1:]
		}
		of.Records -= min(1, of.Records)
		of.Bytes -= min(oldest.Bytes, of.Bytes)
		c.total -= int64(oldest.Bytes)
		c.dropped++
		c.yield()
	}
}

// endedPlaces returns the other keys of a record, with their values.
func endedPlaces(name string, h *ended.Head) []pair {
	place := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(name)), h.Seq), name...)
	places := []pair{{idKey(nil, endedIDKey, h.ID), place}}
	if h.Batch != "" {
		places = append(places, pair{seqKey(endedBatchKey, h.Batch, h.Seq), []byte(name)})
	}
	return places
}

// drop drops the keys of a record.
func (c *EndedChanges) drop(name string, h *ended.Head) {
	c.pairs = append(c.pairs, pair{seqKey(endedKey, name, h.Seq), nil})
	for _, p := range endedPlaces(name, h) {
		c.pairs = append(c.pairs, pair{p.key, nil})
	}
}

// add adds the keys of a new record.
func (c *EndedChanges) add(name string, e *addedEnd) {
	c.pairs = append(append(c.pairs, pair{seqKey(endedKey, name, e.Seq), e.encoded}), endedPlaces(name, &e.Head)...)
}

// trimPart is how many bytes of a tube TrimAll drops before it looks for the oldest tube again.
const trimPart = 64 << 10

// TrimAll drops the oldest records of all tubes until excess bytes fewer are left; at most some limit. They are the oldest to within
// trimPart of each tube. stored are the tubes that have records.
func (c *EndedChanges) TrimAll(stored map[string]EndedOf, excess int64, limit int) (err error) {
	var oldest []ended.Oldest
	for name, o := range stored {
		if o = c.of(name, stored); o.Records > 0 {
			oldest = append(oldest, ended.Oldest{Tube: name, Seq: o.First})
		}
	}
	for name, o := range c.Tubes {
		if _, has := stored[name]; !has && o.Records > 0 {
			oldest = append(oldest, ended.Oldest{Tube: name, Seq: o.First})
		}
	}
	target, last := c.total-excess, c.dropped+limit
	ended.DropOldest(oldest, func(name string) (next uint64, more, enough bool) {
		o := c.of(name, stored)
		part := min(uint64(max(c.total-target, 1)), trimPart, o.Bytes)
		err = c.Trim(name, stored, EndedBound{Bytes: o.Bytes - part}, last-c.dropped)
		o = c.of(name, stored)
		return o.First, o.Records > 0, c.total <= target || c.dropped >= last || err != nil
	})
	return err
}

// finish returns all keys that change, in their order.
func (c *EndedChanges) finish() []pair {
	for name, all := range c.added {
		for i := range all {
			c.add(name, &all[i])
		}
	}
	for name, o := range c.Tubes {
		key := append([]byte{endedTubeKey}, name...)
		if o.Records == 0 {
			c.pairs = append(c.pairs, pair{key, nil})
		} else {
			c.pairs = append(c.pairs, pair{key, o.append(nil)})
		}
	}
	n := 0
	slices.SortFunc(c.pairs, func(a, b pair) int {
		if n++; n%comparesPerYield == 0 {
			c.yield()
		}
		return bytes.Compare(a.key, b.key)
	})
	return c.pairs
}

// SetEnded writes changes of the records of ended jobs. Their keys have a file of their own.
func (in *Ingest) SetEnded(c *EndedChanges) error {
	for _, p := range c.finish() {
		var err error
		if p.value == nil {
			err = in.delete(endedJobs, p.key)
		} else {
			err = in.set(endedJobs, p.key, p.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DropEnded makes changes that only drop records. They are ingested as well: what Pebble has in memory is lost in a crash, since it has
// no log of its own, and so is an ingest that it could still keep there because its keys overlap with that.
func (t *Tables) DropEnded(c *EndedChanges) error {
	in := t.newIngest(dropName, c.yield)
	defer in.Remove()
	if err := in.SetEnded(c); err != nil {
		return fmt.Errorf("dropping records of ended jobs: %w", err)
	}
	return in.Commit()
}
