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
	j.inRing = q.ring.len() == 0 || before(q.ring.tail(s), j)
	if j.inRing {
		q.ring.add(s, j)
	} else {
		q.tree.add(s, j)
	}
}

// remove removes j, which must be in the queue.
func (q *queue) remove(s *slab, j *Job) {
	if j.inRing {
		q.ring.remove(s, j)
	} else {
		q.tree.remove(s, j)
	}
}

// minCapacity is the number of entries up to which rings and trees keep their memory
// when they become empty.
const minCapacity = 1024
