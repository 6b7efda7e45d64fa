package tube

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueue compares the heap with a sorted slice under random additions and
// removals, from the head and from the middle.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		var q queue
		var sl slab
		var naive []*Job
		for id := uint64(1); id < 3000; id++ {
			if len(naive) == 0 || random.IntN(100) < 55 {
				j := sl.alloc()
				j.ID, j.rank = id, int64(random.IntN(20))
				q.add(&sl, j)
				naive = append(naive, j)
			} else {
				slices.SortFunc(naive, func(a, b *Job) int {
					if before(a, b) {
						return -1
					}
					return 1
				})
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
			checkPlaces(t, &sl, q)
		}
	}
}

func checkPlaces(t *testing.T, s *slab, q queue) {
	t.Helper()
	for i := range q {
		j := s.at(q[i])
		if int(j.pos) != i {
			t.Fatalf("job %d at %d believes to be at %d", j.ID, i, j.pos)
		}
		if parent := (i - 1) / 4; i > 0 && before(j, s.at(q[parent])) {
			t.Fatalf("job %d at %d comes before its parent", j.ID, i)
		}
	}
}

func TestQueueGivesMemoryBack(t *testing.T) {
	var q queue
	var s slab
	for id := range uint64(100_000) {
		j := s.alloc()
		j.ID, j.rank = id, 0
		q.add(&s, j)
	}
	for len(q) > 10 {
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
	if cap(q) > 2048 {
		t.Errorf("a queue of %d jobs keeps room for %d", len(q), cap(q))
	}
}
