package tube

// queue is a heap of jobs ordered by (rank, id), four children to a node. Each
// job knows its place, so that any one can be taken out in O(log n). The slab
// in which the jobs are is handed in by whoever calls.
type queue []ref

func before(a, b *Job) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.ID < b.ID
}

// head returns the first job, or nil.
func (q queue) head(s *slab) *Job {
	if len(q) == 0 {
		return nil
	}
	return s.at(q[0])
}

// add puts j, whose rank is set and must not change while it is in here.
func (q *queue) add(s *slab, j *Job) {
	*q = append(*q, j.self)
	q.up(s, len(*q)-1, j)
}

// remove takes out j, which must be in here.
func (q *queue) remove(s *slab, j *Job) {
	last := len(*q) - 1
	moved := (*q)[last]
	*q = (*q)[:last]
	if moved != j.self {
		q.mend(s, int(j.pos), s.at(moved))
	}
	q.shrink()
}

// mend places j into the hole at i, up or down as its order demands.
func (q queue) mend(s *slab, i int, j *Job) {
	if i > 0 && before(j, s.at(q[(i-1)/4])) {
		q.up(s, i, j)
	} else {
		q.down(s, i, j)
	}
}

func (q queue) up(s *slab, i int, j *Job) {
	for i > 0 {
		parent := s.at(q[(i-1)/4])
		if !before(j, parent) {
			break
		}
		q.set(i, parent)
		i = (i - 1) / 4
	}
	q.set(i, j)
}

func (q queue) down(s *slab, i int, j *Job) {
	for first := 4*i + 1; first < len(q); first = 4*i + 1 {
		at, least := first, s.at(q[first])
		for c := first + 1; c < min(first+4, len(q)); c++ {
			if child := s.at(q[c]); before(child, least) {
				at, least = c, child
			}
		}
		if !before(least, j) {
			break
		}
		q.set(i, least)
		i = at
	}
	q.set(i, j)
}

func (q queue) set(i int, j *Job) {
	q[i] = j.self
	j.pos = int32(i)
}

// shrink gives memory back after a backlog is gone.
func (q *queue) shrink() {
	if cap(*q) > 1024 && len(*q) < cap(*q)/4 {
		*q = append(make(queue, 0, cap(*q)/2), *q...)
	}
}
