package tube

// queue is a heap of jobs ordered by (rank, id), four children to a node. Each
// job knows its place, so that any one can be taken out in O(log n).
type queue []*Job

func before(a, b *Job) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.ID < b.ID
}

// head returns the first job, or nil.
func (q queue) head() *Job {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

// add puts j, whose rank is set and must not change while it is in here.
func (q *queue) add(j *Job) {
	*q = append(*q, j)
	q.up(len(*q)-1, j)
}

// remove takes out j, which must be in here.
func (q *queue) remove(j *Job) {
	last := len(*q) - 1
	moved := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	if moved != j {
		q.mend(int(j.pos), moved)
	}
	q.shrink()
}

// mend places j into the hole at i, up or down as its order demands.
func (q *queue) mend(i int, j *Job) {
	if i > 0 && before(j, (*q)[(i-1)/4]) {
		q.up(i, j)
	} else {
		q.down(i, j)
	}
}

func (q queue) up(i int, j *Job) {
	for i > 0 {
		parent := (i - 1) / 4
		if !before(j, q[parent]) {
			break
		}
		q.set(i, q[parent])
		i = parent
	}
	q.set(i, j)
}

func (q queue) down(i int, j *Job) {
	for {
		first := 4*i + 1
		if first >= len(q) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(q)); c++ {
			if before(q[c], q[least]) {
				least = c
			}
		}
		if !before(q[least], j) {
			break
		}
		q.set(i, q[least])
		i = least
	}
	q.set(i, j)
}

func (q queue) set(i int, j *Job) {
	q[i] = j
	j.pos = int32(i)
}

// shrink gives memory back after a backlog is gone.
func (q *queue) shrink() {
	if cap(*q) > 1024 && len(*q) < cap(*q)/4 {
		*q = append(make(queue, 0, cap(*q)/2), *q...)
	}
}
