package redis

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// holdings is what the connections of this instance have reserved, and until
// when by the local clock. Redis knows which jobs the instance has; which of
// its connections has them is known here only, which spares Redis the trouble.
// It is exact as long as batches are recorded one after the other: nobody else
// takes a job from an instance without having declared it dead, and then the script
// says so (LOST).
//
// It belongs to the caller of the partition; only soon and any may be called by others,
// and only if it is shared.
type holdings struct {
	shared bool
	mu     sync.Mutex // held when anything changes, or others look; if shared

	slots        map[uint64]uint32 // of jobs on the shelf
	slab         slab
	tubes        interned[string] // of the jobs
	tubeNumbers  map[string]uint32
	sets         interned[*leaseSet] // of the jobs
	base         time.Time           // the times of holdings are counted from here
	holders      map[tube.Holder]*held
	reservations uint64   // reservations so far
	spare        []*held  // empty ones
	emptySets    []string // lease sets all of whose jobs are deleted, of which Redis was not told

	// forfeited are reservations that Redis has lost. There may be other jobs with
	// the same ids by now: what their holders still say is not meant for these.
	forfeited map[tube.Holder]map[uint64]bool
}

// keptPages is up to how many pages the shelf keeps when there is nothing on it.
const retainedPages = 16

// holding is one job. It is good until the job is dropped. It has no pointers, see shelf.go.
type holding struct {
	reservation
	holder      tube.Holder
	until       time.Duration // from base
	since       time.Duration // when it was delivered, as until
	ttr         time.Duration
	spent       uint64 // number of the last call in which the holder gives it up
	size        int    // of its body, bytes
	index       uint32 // in held
	tube        uint32 // its number
	set         uint32 // number of the lease set in which Redis has it; 0 if by itself
	hasMetadata bool   // see facts.go
}

// reservation names one that this instance has: a job may be reserved again and again.
type reservation struct {
	id     uint64 // of the job
	number uint64 // that no other reservation has
}

// leaseSet is jobs that Redis has reserved together, see lua/keys.md. Once
// something was sent that splits it, its jobs count as being by themselves; the
// script can tell if they are not, because it was never carried out.
type leaseSet struct {
	name   string
	left   int // of its jobs, that were not deleted
	split  bool
	number uint32 // among those of holdings; 0: it has none
}

// held is what one connection has reserved: a heap of places on the shelf, of which the first is
// the next to expire.
type held struct {
	slots []uint32
	slab  *slab
}

func (h *held) at(i int) *holding { return h.slab.at(h.slots[i]) }

// Len, Less and Swap implement heap.Interface.
func (h *held) Len() int           { return len(h.slots) }
func (h *held) Less(i, k int) bool { return h.at(i).until < h.at(k).until }

func (h *held) Swap(i, k int) {
	h.slots[i], h.slots[k] = h.slots[k], h.slots[i]
	h.at(i).index, h.at(k).index = uint32(i), uint32(k)
}

// Push and Pop are not called: add and remove spare what any costs.
func (h *held) Push(any) { panic("held: use add") }
func (h *held) Pop() any { panic("held: use remove") }

// add adds what is at a place on the shelf.
func (h *held) add(slot uint32) {
	last := len(h.slots)
	h.slots = append(h.slots, slot)
	h.at(last).index = uint32(last)
	heap.Fix(h, last)
}

// remove removes what has a place in h.
func (h *held) remove(slot uint32) {
	last := len(h.slots) - 1
	h.Swap(int(slot), last)
	if h.slots = h.slots[:last]; int(slot) < last {
		heap.Fix(h, int(slot))
	}
}

// next returns how long it is until the first job expires that has not yet, of
// those below a place in the heap, without some. It looks at no more jobs than twice
// those that have, and those.
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

func newHoldings(shared bool) *holdings {
	hs := &holdings{shared: shared, forfeited: make(map[tube.Holder]map[uint64]bool)}
	hs.empty()
	return hs
}

// empty begins with nothing.
func (hs *holdings) empty() {
	hs.slots, hs.slab = make(map[uint64]uint32), slab{}
	hs.tubes, hs.tubeNumbers, hs.sets = interned[string]{}, make(map[string]uint32), interned[*leaseSet]{}
	hs.holders, hs.spare, hs.emptySets = make(map[tube.Holder]*held), nil, nil
}

// count returns how many jobs the connections of this instance have.
func (hs *holdings) count() int { return len(hs.slots) }

// of returns job id; nil if nobody here has it.
func (hs *holdings) get(id uint64) *holding {
	if slot, ok := hs.slots[id]; ok {
		return hs.slab.at(slot)
	}
	return nil
}

// tubeOf returns the name of the tube of a job.
func (hs *holdings) tubeOf(held *holding) string { return hs.tubes.of(held.tube) }

// since returns when a job was delivered.
func (hs *holdings) since(held *holding) time.Time { return hs.base.Add(held.since) }

// fromBase returns a time as holdings have it.
func (hs *holdings) fromBase(t time.Time) time.Duration {
	if hs.base.IsZero() {
		hs.base = t
	}
	return t.Sub(hs.base)
}

func (hs *holdings) lock() {
	if hs.shared {
		hs.mu.Lock()
	}
}

func (hs *holdings) unlock() {
	if hs.shared {
		hs.mu.Unlock()
	}
}

// clear forgets all reservations: others have given back their jobs.
func (hs *holdings) clear() {
	hs.lock()
	defer hs.unlock()
	hs.empty()
}

// forfeit notes that all reservations are lost, and perhaps their jobs, too.
func (hs *holdings) forfeit() {
	hs.lock()
	for id, slot := range hs.slots {
		held := hs.slab.at(slot)
		lost := hs.forfeited[held.holder]
		if lost == nil {
			lost = make(map[uint64]bool)
			hs.forfeited[held.holder] = lost
		}
		lost[id] = true
	}
	hs.unlock()
	hs.clear()
}

// hold notes that h has got a job by that id, in a lease set unless that is nil.
func (hs *holdings) hold(h tube.Holder, id uint64, of job, now time.Time, in *leaseSet) {
	hs.lock()
	defer hs.unlock()
	hs.remove(id) // it was released or buried, or has expired, in this very batch
	slot, at := hs.slab.take(), hs.fromBase(now)
	hs.reservations++
	*hs.slab.at(slot) = holding{
		reservation: reservation{id, hs.reservations}, holder: h, until: at + of.ttr, since: at, ttr: of.ttr,
		tube: hs.refTube(of.tube), set: hs.refSet(in), size: len(of.body), hasMetadata: of.hasMetadata,
	}
	hs.slots[id] = slot
	held := hs.holders[h]
	if held == nil {
		held = hs.newHeld()
		hs.holders[h] = held
	}
	held.add(slot)
	if lost := hs.forfeited[h]; lost != nil {
		delete(lost, id)
	}
}

// lost returns whether h had job id reserved, but not any more since all
// reservations were lost.
func (hs *holdings) lost(h tube.Holder, id uint64) bool { return hs.forfeited[h][id] }

// forget is for a holder that is gone.
func (hs *holdings) forget(h tube.Holder) {
	if len(hs.forfeited) == 0 {
		return
	}
	hs.lock()
	defer hs.unlock()
	delete(hs.forfeited, h)
}

// useTube returns the number of a tube for one more job.
func (hs *holdings) refTube(name string) uint32 {
	number := hs.tubeNumbers[name]
	if number != 0 {
		hs.tubes.ref(number)
		return number
	}
	number = hs.tubes.add(name)
	hs.tubeNumbers[name] = number
	return number
}

func (hs *holdings) unrefTube(number uint32) {
	name := hs.tubes.of(number)
	if hs.tubes.unref(number) {
		delete(hs.tubeNumbers, name)
	}
}

// useSet returns the number of a lease set for one more of its jobs; 0 for none.
func (hs *holdings) refSet(in *leaseSet) uint32 {
	switch {
	case in == nil:
		return 0
	case in.number != 0:
		hs.sets.ref(in.number)
	default:
		in.number = hs.sets.add(in)
	}
	return in.number
}

// leaveSet notes that a job of a lease set is gone.
func (hs *holdings) unrefSet(number uint32) {
	if number == 0 {
		return
	}
	s := hs.sets.of(number)
	if s.left--; s.left == 0 && !s.split {
		hs.emptySets = append(hs.emptySets, s.name)
	}
	if hs.sets.unref(number) {
		s.number = 0
	}
}

func (hs *holdings) newHeld() *held {
	if n := len(hs.spare); n > 0 {
		held := hs.spare[n-1]
		hs.spare = hs.spare[:n-1]
		return held
	}
	return &held{slab: &hs.slab}
}

// drop notes that nobody here has job id any more.
func (hs *holdings) drop(id uint64) {
	hs.lock()
	defer hs.unlock()
	hs.remove(id)
}

func (hs *holdings) remove(id uint64) {
	slot, ok := hs.slots[id]
	if !ok {
		return
	}
	was := hs.slab.at(slot)
	delete(hs.slots, id)
	hs.unrefTube(was.tube)
	hs.unrefSet(was.set)
	hs.removeFromHolder(was)
	if hs.slab.free(slot); len(hs.slots) == 0 && len(hs.slab.pages) > retainedPages {
		hs.slab, hs.slots = slab{}, make(map[uint64]uint32) // as large as they were
	}
}

// leaveHolder notes that its holder does not have a job any more.
func (hs *holdings) removeFromHolder(was *holding) {
	held := hs.holders[was.holder]
	held.remove(was.index)
	if len(held.slots) > 0 {
		return
	}
	delete(hs.holders, was.holder)
	if cap(held.slots) < 1024 {
		hs.spare = append(hs.spare, held)
	}
}

// has returns job id if h has it, and does not give it up earlier in the same
// call; nil if not.
func (hs *holdings) heldBy(h tube.Holder, id, call uint64) *holding {
	if held := hs.get(id); held != nil && held.holder == h && held.spent != call {
		return held
	}
	return nil
}

// inSet returns whether Redis is sure to have a job in a lease set.
func (hs *holdings) inSet(held *holding) bool { return held.set != 0 && !hs.sets.of(held.set).split }

// splitSet notes that something was sent that takes a job out of its lease set other
// than by deleting it, so that the lease set is split.
func (hs *holdings) splitSet(held *holding) {
	if held.set != 0 {
		hs.sets.of(held.set).split = true
	}
}

// touch notes that the TTR of job id begins anew.
func (hs *holdings) touch(id uint64, now time.Time) {
	hs.lock()
	defer hs.unlock()
	if held := hs.get(id); held != nil {
		held.until = hs.fromBase(now) + held.ttr
		heap.Fix(hs.holders[held.holder], int(held.index))
	}
}

// soon is how long until the holder must be told DEADLINE_SOON.
func (hs *holdings) soon(h tube.Holder, now time.Time) time.Duration {
	return hs.soonWithout(h, now, nil)
}

// soonWithout is soon without some of the jobs that the holder has.
func (hs *holdings) soonWithout(h tube.Holder, now time.Time, without map[uint64]bool) time.Duration {
	hs.lock()
	defer hs.unlock()
	held := hs.holders[h]
	if held == nil {
		return storage.Forever
	}
	left := held.next(0, hs.fromBase(now), without)
	if left == storage.Forever {
		return left
	}
	return left - tube.Margin
}

// any returns whether h has anything, or had.
func (hs *holdings) holdsAny(h tube.Holder) bool {
	hs.lock()
	defer hs.unlock()
	return hs.holders[h] != nil || hs.forfeited[h] != nil
}

// countOf returns how many jobs h has.
func (hs *holdings) countOf(h tube.Holder) int {
	if held := hs.holders[h]; held != nil {
		return len(held.slots)
	}
	return 0
}

// stands returns whether a reservation has not been given up yet.
func (hs *holdings) isCurrent(r reservation) bool {
	held := hs.get(r.id)
	return held != nil && held.number == r.number
}

// some returns some of what h has, n at most, the next to expire first.
func (hs *holdings) firstOf(h tube.Holder, n int) []reservation {
	held := hs.holders[h]
	if held == nil {
		return nil
	}
	first := make([]*holding, min(n, len(held.slots)))
	for i := range first {
		first[i] = held.at(i)
	}
	slices.SortFunc(first, func(a, b *holding) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.id, b.id))
	})
	some := make([]reservation, len(first))
	for i := range some {
		some[i] = first[i].reservation
	}
	return some
}
