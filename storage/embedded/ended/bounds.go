package ended

import "container/heap"

// Oldest says of a tube which Ended.Seq its oldest record has.
type Oldest struct {
	Tube string
	Seq  uint64
}

// DropOldest calls drop for the tube that has the oldest record of all, again and again. drop drops that record, or several, and
// returns the Ended.Seq of the oldest one that is left, whether there is one, and whether enough are dropped. It changes the slice.
func DropOldest(oldest []Oldest, drop func(tube string) (next uint64, more, enough bool)) {
	h := (*byAge)(&oldest)
	heap.Init(h)
	for h.Len() > 0 {
		next, more, enough := drop(oldest[0].Tube)
		if enough {
			return
		}
		if oldest[0].Seq = next; more {
			heap.Fix(h, 0)
		} else {
			heap.Pop(h)
		}
	}
}

// byAge is a heap.Interface.
type byAge []Oldest

func (h byAge) Len() int           { return len(h) }
func (h byAge) Less(i, k int) bool { return h[i].Seq < h[k].Seq }
func (h byAge) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *byAge) Push(x any)        { *h = append(*h, x.(Oldest)) }

func (h *byAge) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
