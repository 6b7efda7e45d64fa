package tube

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// all returns the contents of the index, and fails the test if the index is
// inconsistent.
func (x *index) all(t testing.TB) map[uint64]ref {
	t.Helper()
	found := make(map[uint64]ref)
	for number, p := range x.pages {
		used := int32(0)
		for i, r := range p.refs {
			if r != 0 {
				used++
				found[number<<pageBits+uint64(i)] = r
			}
		}
		if used == 0 || used != p.used {
			t.Fatalf("page %d has %d jobs, but counts %d", number, used, p.used)
		}
	}
	if len(found) != x.count {
		t.Fatalf("the index has %d jobs, but counts %d", len(found), x.count)
	}
	if x.recent != nil && x.pages[x.number] != x.recent {
		t.Fatalf("the index caches a page %d that it does not have", x.number)
	}
	return found
}

// TestIndex compares an index with a map, while a backlog grows and shrinks
// from either end and in the middle.
func TestIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x, want := newIndex(), make(map[uint64]ref)
	last := uint64(0)
	for _, phase := range []struct{ puts, deletes int }{{3, 1}, {1, 1}, {0, 1}, {2, 1}, {0, 1}} {
		for range 3000 {
			for range phase.puts {
				last += 1 + random.Uint64N(3)*random.Uint64N(40)
				x.set(last, ref(last))
				want[last] = ref(last)
			}
			for range phase.deletes {
				for id := range want {
					x.delete(id)
					delete(want, id)
					break
				}
			}
			if id := random.Uint64N(last + 2); x.get(id) != want[id] {
				t.Fatalf("id %d is %d, want %d", id, x.get(id), want[id])
			}
		}
		if got := x.all(t); !maps.Equal(got, want) || x.len() != len(want) {
			t.Fatalf("the index has %d jobs, want %d", len(got), len(want))
		}
	}
}

// TestIndexGivesMemoryBack checks that no large map is left after a large backlog is gone.
func TestIndexGivesMemoryBack(t *testing.T) {
	x := newIndex()
	const jobs = 4 * minPeak * perPage
	for id := range uint64(jobs) {
		x.set(id, ref(id+1))
	}
	for id := range uint64(jobs - 10) {
		x.delete(id)
	}
	if x.peak > minPeak {
		t.Errorf("%d jobs in a map that was made for %d pages", x.len(), x.peak)
	}
	if got := x.all(t); len(got) != 10 || got[jobs-1] != jobs {
		t.Errorf("what is left: %v", got)
	}
}
