package tube

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeap checks that the elements of a heap come in order, while parts are added and freed.
func TestHeap(t *testing.T) {
	var ends heap[keyEnd]
	var want []Instant // sorted
	r := rand.New(rand.NewPCG(1, 2))
	for _, grow := range []int{3*perPart + 1, -2 * perPart, 2 * perPart, -3*perPart - 1} {
		for range max(grow, 0) {
			at := Instant(r.IntN(10 * perPart))
			ends.add(keyEnd{at: at})
			want = append(want, at)
		}
		slices.Sort(want)
		for range max(-grow, 0) {
			if got := ends.take().at; got != want[0] {
				t.Fatalf("%d, want %d", got, want[0])
			}
			want = want[1:]
		}
		if n := ends.len(); n != len(want) || len(ends.list) != max((n+perPart-1)/perPart, 1) {
			t.Fatalf("%d in %d parts, want %d", n, len(ends.list), len(want))
		}
	}
}

// TestHeapKnowsPlaces checks that elements know their indexes, by which they are fixed and removed.
func TestHeapKnowsPlaces(t *testing.T) {
	e, times := newExpiries(new(base)), make(map[uint64]Instant)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		id, at := r.Uint64N(500), Instant(r.IntN(1000))
		place, there := e.place[id]
		switch {
		case !there:
			e.heap.add(expiry{at, id})
			times[id] = at
		case r.IntN(2) == 0:
			e.heap.fix(int(place), expiry{at, id})
			times[id] = at
		default:
			e.heap.remove(int(place))
			delete(times, id)
		}
		if len(e.place) != len(times) || e.heap.len() != len(times) {
			t.Fatalf("%d elements, %d places, want %d", e.heap.len(), len(e.place), len(times))
		}
	}
	for id := range times {
		times[id] += Instant(r.IntN(1000)) - 500
		e.change(id, times[id])
	}
	e.heap.sort()
	for last := (expiry{at: -500}); e.heap.len() > 0; {
		x := e.heap.take()
		if x.before(last) || x.at != times[x.id] {
			t.Fatalf("%v after %v, want its time to be %d", x, last, times[x.id])
		}
		last = x
	}
	e.heap.sort() // it is empty
}
