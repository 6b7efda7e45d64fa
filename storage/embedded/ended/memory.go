package ended

import (
	"cmp"
	"slices"

	"redstalk/tube"
)

// Memory has records in memory. It is not safe for concurrent use. Its zero value is ready for use.
type Memory struct {
	byID    map[uint64]*tube.Ended
	tubes   map[string]*ofTube
	batches map[string][]place // of the members of each batch, the oldest first; those of records that are gone can be among them
	bytes   uint64
}

// ofTube has the records of a tube, the oldest first.
type ofTube struct {
	records []*tube.Ended
	bytes   uint64
}

// place says where a record is: Ended.Seq and ID.
type place struct{ seq, id uint64 }

// Len returns how many records there are, and Bytes how many bytes they have, as tube.Ended.Bytes counts.
func (m *Memory) Len() int      { return len(m.byID) }
func (m *Memory) Bytes() uint64 { return m.bytes }

// Get returns the record of a job; nil if there is none.
func (m *Memory) Get(id uint64) *tube.Ended { return m.byID[id] }

// Add adds the latest record.
func (m *Memory) Add(e *tube.Ended) {
	if m.byID == nil {
		m.byID, m.tubes, m.batches = make(map[uint64]*tube.Ended), make(map[string]*ofTube), make(map[string][]place)
	}
	t := m.tubes[e.Tube]
	if t == nil {
		t = new(ofTube)
		m.tubes[e.Tube] = t
	}
	m.byID[e.ID] = e
	t.records = append(t.records, e)
	t.bytes += uint64(e.Bytes())
	m.bytes += uint64(e.Bytes())
	if e.Batch != "" {
		m.batches[e.Batch] = append(m.batches[e.Batch], place{e.Seq, e.ID})
	}
}

// List returns the records of a tube, or of the members of a batch if that is not "", which are older than before, the newest first.
// more is called with each, and returns whether the next one is wanted.
func (m *Memory) List(tubeName, batch string, before uint64, more func(*tube.Ended) bool) {
	if batch != "" {
		for _, p := range slices.Backward(m.batches[batch]) {
			if e := m.byID[p.id]; p.seq < before && e != nil && e.Seq == p.seq && !more(e) {
				return
			}
		}
		return
	}
	t := m.tubes[tubeName]
	if t == nil {
		return
	}
	end, _ := slices.BinarySearchFunc(t.records, before, func(e *tube.Ended, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	for _, e := range slices.Backward(t.records[:end]) {
		if !more(e) {
			return
		}
	}
}

// Trim drops the records whose time is over at an instant, as far as they are the oldest of the tube, and then the oldest until those
// that are left have at most so many bytes. It drops at most limit records, and returns how much of the limit is left.
func (m *Memory) Trim(tubeName string, now tube.Instant, most uint64, limit int) (left int) {
	t := m.tubes[tubeName]
	for ; limit > 0 && t != nil && len(t.records) > 0 && (t.bytes > most || t.records[0].Until <= now); limit-- {
		m.dropOldest(tubeName, t)
	}
	return limit
}

// TrimAll is Trim for all tubes together.
func (m *Memory) TrimAll(most uint64) {
	if m.bytes <= most {
		return
	}
	heads := make([]Head, 0, len(m.tubes))
	for name, t := range m.tubes {
		heads = append(heads, Head{name, t.records[0].Seq})
	}
	DropOldest(heads, func(tubeName string) (next uint64, more, enough bool) {
		t := m.tubes[tubeName]
		if m.dropOldest(tubeName, t); len(t.records) > 0 {
			next, more = t.records[0].Seq, true
		}
		return next, more, m.bytes <= most
	})
}

// Tubes returns the names of the tubes that have records, in no particular order.
func (m *Memory) Tubes() (names []string) {
	for name := range m.tubes {
		names = append(names, name)
	}
	return names
}

// dropOldest drops the oldest record of a tube.
func (m *Memory) dropOldest(name string, t *ofTube) {
	e := t.records[0]
	t.records[0] = nil
	t.records = t.records[1:]
	t.bytes -= uint64(e.Bytes())
	m.bytes -= uint64(e.Bytes())
	if len(t.records) == 0 {
		delete(m.tubes, name)
	}
	if m.byID[e.ID] == e {
		delete(m.byID, e.ID)
	}
	m.dropPlaces(e.Batch)
}

// dropPlaces drops the places of a batch at whose beginning there is no record any more.
func (m *Memory) dropPlaces(batch string) {
	all := m.batches[batch]
	if batch == "" || len(all) == 0 {
		return
	}
	for len(all) > 0 && m.byID[all[0].id] == nil {
		all = all[1:]
	}
	if m.batches[batch] = all; len(all) == 0 {
		delete(m.batches, batch)
	}
}

// Drop drops a record that Add was called with, if it is still the oldest of its tube.
func (m *Memory) Drop(e *tube.Ended) {
	if t := m.tubes[e.Tube]; t != nil && t.records[0] == e {
		m.dropOldest(e.Tube, t)
	}
}
