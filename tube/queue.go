package tube

// queue is jobs ordered by (rank, id). Nearly all jobs come in the order in
// which they go: those of one priority by their ids, delays and TTRs of one
// length by when they began, buried ones always. These stand in a row, where
// coming and going costs the same however many there are. Whatever comes out of
// order goes into a tree beside it. The slab in which the jobs are is handed in
// by whoever calls.
type queue struct {
	row  row
	tree tree
}

func before(a, b *Job) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.ID < b.ID
}

func (q *queue) len() int { return q.row.len() + len(q.tree) }

// head returns the first job, or nil.
func (q *queue) head(s *slab) *Job {
	switch {
	case q.row.len() == 0:
		return q.tree.head(s)
	case len(q.tree) == 0:
		return q.row.head(s)
	}
	a, b := q.row.head(s), q.tree.head(s)
	if before(a, b) {
		return a
	}
	return b
}

// add puts j, whose rank is set and must not change while it is in here.
func (q *queue) add(s *slab, j *Job) {
	j.inRow = q.row.len() == 0 || before(q.row.tail(s), j)
	if j.inRow {
		q.row.add(s, j)
	} else {
		q.tree.add(s, j)
	}
}

// remove takes out j, which must be in here.
func (q *queue) remove(s *slab, j *Job) {
	if j.inRow {
		q.row.remove(s, j)
	} else {
		q.tree.remove(s, j)
	}
}

// Rows and trees of no more room than this are left as they are when they
// become empty.
const smallRoom = 1024

// row is a ring of jobs in their order. One that was taken out of the middle
// leaves a gap behind, zero; the first and the last place never are one. Places
// are counted on from from, and past the end of the ring: the place of a job is
// the same in a ring of another size.
type row struct {
	ring     []ref  // its length is a power of two, or zero
	from, to uint32 // of the first and behind the last; both run over
	gaps     uint32
}

// minRing is the first length of a ring.
const minRing = 4

func (r *row) len() int { return int(r.to - r.from - r.gaps) }

func (r *row) at(place uint32) *ref { return &r.ring[place&uint32(len(r.ring)-1)] }

// head returns the first job; there must be one.
func (r *row) head(s *slab) *Job { return s.at(*r.at(r.from)) }

// tail returns the last job; there must be one.
func (r *row) tail(s *slab) *Job { return s.at(*r.at(r.to - 1)) }

// add puts j behind all others.
func (r *row) add(s *slab, j *Job) {
	if int(r.to-r.from) == len(r.ring) {
		r.makeRoom(s)
	}
	*r.at(r.to) = j.self
	j.pos = r.to
	r.to++
}

func (r *row) remove(s *slab, j *Job) {
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
	if len(r.ring) > smallRoom && int(r.to-r.from) < len(r.ring)/4 {
		r.resize(len(r.ring) / 2)
	}
}

// makeRoom sees to it that one more job fits in: it closes the gaps if they are
// most of the ring, which has to touch all jobs, else it doubles the ring.
func (r *row) makeRoom(s *slab) {
	if int(r.gaps) > len(r.ring)/4*3 {
		r.closeGaps(s)
	} else {
		r.resize(max(2*len(r.ring), minRing))
	}
}

// resize moves everything to the same places in a ring of another length.
func (r *row) resize(length int) {
	old := *r
	r.ring = make([]ref, length)
	for place := r.from; place != r.to; place++ {
		*r.at(place) = *old.at(place)
	}
}

func (r *row) closeGaps(s *slab) {
	to := r.from
	for place := r.from; place != r.to; place++ {
		if self := *r.at(place); self != 0 {
			*r.at(to) = self
			s.at(self).pos = to
			to++
		}
	}
	r.to, r.gaps = to, 0
}

// tree is a heap of jobs, four children to a node. Each job knows its place, so
// that any one can be taken out in O(log n).
type tree []ref

// head returns the first job, or nil.
func (t tree) head(s *slab) *Job {
	if len(t) == 0 {
		return nil
	}
	return s.at(t[0])
}

func (t *tree) add(s *slab, j *Job) {
	*t = append(*t, j.self)
	t.up(s, len(*t)-1, j)
}

func (t *tree) remove(s *slab, j *Job) {
	last := len(*t) - 1
	moved := (*t)[last]
	*t = (*t)[:last]
	if moved != j.self {
		t.mend(s, int(j.pos), s.at(moved))
	}
	t.shrink()
}

// mend places j into the hole at i, up or down as its order demands.
func (t tree) mend(s *slab, i int, j *Job) {
	if i > 0 && before(j, s.at(t[(i-1)/4])) {
		t.up(s, i, j)
	} else {
		t.down(s, i, j)
	}
}

func (t tree) up(s *slab, i int, j *Job) {
	for i > 0 {
		parent := s.at(t[(i-1)/4])
		if !before(j, parent) {
			break
		}
		t.set(i, parent)
		i = (i - 1) / 4
	}
	t.set(i, j)
}

func (t tree) down(s *slab, i int, j *Job) {
	for first := 4*i + 1; first < len(t); first = 4*i + 1 {
		at, least := first, s.at(t[first])
		for c := first + 1; c < min(first+4, len(t)); c++ {
			if child := s.at(t[c]); before(child, least) {
				at, least = c, child
			}
		}
		if !before(least, j) {
			break
		}
		t.set(i, least)
		i = at
	}
	t.set(i, j)
}

func (t tree) set(i int, j *Job) {
	t[i] = j.self
	j.pos = uint32(i)
}

// shrink gives memory back after a backlog is gone.
func (t *tree) shrink() {
	if cap(*t) > smallRoom && len(*t) < cap(*t)/4 {
		*t = append(make(tree, 0, cap(*t)/2), *t...)
	}
}
