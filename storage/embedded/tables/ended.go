package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage/embedded/ended"
	"redstalk/tube"
)

// The records of ended jobs. The value of one begins with endedHead bytes: its id, when it goes, in ms since the epoch, and
// Ended.Bytes in 4 bytes. So records can be dropped without reading the rest, but for the batch.
const endedHead = 8 + 8 + 4

var errEnded = errors.New("not the record of an ended job")

// AppendEnded appends the block of a record without its tube.
func AppendEnded(to []byte, e *tube.Ended) []byte {
	var room [blockRoom]byte
	b := append(room[:0], blockVersion, byte(e.How))
	schedule, nominal := "", tube.Instant(0)
	if e.Occurrence != nil {
		schedule, nominal = e.Occurrence.Schedule, e.Occurrence.Nominal
	}
	for _, n := range [...]uint64{
		e.Seq, e.ID, inMS(e.Put), inMS(e.Started), inMS(e.At), inMS(e.Until), uint64(e.Deliveries), uint64(e.Failures), e.ToID, inMS(nominal),
		uint64(len(e.Meta)),
	} {
		b = binary.AppendUvarint(b, n)
	}
	for _, m := range e.Meta {
		b = appendLong(appendLong(b, m.Name), m.Value)
	}
	for _, text := range [...]string{e.Batch, e.Key, e.Group, schedule, e.Holder, e.Reason, e.ToTube} {
		b = appendLong(b, text)
	}
	return appendBlock(to, appendLong(b, e.Result))
}

// DecodeEnded reads the block of a record of a job of a tube. It also returns the bytes behind it.
func DecodeEnded(tubeName string, from []byte) (e *tube.Ended, rest []byte, err error) {
	b, rest := cutBlock(from)
	how := b.bytes(1)
	number := func() uint64 { return b.number(math.MaxUint64) }
	e = &tube.Ended{
		Tube: tubeName, Seq: number(), ID: number(), Put: b.instant(), Started: b.instant(), At: b.instant(), Until: b.instant(),
		Deliveries: uint32(b.number(math.MaxUint32)), Failures: uint32(b.number(math.MaxUint32)), ToID: number(),
	}
	nominal := b.instant()
	for range b.number(uint64(len(b.rest))) {
		e.Meta = append(e.Meta, tube.Meta{Name: string(b.long()), Value: string(b.long())})
	}
	e.Batch, e.Key, e.Group = string(b.long()), string(b.long()), string(b.long())
	if schedule := string(b.long()); schedule != "" {
		e.Occurrence = &tube.Occurrence{Schedule: schedule, Nominal: nominal}
	}
	e.Holder, e.Reason, e.ToTube = string(b.long()), string(b.long()), string(b.long())
	if result := b.long(); len(result) > 0 {
		e.Result = bytes.Clone(result)
	}
	if b.bad || len(b.rest) > 0 {
		return nil, nil, fmt.Errorf("reading the record of an ended job of tube %q: %w", tubeName, errEnded)
	}
	e.How = tube.How(how[0])
	return e, rest, nil
}

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
		b := block{rest: value}
		number := func() uint64 { return b.number(math.MaxUint64) }
		of := EndedOf{Records: number(), Bytes: number(), First: number(), Last: number(), FirstUntil: b.instant()}
		if b.bad {
			return fmt.Errorf("reading the number of ended jobs of tube %q: %w", key[1:], errEnded)
		}
		do(string(key[1:]), of)
		return nil
	})
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
	if len(value) < endedHead {
		return nil, errEnded
	}
	e, _, err = DecodeEnded(tubeName, value[endedHead:])
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
		switch value := it.Value(); {
		case batch != "":
			e, err = readEndedAt(s.s, string(value), seqOf(it.Key()))
		case len(value) < endedHead:
			err = errEnded
		default:
			e, _, err = DecodeEnded(tubeName, value[endedHead:])
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

	Tubes map[string]EndedOf // of the tubes that change, as they are after it; without records: there are none any more
	total   int64              // bytes that are added, minus those that are dropped
	dropped int
	added map[string][]*tube.Ended
	pairs []pair
}

// pair is a key and its value; nil if it is deleted.
type pair struct{ key, value []byte }

// NewEndedChanges begins changes of the tables at an instant, a wall time. of are the tubes that have records. added are
// new records, in the order of Ended.Seq.
func (t *Tables) NewEndedChanges(now tube.Instant, of map[string]EndedOf, added []*tube.Ended, yield func()) *EndedChanges {
	c := &EndedChanges{tables: t, now: now, yield: yield, Tubes: make(map[string]EndedOf), added: make(map[string][]*tube.Ended)}
	for _, e := range added {
		o, has := c.Tubes[e.Tube]
		if !has {
			o = of[e.Tube]
		}
		if o.Records == 0 {
			o.First, o.FirstUntil = e.Seq, e.Until
		}
		o.Records++
		o.Bytes += uint64(e.Bytes())
		o.Last = max(o.Last, e.Seq)
		c.Tubes[e.Tube] = o
		c.added[e.Tube] = append(c.added[e.Tube], e)
		c.total += int64(e.Bytes())
	}
	return c
}

// Dropped returns how many records are dropped.
func (c *EndedChanges) Dropped() int { return c.dropped }

// Growth returns by how many bytes the records grow.
func (c *EndedChanges) Growth() int64 { return c.total }

// Trim drops the oldest records of a tube while they have more than most bytes, or their time is over; at most limit of them.
func (c *EndedChanges) Trim(tubeName string, of EndedOf, most uint64, limit int) error {
	if changed, has := c.Tubes[tubeName]; has {
		of = changed
	}
	if of.Records == 0 || of.Bytes <= most && of.FirstUntil > c.now {
		return nil
	}
	it, err := c.tables.db.NewIter(&pebble.IterOptions{LowerBound: seqKey(endedKey, tubeName, 0), UpperBound: seqKey(endedKey, tubeName, math.MaxUint64)})
	if err != nil {
		return fmt.Errorf("reading the oldest records of ended jobs: %w", err)
	}
	o := &oldest{changes: c, tube: tubeName, of: of, stored: it}
	for it.SeekGE(seqKey(endedKey, tubeName, of.First)); limit > 0 && err == nil; limit-- {
		var dropped bool
		if dropped, err = o.drop(most); !dropped {
			break
		}
		c.yield()
	}
	c.Tubes[tubeName] = o.of
	return errors.Join(err, it.Close())
}

// oldest drops the oldest records of a tube, those in the tables before the new ones.
type oldest struct {
	changes *EndedChanges
	tube    string
	of      EndedOf
	stored  *pebble.Iterator
}

// drop drops the oldest record, if the records have more than most bytes or its time is over. In any case it notes which one is the
// oldest then.
func (o *oldest) drop(most uint64) (dropped bool, err error) {
	c, fresh := o.changes, o.changes.added[o.tube]
	switch {
	case o.stored.Valid():
		id, until, size, err := readEndedHead(o.stored.Value())
		if o.of.First, o.of.FirstUntil = seqOf(o.stored.Key()), until; err != nil || o.of.Bytes <= most && until > c.now {
			return false, err
		}
		e, _, err := DecodeEnded(o.tube, o.stored.Value()[endedHead:])
		if err != nil {
			return false, err
		}
		c.pairs = append(c.pairs, pair{bytes.Clone(o.stored.Key()), nil}, pair{idKey(nil, endedIDKey, id), nil})
		if e.Batch != "" {
			c.pairs = append(c.pairs, pair{seqKey(endedBatchKey, e.Batch, e.Seq), nil})
		}
		o.count(size)
		o.stored.Next()
		return true, nil
	case len(fresh) > 0:
		if o.of.First, o.of.FirstUntil = fresh[0].Seq, fresh[0].Until; o.of.Bytes <= most && fresh[0].Until > c.now {
			return false, nil
		}
		c.added[o.tube] = fresh[1:]
		o.count(uint64(fresh[0].Bytes()))
		return true, nil
	}
	o.of = EndedOf{}
	return false, nil
}

// count counts a record that is dropped.
func (o *oldest) count(size uint64) {
	o.of.Records -= min(1, o.of.Records)
	o.of.Bytes -= min(size, o.of.Bytes)
	o.changes.total -= int64(size)
	o.changes.dropped++
}

func readEndedHead(value []byte) (id uint64, until tube.Instant, size uint64, err error) {
	if len(value) < endedHead {
		return 0, 0, 0, errEnded
	}
	b := block{rest: value[8:16]}
	ms := binary.BigEndian.Uint64(b.rest)
	return binary.BigEndian.Uint64(value), tube.Instant(ms) * msInstant, uint64(binary.BigEndian.Uint32(value[16:])), nil
}

const msInstant = tube.Instant(1_000_000)

// TrimAll drops the oldest records of all tubes, of which are those of of, until excess bytes fewer are left; at most some limit.
func (c *EndedChanges) TrimAll(of map[string]EndedOf, excess int64, limit int) error {
	heads := make([]ended.Head, 0, len(of))
	all := maps.Clone(of)
	maps.Copy(all, c.Tubes)
	for name, o := range all {
		if o.Records > 0 {
			heads = append(heads, ended.Head{Tube: name, Seq: o.First})
		}
	}
	target, left := c.total-excess, limit
	var err error
	ended.DropOldest(heads, func(name string) (next uint64, more, enough bool) {
		o := all[name]
		if changed, has := c.Tubes[name]; has {
			o = changed
		}
		// A part of the excess at a time, and at least one record: then it is another tube's turn, if that has older ones.
		part := min(uint64(max(c.total-target, 1)), trimPart)
		before := o.Records
		err = errors.Join(err, c.Trim(name, o, o.Bytes-min(part, o.Bytes), left))
		o = c.Tubes[name]
		left -= int(before - o.Records)
		return o.First, o.Records > 0, c.total <= target || left <= 0 || err != nil
	})
	return err
}

// trimPart is how many bytes of a tube TrimAll drops before it looks for the oldest tube again.
const trimPart = 64 << 10

// finish returns all keys that change, in their order.
func (c *EndedChanges) finish() []pair {
	for _, name := range slices.Sorted(maps.Keys(c.added)) {
		for _, e := range c.added[name] {
			c.add(e)
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

// add adds the keys of a new record.
func (c *EndedChanges) add(e *tube.Ended) {
	value := make([]byte, 0, endedHead+blockRoom+len(e.Result))
	value = binary.BigEndian.AppendUint64(value, e.ID)
	value = binary.BigEndian.AppendUint64(value, inMS(e.Until))
	value = binary.BigEndian.AppendUint32(value, uint32(e.Bytes()))
	place := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(e.Tube)), e.Seq), e.Tube...)
	c.pairs = append(c.pairs, pair{seqKey(endedKey, e.Tube, e.Seq), AppendEnded(value, e)}, pair{idKey(nil, endedIDKey, e.ID), place})
	if e.Batch != "" {
		c.pairs = append(c.pairs, pair{seqKey(endedBatchKey, e.Batch, e.Seq), []byte(e.Tube)})
	}
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
