package tube

import "slices"

// position is where a job is in the order of its queue.
type position struct {
	rank int64
	id   uint64
}

func positionOf(j *Job) position { return position{j.rank, j.ID} }

func (p position) before(q position) bool {
	if p.rank != q.rank {
		return p.rank < q.rank
	}
	return p.id < q.id
}

// start is before the position of every job.
var start = position{rank: -1 << 63}

// next returns the first n jobs of the queue behind a position, in order. The jobs in the tree
// are not sorted, so those before the position have to be skipped: if that needs more than limit
// jobs of the tree, ok is false.
func (q *queue) next(s *slab, after position, n, limit int) (jobs []*Job, ok bool) {
	fromTree, ok := q.tree.next(s, after, n, limit)
	if !ok {
		return nil, false
	}
	jobs = append(q.ring.next(s, after, n), fromTree...)
	if len(fromTree) > 0 {
		slices.SortFunc(jobs, compareJobs)
	}
	return jobs[:min(n, len(jobs))], true
}

// compareJobs is before, as package slices needs it.
func compareJobs(a, b *Job) int {
	switch {
	case a == b:
		return 0
	case before(a, b):
		return -1
	}
	return 1
}

// next returns the first n jobs behind a position, in order.
func (r *ring) next(s *slab, after position, n int) (jobs []*Job) {
	for at := r.find(s, after); at != r.to && len(jobs) < n; at++ {
		if self := *r.at(at); self != 0 {
			jobs = append(jobs, s.at(self))
		}
	}
	return jobs
}

// find returns where in the ring the first job behind a position is, or a gap directly before
// that job; r.to if there is no such job. It takes O(log n), plus the length of the longest
// run of gaps.
func (r *ring) find(s *slab, after position) uint32 {
	low, high := uint32(0), r.to-r.from // counted from r.from, because slot numbers wrap
	for low < high {
		mid := (low + high) / 2
		at := mid
		for at < high && *r.at(r.from + at) == 0 {
			at++
		}
		if at < high && !after.before(positionOf(s.at(*r.at(r.from + at)))) {
			low = at + 1
		} else {
			high = mid
		}
	}
	return r.from + low
}

// next returns the first n jobs behind a position, in order. If more than limit jobs must be
// examined, ok is false.
func (t tree) next(s *slab, after position, n, limit int) (jobs []*Job, ok bool) {
	if len(t) == 0 {
		return nil, true
	}
	var frontier heap[node] // those that can be next: their parents come before all of them
	unexamined := []int{0}  // nodes to be examined; none of their ancestors is behind the position
	for len(unexamined) > 0 {
		i := unexamined[len(unexamined)-1]
		unexamined = unexamined[:len(unexamined)-1]
		if limit--; limit < 0 {
			return nil, false
		}
		if j := s.at(t[i]); after.before(positionOf(j)) {
			frontier.add(node{j, i})
			continue
		}
		first, end := t.children(i)
		for c := first; c < end; c++ {
			unexamined = append(unexamined, c)
		}
	}
	for len(jobs) < n && frontier.len() > 0 {
		next := frontier.take()
		jobs = append(jobs, next.job)
		first, end := t.children(next.at)
		for c := first; c < end; c++ {
			frontier.add(node{s.at(t[c]), c})
		}
	}
	return jobs, true
}

// children returns the children of node i: from first up to, but without, end.
func (t tree) children(i int) (first, end int) {
	return min(4*i+1, len(t)), min(4*i+5, len(t))
}

// node is a job and its index in a tree.
type node struct {
	job *Job
	at  int
}

func (n node) before(other node) bool { return before(n.job, other.job) }
