package tube

// ref is the number of a job's slot, plus one; zero is no job. It is half as large
// as a pointer, and the garbage collector does not follow it. So the queues and the
// index of a million jobs cost the collector nothing.
type ref uint32

const (
	slotBits = 12
	perChunk = 1 << slotBits

	// fewJobs is the number of jobs up to which a chunk keeps its table of bodies when no
	// body is left. Otherwise a queue that is often empty would allocate it each time.
	fewJobs = 64
)

// slab is the memory of the jobs: chunks of slots that contain no pointers. A chunk
// that becomes empty is freed.
type slab struct {
	chunks []*chunk
	open   []uint32 // numbers of the chunks with a free slot, including freed chunks
	bytes  int64    // sum of the sizes of all bodies in memory
}

// chunk is a part of a slab.
type chunk struct {
	jobs      *[perChunk]Job
	bodies    *[perChunk][]byte   // nil while no body is in memory; see fewJobs
	buffers   *[perChunk]Buffer   // of the bodies that have one; nil until one has
	batches   *[perChunk]*batched // of the members of batches; nil until there is one
	bodyCount int                 // bodies in memory
	used      int                 // slots that hold a job
	free      int32               // first free slot, whose rank is the next one; -1: there is none
}

func newChunk() *chunk {
	c := &chunk{jobs: new([perChunk]Job)}
	for i := range c.jobs {
		c.jobs[i].rank = int64(i) + 1
	}
	c.jobs[perChunk-1].rank = -1
	return c
}

// at returns the job in a slot. Its address does not change until it is released.
func (s *slab) at(r ref) *Job {
	n := uint32(r) - 1
	return &s.chunks[n>>slotBits].jobs[n&(perChunk-1)]
}

// alloc returns a slot for a new job. Only its self is set.
func (s *slab) alloc() *Job {
	if len(s.open) == 0 {
		s.open = append(s.open, uint32(len(s.chunks)))
		s.chunks = append(s.chunks, nil)
	}
	number := s.open[len(s.open)-1]
	c := s.chunks[number]
	if c == nil {
		c = newChunk()
		s.chunks[number] = c
	}
	slot := c.free
	j := &c.jobs[slot]
	c.free = int32(j.rank)
	c.used++
	if c.free < 0 {
		s.open = s.open[:len(s.open)-1]
	}
	*j = Job{self: ref(number<<slotBits|uint32(slot)) + 1}
	return j
}

// release frees the slot of j. j must not be used any more.
func (s *slab) release(j *Job) {
	s.keep(j, nil, nil)
	n := uint32(j.self) - 1
	number, slot := n>>slotBits, n&(perChunk-1)
	c := s.chunks[number]
	if c.free < 0 {
		s.dropEmpty()
		s.open = append(s.open, number)
	}
	*j = Job{rank: int64(c.free)}
	c.free = int32(slot)
	if c.used--; c.used == 0 && number != s.open[len(s.open)-1] {
		s.chunks[number] = nil // its number stays in open
	}
}

// dropEmpty frees the chunk that slots are taken from, if it is empty. It is called
// when another chunk takes over. Until then the chunk stays: otherwise a store with
// few jobs would free and allocate it again and again.
func (s *slab) dropEmpty() {
	if len(s.open) == 0 {
		return
	}
	last := s.open[len(s.open)-1]
	if c := s.chunks[last]; c != nil && c.used == 0 {
		s.chunks[last] = nil
	}
}

// body returns the body of j, nil if none is in memory.
func (s *slab) body(j *Job) []byte {
	n := uint32(j.self) - 1
	if bodies := s.chunks[n>>slotBits].bodies; bodies != nil {
		return bodies[n&(perChunk-1)]
	}
	return nil
}

// buffer returns the Buffer of the body of j, nil if it has none.
func (s *slab) buffer(j *Job) Buffer {
	n := uint32(j.self) - 1
	if buf := s.chunks[n>>slotBits].buffers; buf != nil {
		return buf[n&(perChunk-1)]
	}
	return nil
}

// batch returns where the batch of j is, a member of one.
func (s *slab) batch(j *Job) **batched {
	n := uint32(j.self) - 1
	c := s.chunks[n>>slotBits]
	if c.batches == nil {
		c.batches = new([perChunk]*batched)
	}
	return &c.batches[n&(perChunk-1)]
}

// keep sets the body of j and releases the previous one. A nil body only drops the
// previous one. The slab takes over one reference of buf, which may be nil.
func (s *slab) keep(j *Job, body []byte, buf Buffer) {
	n := uint32(j.self) - 1
	c, slot := s.chunks[n>>slotBits], n&(perChunk-1)
	if c.bodies == nil {
		if body == nil {
			return
		}
		c.bodies = new([perChunk][]byte)
	}
	s.bytes += int64(len(body)) - int64(len(c.bodies[slot]))
	if c.bodies[slot] != nil {
		c.bodyCount--
	}
	if body != nil {
		c.bodyCount++
	}
	c.bodies[slot] = body
	c.keepBuffer(slot, buf)
	if c.bodyCount == 0 && c.used > fewJobs {
		c.bodies, c.buffers = nil, nil
	}
}

// keepBuffer sets the Buffer of the body in a slot, and releases the previous one.
func (c *chunk) keepBuffer(slot uint32, buf Buffer) {
	if c.buffers == nil {
		if buf == nil {
			return
		}
		c.buffers = new([perChunk]Buffer)
	}
	old := c.buffers[slot]
	c.buffers[slot] = buf
	if old != nil {
		old.Release()
	}
}

// scan iterates over all jobs of a Machine and can pause. Jobs keep their slots, so it visits
// each job that exists all the time exactly once, whatever changes meanwhile. It can also
// visit jobs that were added after it began.
type scan struct {
	next uint32 // slot
	end  uint32 // the slot after the last one when it began
}

// slotsPerMove is how many slots a scan visits in the time of one move.
const slotsPerMove = 32

func (m *jobs) beginScan() scan { return scan{end: uint32(len(m.slab.chunks)) << slotBits} }

// pass calls each for the jobs in the next slots, until it returns false. each may remove the
// job. It returns false if limit slots were visited, or each returned false, before the
// end.
func (c *scan) pass(s *slab, limit int, each func(*Job) bool) (ended bool) {
	for ; limit > 0 && c.next < c.end; limit-- {
		chunk, slot := s.chunks[c.next>>slotBits], c.next&(perChunk-1)
		if chunk == nil || chunk.used == 0 {
			c.next += perChunk - slot
			continue
		}
		c.next++
		if j := &chunk.jobs[slot]; j.state != Gone && !each(j) {
			return false
		}
	}
	return c.next >= c.end
}
