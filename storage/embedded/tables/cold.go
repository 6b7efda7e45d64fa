package tables

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/tube"
)

// A cold job has a key of its own kind, so that a start does not read it, and an entry in the index of its tube. The index, the
// records and the counts are changed by the same ingest, so they always agree.

// Place is where a cold job is in the index.
type Place struct {
	tube.ColdQueue
	tube.ColdPlace
}

// PlaceOf returns the place of a job that is delayed or ready.
func PlaceOf(r *tube.Record) Place {
	p := Place{tube.ColdQueue{Tube: r.Tube, State: r.State}, tube.ColdPlace{Rank: r.Rank, ID: r.ID}}
	if r.State == tube.Ready {
		p.Rank = int64(r.Pri)
	}
	return p
}

// key returns the key of the place.
func (p Place) key() []byte { return p.appendKey(nil) }

func (p Place) appendKey(to []byte) []byte {
	to = binary.BigEndian.AppendUint64(appendIndexPrefix(to, p.ColdQueue), uint64(p.Rank))
	return binary.BigEndian.AppendUint64(to, p.ID)
}

// indexPrefix returns the beginning of all keys of the index of a queue.
func indexPrefix(of tube.ColdQueue) []byte { return appendIndexPrefix(nil, of) }

func appendIndexPrefix(to []byte, of tube.ColdQueue) []byte {
	return append(append(append(to, indexKey, byte(of.State)), of.Tube...), 0)
}

// ColdCount is how many cold jobs a queue has, how many bytes their bodies, and how many of them are ready and urgent.
type ColdCount struct{ Jobs, Bytes, Urgent uint64 }

// coldCountSize is the length of an encoded ColdCount in bytes.
const coldCountSize = 24

// countKey returns the key of the count of a queue.
func countKey(of tube.ColdQueue) []byte {
	return append([]byte{coldCountKey, byte(of.State)}, of.Tube...)
}

// compareQueues orders queues as their counts are.
func compareQueues(a, b tube.ColdQueue) int {
	return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Tube, b.Tube))
}

// append encodes a count.
func (c ColdCount) append(b []byte) []byte {
	for _, n := range []uint64{c.Jobs, c.Bytes, c.Urgent} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// decodeColdCount decodes a key and value of a count.
func decodeColdCount(key, value []byte) (of tube.ColdQueue, c ColdCount, err error) {
	if len(key) < 2 || len(value) != coldCountSize {
		return of, c, fmt.Errorf("reading the number of cold jobs at %q: it has %d bytes", key, len(value))
	}
	of = tube.ColdQueue{Tube: string(key[2:]), State: tube.State(key[1])}
	return of, ColdCount{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:]), binary.BigEndian.Uint64(value[16:])}, nil
}

// plus returns the sum of counts, of which one can be a difference.
func (c ColdCount) plus(by ColdCount) ColdCount {
	return ColdCount{c.Jobs + by.Jobs, c.Bytes + by.Bytes, c.Urgent + by.Urgent}
}

// Without returns the count without a job in a place, whose body has that many bytes.
func (c ColdCount) Without(p Place, size uint32) ColdCount { return c.plus(countOf(p, size).negated()) }

func (c ColdCount) negated() ColdCount { return ColdCount{-c.Jobs, -c.Bytes, -c.Urgent} }

// countOf returns how a job in a place counts.
func countOf(p Place, size uint32) ColdCount {
	c := ColdCount{Jobs: 1, Bytes: uint64(size)}
	if p.State == tube.Ready && p.Rank < tube.UrgentBelow {
		c.Urgent = 1
	}
	return c
}

// indexChanges are the changes of the index and the counts in an ingest.
type indexChanges struct {
	present map[Place]bool               // false: the place is removed
	counts  map[tube.ColdQueue]ColdCount // by how much they change, modulo 2^64
}

func (c *indexChanges) set(p Place, size uint32, present bool) {
	if c.present == nil {
		c.present, c.counts = make(map[Place]bool), make(map[tube.ColdQueue]ColdCount)
	}
	by := countOf(p, size)
	if !present {
		by = by.negated()
	}
	c.present[p] = present
	c.counts[p.ColdQueue] = c.counts[p.ColdQueue].plus(by)
}

// PutCold writes a cold job. was is where the tables have it in their index already, nil if they have it nowhere or as a job that is not cold;
// then its other keys must be removed, see RemoveJob. body is nil if the tables have it, and it is not inline. recent is as with PutJob, in whose order cold jobs come.
func (in *Ingest) PutCold(r *tube.Record, body []byte, was *Place, recent bool) error {
	in.records++
	in.key = idKey(in.key[:0], coldKey, r.ID)
	in.value = AppendRecord(in.value[:0], r)
	jobs, bodies := oldCold, oldBodies
	if recent {
		jobs, bodies = newCold, newBodies
	}
	if Inline(r.Size) {
		in.value = append(in.value, body...)
	}
	if err := in.set(jobs, in.key, in.value); err != nil {
		return err
	}
	if p := PlaceOf(r); was == nil || *was != p {
		if was != nil {
			in.index.set(*was, r.Size, false)
		}
		in.index.set(p, r.Size, true)
	}
	if Inline(r.Size) || body == nil {
		return nil
	}
	in.key[0] = bodyKey
	return in.set(bodies, in.key, body)
}

// RemoveCold removes a cold job from the tables. It is in the order of RemoveJob. dropBody says that it has a body that is not inline, which
// is removed, too.
func (in *Ingest) RemoveCold(p Place, size uint32, dropBody bool) error {
	in.records++
	in.index.set(p, size, false)
	in.key = idKey(in.key[:0], coldKey, p.ID)
	err := in.delete(oldCold, in.key)
	if dropBody {
		in.key[0] = bodyKey
		err = errors.Join(err, in.delete(oldBodies, in.key))
	}
	return err
}

// WarmJob writes the record of a cold job that is cold no longer, see RemoveCold. body is that of an inline one.
func (in *Ingest) WarmJob(r *tube.Record, body []byte) error {
	in.records++
	in.key = idKey(in.key[:0], jobKey, r.ID)
	in.value = AppendRecord(in.value[:0], r)
	if Inline(r.Size) {
		in.value = append(in.value, body...)
	}
	return in.set(oldJobs, in.key, in.value)
}

// SetIndex writes what the cold jobs that were written and removed change in the index and the counts. It is called once, behind them.
func (in *Ingest) SetIndex() error {
	keys := make(map[string]bool, len(in.index.present))
	for p, present := range in.index.present {
		keys[string(p.key())] = present
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), yielding(in, cmp.Compare[string])) {
		var err error
		if keys[key] {
			err = in.set(index, []byte(key), nil)
		} else {
			err = in.delete(index, []byte(key))
		}
		if err != nil {
			return err
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(in.index.counts), compareQueues) {
		count := in.tables.cold[of].plus(in.index.counts[of])
		if count == (ColdCount{}) {
			if err := in.delete(coldCounts, countKey(of)); err != nil {
				return err
			}
			continue
		}
		if err := in.set(coldCounts, countKey(of), count.append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// countCold records the counts that were written.
func (t *Tables) countCold(c *indexChanges) {
	for of, by := range c.counts {
		if n := t.cold[of].plus(by); n == (ColdCount{}) {
			delete(t.cold, of)
		} else {
			t.cold[of] = n
		}
	}
}

// LoadColdCounts reads how many cold jobs each queue has, and returns them. They belong to the Tables.
func (t *Tables) LoadColdCounts() (map[tube.ColdQueue]ColdCount, error) {
	err := t.each(coldCountKey, func(key, value []byte) error {
		of, count, err := decodeColdCount(key, value)
		if err == nil {
			t.cold[of] = count
		}
		return err
	})
	return t.cold, err
}

// ColdJobs calls do with the cold jobs of a tube in these places, in the order of ids. The body is that of an inline one. It is valid until do
// returns.
func (t *Tables) ColdJobs(name string, places []tube.ColdPlace, do func(r tube.Record, body []byte)) error {
	places = slices.SortedFunc(slices.Values(places), func(a, b tube.ColdPlace) int { return cmp.Compare(a.ID, b.ID) })
	jobs, err := t.iterator(coldKey)
	if err != nil {
		return err
	}
	var key []byte
	for _, p := range places {
		key = idKey(key[:0], coldKey, p.ID)
		if !jobs.SeekGE(key) || !bytes.Equal(jobs.Key(), key) {
			err = errors.Join(jobs.Error(), fmt.Errorf("reading the cold job %d: %w", p.ID, pebble.ErrNotFound))
			break
		}
		var r tube.Record
		var body []byte
		if r, body, err = DecodeRecord(p.ID, jobs.Value(), nameOf(name)); err != nil {
			break
		}
		do(r, body)
	}
	return errors.Join(err, jobs.Close())
}

// nameOf returns a function that makes the string of a tube's name, which is probably name.
func nameOf(name string) func([]byte) string {
	return func(b []byte) string {
		if string(b) == name {
			return name
		}
		return string(b)
	}
}

// ColdPlaces returns up to n places of the index of a queue behind a place, of jobs whose rank is at most upTo; and the next one behind
// them, tube.NoColdPlace if there is none.
func (t *Tables) ColdPlaces(of tube.ColdQueue, after tube.ColdPlace, upTo int64, n int) (places []tube.ColdPlace, next tube.ColdPlace, err error) {
	prefix := indexPrefix(of)
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(prefix[:len(prefix)-1:len(prefix)-1], 1)})
	if err != nil {
		return nil, next, fmt.Errorf("reading the index of tube %q: %w", of.Tube, err)
	}
	next = tube.NoColdPlace
	for valid := it.SeekGE(Place{of, after}.key()); valid; valid = it.Next() {
		key := it.Key()[len(prefix):]
		if len(key) != 16 {
			err = fmt.Errorf("reading the index of tube %q: the key %x is not one", of.Tube, it.Key())
			break
		}
		p := tube.ColdPlace{Rank: int64(binary.BigEndian.Uint64(key)), ID: binary.BigEndian.Uint64(key[8:])}
		if p == after {
			continue
		}
		if len(places) == n || p.Rank > upTo {
			next = p
			break
		}
		places = append(places, p)
	}
	return places, next, errors.Join(err, it.Error(), it.Close())
}

// FirstCold returns the place of the first cold job of a queue; false if there is none.
func (t *Tables) FirstCold(of tube.ColdQueue) (p tube.ColdPlace, found bool, err error) {
	places, _, err := t.ColdPlaces(of, tube.ColdPlace{}, int64(tube.Never), 1)
	if len(places) == 0 {
		return p, false, err
	}
	return places[0], true, nil
}

// ColdJob returns a cold job; false if there is none of that id. Its body is that of an inline one.
func (t *Tables) ColdJob(id uint64, name func([]byte) string) (r tube.Record, body []byte, found bool, err error) {
	value, closer, err := t.db.Get(idKey(nil, coldKey, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return r, nil, false, nil
	}
	if err != nil {
		return r, nil, false, fmt.Errorf("reading the cold job %d: %w", id, err)
	}
	defer closer.Close()
	r, body, err = DecodeRecord(id, value, name)
	return r, bytes.Clone(body), err == nil, err
}
