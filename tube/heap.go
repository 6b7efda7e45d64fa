package tube

// heap is elements of which the first one can be taken. Each node has up to four children.
type heap[T ordered[T]] struct {
	parts[T]

	// moved, unless it is nil, is told the index of an element whenever that changes, -1 when it leaves the heap:
	// with its index it can be fixed or removed.
	moved func(x T, to int)
}

// ordered is an element of a heap.
type ordered[T any] interface{ before(other T) bool }

func (h *heap[T]) len() int { return h.n }

// first returns the first element; there must be one.
func (h *heap[T]) first() T { return *h.at(0) }

func (h *heap[T]) add(x T) {
	h.push(x)
	if last := h.n - 1; last > 0 {
		h.up(last, x)
	} else if h.moved != nil {
		h.moved(x, 0)
	}
}

// take removes and returns the first element.
func (h *heap[T]) take() T {
	x := h.first()
	h.remove(0)
	return x
}

// remove removes the element at an index.
func (h *heap[T]) remove(i int) {
	if h.moved != nil {
		h.moved(*h.at(i), -1)
	}
	if last := h.pop(); i < h.n {
		h.fix(i, last)
	}
}

// fix replaces the element at an index by x, which can be the same with another place in the order.
func (h *heap[T]) fix(i int, x T) {
	if i > 0 && x.before(*h.at(above(i))) {
		h.up(i, x)
	} else {
		h.down(i, x)
	}
}

// sort restores the order after elements have changed in place.
func (h *heap[T]) sort() {
	for i := (h.n+2)/4 - 1; i >= 0; i-- { // from the last node that has children
		h.down(i, *h.at(i))
	}
}

// above returns the index of the node above that at i, which is not the root.
func above(i int) int { return int(uint(i-1) / 4) }

// up puts x where it belongs between the root and index i, which is free.
func (h *heap[T]) up(i int, x T) {
	for i > 0 {
		parent := *h.at(above(i))
		if !x.before(parent) {
			break
		}
		h.put(i, parent)
		i = above(i)
	}
	h.put(i, x)
}

// down puts x where it belongs at index i, which is free, or below.
func (h *heap[T]) down(i int, x T) {
	for first := 4*i + 1; first < h.n; first = 4*i + 1 {
		child, least := first, *h.at(first)
		for c := first + 1; c < min(first+4, h.n); c++ {
			if other := *h.at(c); other.before(least) {
				child, least = c, other
			}
		}
		if !least.before(x) {
			break
		}
		h.put(i, least)
		i = child
	}
	h.put(i, x)
}

func (h *heap[T]) put(i int, x T) {
	*h.at(i) = x
	if h.moved != nil {
		h.moved(x, i)
	}
}
