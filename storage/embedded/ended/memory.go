package ended

import (
	"cmp"
	"maps"
	"slices"

	"redstalk/tube"
)

// Memory has records in memory, encoded: so there are few pointers, which the garbage collector would follow. It is not safe for
// concurrent use. Its zero value is ready for use.
type Memory struct {
	// KeepFloors says that Floor is wanted: there are older records elsewhere.
	KeepFloors bool

	byID    map[uint64]place
	tubes   map[string]*ofTube
	numbers []*ofTube          // by ofTube.number
	unused  []uint32           // numbers of tubes that are gone
	batches map[string][]place // the members of each batch, the oldest first; those whose records are gone can be among them
	bytes   uint64
	floors  map[string]uint64 // see Floor
}

// place says where a record is.
type place struct {
	seq  uint64
	tube uint32 // ofTube.number
}

// ofTube has the records of a tube: the oldest are in the first chunk, from its index first on.
type ofTube struct {
	name   string
	number uint32
	chunks []*chunk
	first  int
	bytes  uint64
}

// chunk has encoded records, the oldest first. What it has is never changed.
type chunk struct {
	data    []byte
	entries []entry
}

// entry is a record in a chunk: data[at:end].
type entry struct {
	seq, id uint64
	until   tube.Instant
	at, end uint32
	bytes   uint32 // as tube.Ended.Bytes counts
	member  bool   // of a batch
}

// maxChunk is how many bytes a chunk has before another one begins.
const maxChunk = 32 << 10

// Len returns how many records there are, and Bytes how many bytes they have, as tube.Ended.Bytes counts.
func (m *Memory) Len() int      { return len(m.byID) }
func (m *Memory) Bytes() uint64 { return m.bytes }

// Add adds the latest record. It returns it as Append encodes it; that must not be changed.
func (m *Memory) Add(e *tube.Ended) (encoded []byte) {
	t := m.open(e.Tube)
	c := t.last()
	at := len(c.data)
	c.data = Append(c.data, e)
	size := uint32(e.Bytes())
	c.entries = append(c.entries, entry{e.Seq, e.ID, e.Until, uint32(at), uint32(len(c.data)), size, e.Batch != ""})
	t.bytes += uint64(size)
	m.bytes += uint64(size)
	p := place{e.Seq, t.number}
	m.byID[e.ID] = p
	if e.Batch != "" {
		m.batches[e.Batch] = append(m.batches[e.Batch], p)
	}
	return c.data[at:]
}

// open returns the records of a tube.
func (m *Memory) open(name string) *ofTube {
	if m.byID == nil {
		m.byID, m.tubes, m.batches = make(map[uint64]place), make(map[string]*ofTube), make(map[string][]place)
	}
	t := m.tubes[name]
	if t != nil {
		return t
	}
	t = &ofTube{name: name, number: uint32(len(m.numbers))}
	if n := len(m.unused); n > 0 {
		t.number, m.unused = m.unused[n-1], m.unused[:n-1]
		m.numbers[t.number] = t
	} else {
		m.numbers = append(m.numbers, t)
	}
	m.tubes[name] = t
	return t
}

// last returns the chunk that the next record goes to.
func (t *ofTube) last() *chunk {
	if n := len(t.chunks); n > 0 && len(t.chunks[n-1].data) < maxChunk {
		return t.chunks[n-1]
	}
	t.chunks = append(t.chunks, new(chunk))
	return t.chunks[len(t.chunks)-1]
}

// oldest returns the oldest record of a tube that has some.
func (t *ofTube) oldest() *entry { return &t.chunks[0].entries[t.first] }

// Get returns the record of a job; nil if there is none.
func (m *Memory) Get(id uint64) *tube.Ended {
	p, found := m.byID[id]
	if !found {
		return nil
	}
	return m.at(p)
}

// at returns the record of a place; nil if it is gone.
func (m *Memory) at(p place) *tube.Ended {
	t := m.numbers[p.tube]
	if t == nil {
		return nil
	}
	c, i := t.search(p.seq)
	if c == len(t.chunks) || i == len(t.chunks[c].entries) || t.chunks[c].entries[i].seq != p.seq {
		return nil
	}
	return t.decode(c, i)
}

// search returns the first record that is not older than seq: its chunk, and its index there. Either can be one too many.
func (t *ofTube) search(seq uint64) (c, i int) {
	c, _ = slices.BinarySearchFunc(t.chunks, seq, func(c *chunk, seq uint64) int { return cmp.Compare(c.entries[len(c.entries)-1].seq, seq) })
	if c == len(t.chunks) {
		return c, 0
	}
	i, _ = slices.BinarySearchFunc(t.chunks[c].entries, seq, func(e entry, seq uint64) int { return cmp.Compare(e.seq, seq) })
	if c == 0 {
		i = max(i, t.first)
	}
	return c, i
}

func (t *ofTube) decode(c, i int) *tube.Ended {
	e := &t.chunks[c].entries[i]
	r, _, err := Decode(t.name, t.chunks[c].data[e.at:e.end])
	if err != nil {
		panic(err) // Add has encoded it
	}
	return r
}

// List calls more with the records of a tube, or of the members of a batch if that is not "", that are older than before, the newest
// first, until it returns false.
func (m *Memory) List(tubeName, batch string, before uint64, more func(*tube.Ended) bool) {
	if batch != "" {
		all := m.batches[batch]
		end, _ := slices.BinarySearchFunc(all, before, func(p place, seq uint64) int { return cmp.Compare(p.seq, seq) })
		for _, p := range slices.Backward(all[:end]) {
			if r := m.at(p); r != nil && !more(r) {
				return
			}
		}
		return
	}
	t := m.tubes[tubeName]
	if t == nil {
		return
	}
	for c, i := t.search(before); c >= 0; {
		if i--; i >= 0 && (c > 0 || i >= t.first) {
			if !more(t.decode(c, i)) {
				return
			}
		} else if c--; c >= 0 {
			i = len(t.chunks[c].entries)
		}
	}
}

// Trim drops the records whose time is over at an instant, as far as they are the oldest of the tube, and then the oldest until those
// that are left have at most so many bytes. It drops at most limit records, and returns how much of the limit is left.
func (m *Memory) Trim(tubeName string, now tube.Instant, most uint64, limit int) (left int) {
	t := m.tubes[tubeName]
	for ; limit > 0 && t != nil && len(t.chunks) > 0; limit-- {
		switch {
		case t.bytes > most:
			m.trimOldest(t)
		case t.oldest().until <= now:
			m.dropOldest(t)
		default:
			return limit
		}
	}
	return limit
}

// BytesOf returns the bytes of the records of a tube.
func (m *Memory) BytesOf(tubeName string) uint64 {
	if t := m.tubes[tubeName]; t != nil {
		return t.bytes
	}
	return 0
}

// TrimAll is Trim for all tubes together, without a limit.
func (m *Memory) TrimAll(most uint64) {
	if m.bytes <= most {
		return
	}
	oldest := make([]Oldest, 0, len(m.tubes))
	for name, t := range m.tubes {
		oldest = append(oldest, Oldest{name, t.oldest().seq})
	}
	DropOldest(oldest, func(tubeName string) (next uint64, more, enough bool) {
		t := m.tubes[tubeName]
		if m.trimOldest(t); len(t.chunks) > 0 {
			next, more = t.oldest().seq, true
		}
		return next, more, m.bytes <= most
	})
}

// DropUpTo drops all records up to one with that Ended.Seq.
func (m *Memory) DropUpTo(seq uint64) {
	for _, t := range m.tubes {
		for len(t.chunks) > 0 && t.oldest().seq <= seq {
			m.dropOldest(t)
		}
	}
}

// Tubes returns the names of the tubes that have records, in no particular order.
func (m *Memory) Tubes() (names []string) {
	for name := range m.tubes {
		names = append(names, name)
	}
	return names
}

// Floor returns the Ended.Seq of the newest record of a tube that Trim or TrimAll has dropped because of a bound, 0 if none: older ones, which may be
// elsewhere, have to go as well.
func (m *Memory) Floor(tubeName string) uint64 { return m.floors[tubeName] }

// Floors returns the tubes that have a Floor.
func (m *Memory) Floors() map[string]uint64 { return maps.Clone(m.floors) }

// ForgetFloor is called when all records of a tube up to that one are gone.
func (m *Memory) ForgetFloor(tubeName string, seq uint64) {
	if m.floors[tubeName] <= seq {
		delete(m.floors, tubeName)
	}
}

// trimOldest drops the oldest record of a tube, which becomes its Floor.
func (m *Memory) trimOldest(t *ofTube) {
	if m.KeepFloors {
		if m.floors == nil {
			m.floors = make(map[string]uint64)
		}
		m.floors[t.name] = t.oldest().seq
	}
	m.dropOldest(t)
}

// dropOldest drops the oldest record of a tube.
func (m *Memory) dropOldest(t *ofTube) {
	c, e := t.chunks[0], *t.oldest()
	if e.member {
		h, _ := ReadHead(c.data[e.at:e.end])
		defer m.dropPlaces(h.Batch)
	}
	t.bytes -= uint64(e.bytes)
	m.bytes -= uint64(e.bytes)
	if m.byID[e.id].seq == e.seq {
		delete(m.byID, e.id)
	}
	if t.first++; t.first < len(c.entries) {
		return
	}
	t.chunks[0] = nil
	t.chunks, t.first = t.chunks[1:], 0
	if len(t.chunks) == 0 {
		delete(m.tubes, t.name)
		m.numbers[t.number] = nil
		m.unused = append(m.unused, t.number)
	}
}

// dropPlaces drops the places of a batch at whose beginning there is no record any more.
func (m *Memory) dropPlaces(batch string) {
	all := m.batches[batch]
	for len(all) > 0 && m.isGone(all[0]) {
		all = all[1:]
	}
	if m.batches[batch] = all; len(all) == 0 {
		delete(m.batches, batch)
	}
}

func (m *Memory) isGone(p place) bool {
	t := m.numbers[p.tube]
	return t == nil || t.oldest().seq > p.seq
}

// Run is some records of a tube, the oldest first.
type Run struct {
	Tube    string
	entries []entry
	data    []byte
}

// UpTo returns all records up to one with that Ended.Seq, in runs: those of a tube in order, tubes in no particular order. The runs can be
// read while Memory changes.
func (m *Memory) UpTo(seq uint64) (runs []Run) {
	for name, t := range m.tubes {
		for i, c := range t.chunks {
			entries := c.entries
			if i == 0 {
				entries = entries[t.first:]
			}
			n, found := slices.BinarySearchFunc(entries, seq, func(e entry, seq uint64) int { return cmp.Compare(e.seq, seq) })
			if found {
				n++
			}
			if n == 0 {
				break
			}
			runs = append(runs, Run{name, entries[:n:n], c.data})
		}
	}
	return runs
}

// Records calls do with each record: its beginning, and all of it as Append encodes it.
func (r Run) Records(do func(h Head, encoded []byte)) {
	for i := range r.entries {
		e := &r.entries[i]
		h := Head{Seq: e.seq, ID: e.id, Until: e.until, Bytes: uint64(e.bytes)}
		encoded := r.data[e.at:e.end]
		if e.member {
			h, _ = ReadHead(encoded)
		}
		do(h, encoded)
	}
}
