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
	for _, grow := range []int{3*endsPerPart + 1, -2 * endsPerPart, 2 * endsPerPart, -3*endsPerPart - 1} {
		for range max(grow, 0) {
			at := Instant(r.IntN(10 * endsPerPart))
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
		if n := ends.Len(); n != len(want) || len(ends.parts) != (n+endsPerPart-1)/endsPerPart {
			t.Fatalf("%d in %d parts, want %d", n, len(ends.parts), len(want))
		}
	}
}
