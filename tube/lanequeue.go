package tube

// laneQueue is the ready jobs of a lane. Most groups have only one, which needs no queue.
type laneQueue struct {
	one  ref    // the only job, as long as many is nil; 0: there is none
	many *queue // for the plain lane Tube.ready, from the beginning
}

func (q *laneQueue) len() int {
	switch {
	case q.many != nil:
		return q.many.len()
	case q.one != 0:
		return 1
	}
	return 0
}

// head returns the first job, or nil.
func (q *laneQueue) head(s *slab) *Job {
	switch {
	case q.many != nil:
		return q.many.head(s)
	case q.one != 0:
		return s.at(q.one)
	}
	return nil
}

// add adds j, see queue.add.
func (q *laneQueue) add(s *slab, j *Job) {
	switch {
	case q.many != nil:
		q.many.add(s, j)
	case q.one == 0:
		q.one = j.self
	default:
		q.many = new(queue)
		q.many.add(s, s.at(q.one))
		q.many.add(s, j)
		q.one = 0
	}
}

// remove removes j, which must be in the queue.
func (q *laneQueue) remove(s *slab, j *Job) {
	if q.many != nil {
		q.many.remove(s, j)
	} else {
		q.one = 0
	}
}

// shrink frees the memory of a backlog that is gone. It must not be called for the plain lane.
func (q *laneQueue) shrink() {
	if q.many != nil && q.many.len() == 0 && len(q.many.ring.slots) > minSlots {
		q.many = nil
	}
}

// behind returns the first job behind a position, nil if there is none.
func (q *laneQueue) behind(s *slab, after position) *Job {
	switch {
	case after == start:
		return q.head(s)
	case q.many != nil:
		if next, _ := q.many.next(s, after, 1, len(q.many.tree)+1); len(next) > 0 {
			return next[0]
		}
	case q.one != 0 && after.before(positionOf(s.at(q.one))):
		return s.at(q.one)
	}
	return nil
}

// effort is how many looks at a lane take as long as calling behind for each of n jobs: the jobs of the tree are not sorted.
func (q *laneQueue) effort(n int) int {
	if q.many == nil {
		return 1
	}
	return 1 + lanesPerMove/nodesPerMove*len(q.many.tree)*min(n, q.many.len())
}
