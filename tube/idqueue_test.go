package tube

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIDQueue does random operations on an idQueue and on a slice, and compares them.
func TestIDQueue(t *testing.T) {
	var q idQueue
	var want []uint64
	random := rand.New(rand.NewPCG(1, 1))
	for next := uint64(1); next < 50_000; {
		switch random.IntN(4) {
		case 0, 1:
			for range random.IntN(3 * idsPerPart / 2) {
				q.add(next)
				want = append(want, next)
				next++
			}
		case 2:
			limit := 1 + random.IntN(2*idsPerPart)
			got := q.take(limit)
			if len(got) > limit || len(got) == 0 && len(want) > 0 || !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("at most %d: got %d ids, want the first of %d", limit, len(got), len(want))
			}
			want = want[len(got):]
		case 3:
			ids := q.take(10)
			q.putBack(ids)
			clear(ids) // they belong to the caller
		}
		if q.len() != len(want) {
			t.Fatalf("%d ids, want %d", q.len(), len(want))
		}
	}
}
