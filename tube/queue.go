package tube

// queue is jobs ordered by (rank, id). Nearly all jobs are added behind all others:
// ready jobs of one priority because ids grow, delays and TTRs of one length because
// time goes on, and buried jobs always. They are in a ring, where adding and removing
// takes the same time for any number of jobs. A job that is added out of order goes
// into a tree instead, in O(log n).
//
// A queue does not know its slab: every method takes it.
type queue struct {
	ring ring
	tree tree
}

// The bits of Job.place.
const (
	inRing     uint8 = 1 << iota // Job.pos is a number in the ring, not an index in the tree
	byWallTime                   // its rank is a wall time, see followWallClock
)

// before orders the jobs of a queue.
func before(a, b *Job) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.ID < b.ID
}

func (q *queue) len() int { return q.ring.len() + len(q.tree) }

// head returns the first job, or nil.
func (q *queue) head(s *slab) *Job {
	switch {
	case q.ring.len() == 0:
		return q.tree.head(s)
	case len(q.tree) == 0:
		return q.ring.head(s)
	}
	a, b := q.ring.head(s), q.tree.head(s)
	if before(a, b) {
		return a
	}
	return b
}

// add adds j. Its rank must not change while it is in the queue.
func (q *queue) add(s *slab, j *Job) {
	if q.ring.len() == 0 || before(q.ring.tail(s), j) {
		j.place |= inRing
		q.ring.add(s, j)
	} else {
		j.place &^= inRing
		q.tree.add(s, j)
	}
}

// remove removes j, which must be in the queue.
func (q *queue) remove(s *slab, j *Job) {
	if j.place&inRing != 0 {
		q.ring.remove(s, j)
	} else {
		q.tree.remove(s, j)
	}
}

// each calls do for each job, in no particular order. do must not change the order.
func (q *queue) each(s *slab, do func(*Job)) {
	for at := q.ring.from; at != q.ring.to; at++ {
		if self := *q.ring.at(at); self != 0 {
			do(s.at(self))
		}
	}
	for _, self := range q.tree {
		do(s.at(self))
	}
}

// minCapacity is the number of entries up to which rings and trees keep their memory
// when they become empty.
const minCapacity = 1024
