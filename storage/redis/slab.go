package redis

// Connections can have a million reserved jobs. If there were a pointer to or in each of them,
// every garbage collection would visit them, and hold up all clients for that long where there
// are few processors. So holdings are stored in large pages, and refer to other things, and are
// referred to, by numbers.

// pageLen is how many holdings a page of a slab has.
const pageLen = 512

// slab stores holdings in slots. They do not move.
type slab struct {
	pages     []*[pageLen]holding
	freeSlots []uint32 // places of none
}

// alloc returns a free slot.
func (s *slab) alloc() uint32 {
	if len(s.freeSlots) == 0 {
		s.pages = append(s.pages, new([pageLen]holding))
		for i := range uint32(pageLen) {
			s.freeSlots = append(s.freeSlots, uint32(len(s.pages)*pageLen)-1-i)
		}
	}
	last := len(s.freeSlots) - 1
	slot := s.freeSlots[last]
	s.freeSlots = s.freeSlots[:last]
	return slot
}

// free frees a slot.
func (s *slab) free(slot uint32) { s.freeSlots = append(s.freeSlots, slot) }

// at returns the holding in a slot.
func (s *slab) at(slot uint32) *holding { return &s.pages[slot/pageLen][slot%pageLen] }

// interned has values that holdings refer to by numbers, as long as one refers to them. 0 is
// the number of no value.
type interned[T any] struct {
	values    []internedValue[T] // those from 1 on
	freeSlots []uint32           // unused numbers
}

type internedValue[T any] struct {
	value T
	uses  int
}

// add returns a number for a new value, with one reference.
func (n *interned[T]) add(value T) uint32 {
	if last := len(n.freeSlots) - 1; last >= 0 {
		number := n.freeSlots[last]
		n.freeSlots = n.freeSlots[:last]
		n.values[number-1] = internedValue[T]{value, 1}
		return number
	}
	n.values = append(n.values, internedValue[T]{value, 1})
	return uint32(len(n.values))
}

// of returns the value with a number; the zero value for 0.
func (n *interned[T]) of(number uint32) (value T) {
	if number != 0 {
		value = n.values[number-1].value
	}
	return value
}

// ref adds a reference to a value.
func (n *interned[T]) ref(number uint32) { n.values[number-1].uses++ }

// unref removes a reference, and returns whether it was the last: then the number is free.
func (n *interned[T]) unref(number uint32) (last bool) {
	v := &n.values[number-1]
	if v.uses--; v.uses > 0 {
		return false
	}
	*v = internedValue[T]{}
	n.freeSlots = append(n.freeSlots, number)
	return true
}
