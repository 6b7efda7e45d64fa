package redis

// What connections have reserved may be a million jobs. The garbage collector would look at each
// of them again and again if there were a pointer to it, or one in it, and hold up everybody for
// that long where there are few processors. So holdings are kept in few pieces, have numbers for
// what they refer to, and are referred to by numbers.

// pageLen is how many holdings a page of a shelf has.
const pageLen = 512

// shelf is where holdings are. They do not move.
type shelf struct {
	pages []*[pageLen]holding
	free  []uint32 // places of none
}

// take returns the place of a holding that nobody has.
func (s *shelf) take() uint32 {
	if len(s.free) == 0 {
		s.pages = append(s.pages, new([pageLen]holding))
		for i := range uint32(pageLen) {
			s.free = append(s.free, uint32(len(s.pages)*pageLen)-1-i)
		}
	}
	last := len(s.free) - 1
	place := s.free[last]
	s.free = s.free[:last]
	return place
}

// giveBack takes back what take has returned.
func (s *shelf) giveBack(place uint32) { s.free = append(s.free, place) }

// at returns the holding at a place.
func (s *shelf) at(place uint32) *holding { return &s.pages[place/pageLen][place%pageLen] }

// numbered has things that holdings refer to by numbers, as long as one refers to them. 0 is the
// number of nothing.
type numbered[T any] struct {
	all  []numberedThing[T] // those from 1 on
	free []uint32           // numbers of none
}

type numberedThing[T any] struct {
	it   T
	uses int
}

// add returns a number for a thing that has none, and is used once now.
func (n *numbered[T]) add(it T) uint32 {
	if last := len(n.free) - 1; last >= 0 {
		number := n.free[last]
		n.free = n.free[:last]
		n.all[number-1] = numberedThing[T]{it, 1}
		return number
	}
	n.all = append(n.all, numberedThing[T]{it, 1})
	return uint32(len(n.all))
}

// of returns what has a number; the zero value for 0.
func (n *numbered[T]) of(number uint32) (it T) {
	if number != 0 {
		it = n.all[number-1].it
	}
	return it
}

// use notes one more use of what has a number.
func (n *numbered[T]) use(number uint32) { n.all[number-1].uses++ }

// leave notes the end of a use, and returns whether it was the last: then the number is free.
func (n *numbered[T]) leave(number uint32) (last bool) {
	its := &n.all[number-1]
	if its.uses--; its.uses > 0 {
		return false
	}
	*its = numberedThing[T]{}
	n.free = append(n.free, number)
	return true
}
