package tube

// ring is jobs in order, in a circular buffer. A job that is removed from the middle
// leaves a gap, a zero; the first and the last entry are never gaps.
//
// An entry has a number that grows from job to job and wraps at 2^32. Its slot is
// the number modulo the length of the buffer. So a job keeps its number, Job.pos,
// when the buffer grows or shrinks.
type ring struct {
	slots    []ref  // its length is a power of two, or zero
	from, to uint32 // the number of the first job, and the one after the last
	gaps     uint32 // between these two
}

// minSlots is the first length of a ring's buffer.
const minSlots = 4

func (r *ring) len() int { return int(r.to - r.from - r.gaps) }

// at returns the slot of a number.
func (r *ring) at(number uint32) *ref { return &r.slots[number&uint32(len(r.slots)-1)] }

// head returns the first job; there must be one.
func (r *ring) head(s *slab) *Job { return s.at(*r.at(r.from)) }

// tail returns the last job; there must be one.
func (r *ring) tail(s *slab) *Job { return s.at(*r.at(r.to - 1)) }

// add adds j behind all others.
func (r *ring) add(s *slab, j *Job) {
	if int(r.to-r.from) == len(r.slots) {
		r.makeRoom(s)
	}
	*r.at(r.to) = j.self
	j.pos = r.to
	r.to++
}

// remove removes j. It leaves a gap, unless j is the first or the last one.
func (r *ring) remove(s *slab, j *Job) {
	*r.at(j.pos) = 0
	r.gaps++
	for r.from != r.to && *r.at(r.from) == 0 {
		r.from++
		r.gaps--
	}
	for r.from != r.to && *r.at(r.to - 1) == 0 {
		r.to--
		r.gaps--
	}
	if len(r.slots) > minCapacity && int(r.to-r.from) < len(r.slots)/4 {
		r.resize(len(r.slots) / 2)
	}
}

// makeRoom makes room for one more job. If most of the buffer is gaps it closes
// them, which touches all jobs; else it doubles the buffer.
func (r *ring) makeRoom(s *slab) {
	if int(r.gaps) > len(r.slots)/4*3 {
		r.closeGaps(s)
	} else {
		r.resize(max(2*len(r.slots), minSlots))
	}
}

// resize gives the ring a buffer of another length. All jobs keep their numbers.
func (r *ring) resize(length int) {
	old := *r
	r.slots = make([]ref, length)
	for number := r.from; number != r.to; number++ {
		*r.at(number) = *old.at(number)
	}
}

// closeGaps moves the jobs together. Their numbers change.
func (r *ring) closeGaps(s *slab) {
	to := r.from
	for number := r.from; number != r.to; number++ {
		if self := *r.at(number); self != 0 {
			*r.at(to) = self
			s.at(self).pos = to
			to++
		}
	}
	r.to, r.gaps = to, 0
}
