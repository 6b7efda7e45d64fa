package tube

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueue compares queues with a sorted slice under random additions and
// removals, from the head and from the middle: with few and with many jobs that
// are added out of order, and with numbers about to wrap.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, disorder := range []int{0, 1, 10, 100} {
		for range 4 {
			q := queue{ring: ring{from: math.MaxUint32 - 100, to: math.MaxUint32 - 100}}
			playQueue(t, random, &q, disorder)
		}
	}
}

// playQueue does random operations on q. disorder is how many jobs in 100 are added out of order.
func playQueue(t *testing.T, random *rand.Rand, q *queue, disorder int) {
	t.Helper()
	var sl slab
	var naive []*Job
	for id := uint64(1); id < 3000; id++ {
		if len(naive) == 0 || random.IntN(100) < 55 {
			j := sl.alloc()
			j.ID, j.rank = id, int64(id/100)
			if random.IntN(100) < disorder {
				j.rank = int64(random.IntN(20))
			}
			q.add(&sl, j)
			i, _ := slices.BinarySearchFunc(naive, j, order)
			naive = slices.Insert(naive, i, j)
		} else {
			if q.head(&sl) != naive[0] {
				t.Fatalf("head is job %d, want %d", q.head(&sl).ID, naive[0].ID)
			}
			i := random.IntN(len(naive))
			if random.IntN(2) == 0 {
				i = 0
			}
			q.remove(&sl, naive[i])
			sl.release(naive[i])
			naive = slices.Delete(naive, i, i+1)
		}
		checkTree(t, &sl, q.tree)
		checkRing(t, &sl, &q.ring)
		if q.len() != len(naive) || disorder == 0 && len(q.tree) > 0 {
			t.Fatalf("%d jobs, %d of them in the tree, want %d", q.len(), len(q.tree), len(naive))
		}
	}
}

func order(a, b *Job) int {
	if before(a, b) {
		return -1
	}
	return 1
}

func checkTree(t *testing.T, s *slab, q tree) {
	t.Helper()
	for i := range q {
		j := s.at(q[i])
		if j.place&inRing != 0 || int(j.pos) != i {
			t.Fatalf("job %d at %d of the tree has position %d, in the ring %v", j.ID, i, j.pos, j.place&inRing != 0)
		}
		if parent := (i - 1) / 4; i > 0 && before(j, s.at(q[parent])) {
			t.Fatalf("job %d at %d comes before its parent", j.ID, i)
		}
	}
}

func checkRing(t *testing.T, s *slab, r *ring) {
	t.Helper()
	gaps, last := uint32(0), (*Job)(nil)
	for number := r.from; number != r.to; number++ {
		if *r.at(number) == 0 {
			gaps++
			continue
		}
		j := s.at(*r.at(number))
		if j.place&inRing == 0 || j.pos != number {
			t.Fatalf("job %d at %d of the ring has position %d, in the ring %v", j.ID, number, j.pos, j.place&inRing != 0)
		}
		if last != nil && !before(last, j) {
			t.Fatalf("job %d is before job %d", last.ID, j.ID)
		}
		last = j
	}
	if gaps != r.gaps || r.from != r.to && (*r.at(r.from) == 0 || *r.at(r.to - 1) == 0) {
		t.Fatalf("%d gaps are counted, there are %d, or one is at an end", r.gaps, gaps)
	}
}

// TestQueueWithoutOrder adds each job before all others: one is in the ring, the
// others are in the tree.
func TestQueueWithoutOrder(t *testing.T) {
	var q queue
	var s slab
	for id := range uint64(100) {
		j := s.alloc()
		j.ID, j.rank = id, -int64(id)
		q.add(&s, j)
	}
	for id := int64(99); id >= 0; id-- {
		j := q.head(&s)
		if j.ID != uint64(id) {
			t.Fatalf("head is job %d, want %d", j.ID, id)
		}
		q.remove(&s, j)
		s.release(j)
	}
}

// TestQueueOfGaps adds and removes jobs behind one that stays, and checks that the slots
// are used again.
func TestQueueOfGaps(t *testing.T) {
	var q queue
	var s slab
	var previous *Job
	for id := range uint64(100_000) {
		j := s.alloc()
		j.ID = id
		q.add(&s, j)
		if id%1000 > 1 {
			q.remove(&s, previous)
			s.release(previous)
		}
		previous = j
	}
	checkRing(t, &s, &q.ring)
	if q.len() != 200 || len(q.ring.slots) > 2048 {
		t.Errorf("a ring of %d jobs has capacity for %d", q.len(), len(q.ring.slots))
	}
}

func TestQueueGivesMemoryBack(t *testing.T) {
	for _, step := range []int64{1, -1} {
		var q queue
		var s slab
		for id := range int64(100_000) {
			j := s.alloc()
			j.ID, j.rank = uint64(id), step*id
			q.add(&s, j)
		}
		for q.len() > 10 {
			j := q.head(&s)
			q.remove(&s, j)
			s.release(j)
		}
		chunks := 0
		for _, c := range s.chunks {
			if c != nil {
				chunks++
			}
		}
		if chunks > 2 {
			t.Errorf("a slab of 10 jobs keeps %d chunks", chunks)
		}
		if capacity := cap(q.tree) + len(q.ring.slots); capacity > 2048 {
			t.Errorf("a queue of %d jobs has capacity for %d", q.len(), capacity)
		}
	}
}
