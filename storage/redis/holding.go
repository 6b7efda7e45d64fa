package redis

import (
	"container/heap"
	"math"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

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

// nameTable is interned names.
type nameTable struct {
	interned[string]
	numbers map[string]uint32
}

// refName returns the number of a name, with one more reference; 0 for "".
func (n *nameTable) refName(name string) uint32 {
	if name == "" {
		return 0
	}
	number := n.numbers[name]
	if number != 0 {
		n.ref(number)
		return number
	}
	if n.numbers == nil {
		n.numbers = make(map[string]uint32)
	}
	number = n.add(name)
	n.numbers[name] = number
	return number
}

// unrefName removes a reference to the name with a number, unless that is 0.
func (n *nameTable) unrefName(number uint32) {
	if number == 0 {
		return
	}
	name := n.of(number)
	if n.unref(number) {
		delete(n.numbers, name)
	}
}

// holding is one reserved job. It is valid until the job is dropped. It has no pointers.
type holding struct {
	reservation
	holder   tube.Holder
	until    time.Duration // from base
	since    time.Duration // when it was delivered, relative to base
	ttr      time.Duration
	spent    uint64 // number of the last call in which the holder gives it up
	size     int    // of its body, in bytes
	index    uint32 // its position in the heap of held
	tube     uint32 // number of its tube
	set      uint32 // number of its lease set in Redis; 0 if it has none
	metadata uint32 // number of its group if its metadata says only that; otherMetadata; 0: it has none
}

// otherMetadata is holding.metadata of a job whose metadata says more than its group.
const otherMetadata = math.MaxUint32

// reservation identifies a reservation of this instance: a job can be reserved again and again.
type reservation struct {
	id     uint64 // id of the job
	number uint64 // unique among reservations
}

// leaseSet is jobs that Redis has reserved together, see lua/keys.md. After an operation that
// splits it was sent, its jobs count as single ones. If that was never carried out, the script
// notices it.
type leaseSet struct {
	name   string
	left   int // how many of its jobs are not deleted
	split  bool
	number uint32 // its number in holdings; 0: none
}

// held is what one connection has reserved: a heap of slots of the slab, with the job that
// expires next first.
type held struct {
	slots []uint32
	slab  *slab
}

func (h *held) at(i int) *holding { return h.slab.at(h.slots[i]) }

// Len, Less and Swap implement heap.Interface.
func (h *held) Len() int { return len(h.slots) }

func (h *held) Less(i, k int) bool { return h.at(i).until < h.at(k).until }

func (h *held) Swap(i, k int) {
	h.slots[i], h.slots[k] = h.slots[k], h.slots[i]
	h.at(i).index, h.at(k).index = uint32(i), uint32(k)
}

// Push and Pop are not called: add and remove avoid the cost of an any.
func (h *held) Push(any) { panic("held: use add") }

func (h *held) Pop() any { panic("held: use remove") }

// add adds the holding in a slot.
func (h *held) add(slot uint32) {
	last := len(h.slots)
	h.slots = append(h.slots, slot)
	h.at(last).index = uint32(last)
	heap.Fix(h, last)
}

// remove removes the holding at a position of the heap.
func (h *held) remove(slot uint32) {
	last := len(h.slots) - 1
	h.Swap(int(slot), last)
	if h.slots = h.slots[:last]; int(slot) < last {
		heap.Fix(h, int(slot))
	}
}

// next returns how long it is until the first unexpired job expires, among those below a
// position in the heap, except for some. It examines at most 2n+1 jobs, where n is the number
// of expired and excepted ones.
func (h *held) next(at int, now time.Duration, without map[uint64]bool) time.Duration {
	if at >= len(h.slots) {
		return storage.Forever
	}
	held := h.at(at)
	if left := held.until - now; left >= 0 && !without[held.id] {
		return left
	}
	return min(h.next(2*at+1, now, without), h.next(2*at+2, now, without))
}

// job is what is known of a job that was taken.
type job struct {
	body        []byte
	tube        string
	pri         uint32 // unset for a job from the body cache
	ttr         time.Duration
	hasMetadata bool
	group       string        // if its metadata says only that
	record      schema.Record // unset for a job from the body cache
	cached      time.Time     // when a job from the body cache was put; else zero
}

func jobOf(r schema.Record) job {
	return job{
		body: r.Body(), tube: r.Tube(), pri: r.Pri(), ttr: time.Duration(r.TTR()) * time.Second, hasMetadata: r.HasMetadata(), group: r.OnlyGroup(), record: r,
	}
}
