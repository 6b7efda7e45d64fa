package tube

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKeyEnds checks that the ends of tombstones come in order, while parts are added and freed.
func TestKeyEnds(t *testing.T) {
	var ends keyEnds
	var want []Instant // sorted
	r := rand.New(rand.NewPCG(1, 2))
	for _, grow := range []int{3*perPart + 1, -2 * perPart, 2 * perPart, -3*perPart - 1} {
		for range max(grow, 0) {
			at := Instant(r.IntN(10 * perPart))
			heap.Push(&ends, keyEnd{at: at})
			want = append(want, at)
		}
		slices.Sort(want)
		for range max(-grow, 0) {
			if got := heap.Pop(&ends).(keyEnd).at; got != want[0] {
				t.Fatalf("%d, want %d", got, want[0])
			}
			want = want[1:]
		}
		if n := ends.Len(); n != len(want) || len(ends.list) != (n+perPart-1)/perPart {
			t.Fatalf("%d in %d parts, want %d", n, len(ends.list), len(want))
		}
	}
}
