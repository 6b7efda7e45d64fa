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

// holdings is what the connections of this instance have reserved, and until when by the local
// clock. Redis knows which jobs the instance has. Which of its connections has them is known
// only here, which saves work in Redis. It is exact as long as batches are recorded one after
// the other: no other instance takes a job from this one without having declared it dead, and
// then the script says so (LOST).
//
// It belongs to the caller of the partition. Only soon and holdsAny can be
// called by other goroutines, and only if shared is set.
type holdings struct {
	shared bool
	mu     sync.Mutex // if shared: held while anything changes, or other goroutines read

	slots        map[uint64]uint32 // of jobs in the slab
	slab         slab
	tubes        nameTable           // of the jobs
	groups       nameTable           // of the jobs whose metadata says only that
	sets         interned[*leaseSet] // of the jobs
	base         time.Time           // the times of holdings are relative to this
	holders      map[tube.Holder]*held
	reservations uint64   // number of reservations so far
	spare        []*held  // empty ones
	emptySets    []string // lease sets without jobs, of which Redis has not been told

	// forfeited are reservations that Redis has lost, or whose jobs were taken back. By now there can be other jobs with the
	// same ids, or others can hold them: commands of the old holders are not meant for these.
	forfeited map[tube.Holder]map[uint64]bool
}

// retainedPages is up to how many pages the slab keeps when it is empty.
const retainedPages = 16

func newHoldings(shared bool) *holdings {
	hs := &holdings{shared: shared, forfeited: make(map[tube.Holder]map[uint64]bool)}
	hs.empty()
	return hs
}

// empty resets everything to nothing.
func (hs *holdings) empty() {
	hs.slots, hs.slab = make(map[uint64]uint32), slab{}
	hs.tubes, hs.groups, hs.sets = nameTable{}, nameTable{}, interned[*leaseSet]{}
	hs.holders, hs.spare, hs.emptySets = make(map[tube.Holder]*held), nil, nil
}

// count returns how many jobs the connections of this instance hold.
func (hs *holdings) count() int { return len(hs.slots) }

// get returns a job; nil if no connection here holds it.
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

// fromBase returns a time relative to base.
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

// clear forgets all reservations: other instances have given back the jobs.
func (hs *holdings) clear() {
	hs.lock()
	defer hs.unlock()
	hs.empty()
}

// forfeit records that all reservations are lost, and perhaps their jobs as well.
func (hs *holdings) forfeit() {
	hs.lock()
	for _, slot := range hs.slots {
		hs.lose(hs.slab.at(slot))
	}
	hs.unlock()
	hs.clear()
}

func (hs *holdings) lose(held *holding) {
	lost := hs.forfeited[held.holder]
	if lost == nil {
		lost = make(map[uint64]bool)
		hs.forfeited[held.holder] = lost
	}
	lost[held.id] = true
}

// takeBack records that a job was taken back, if a connection here has it.
func (hs *holdings) takeBack(id uint64) {
	hs.lock()
	defer hs.unlock()
	if held := hs.get(id); held != nil {
		hs.lose(held)
		hs.remove(id)
	}
}

// hold records that h has got a job, in a lease set unless that is nil.
func (hs *holdings) hold(h tube.Holder, id uint64, of job, now time.Time, in *leaseSet) {
	hs.lock()
	defer hs.unlock()
	hs.remove(id) // it was released or buried, or has expired, in this very batch
	slot, at := hs.slab.alloc(), hs.fromBase(now)
	hs.reservations++
	*hs.slab.at(slot) = holding{
		reservation: reservation{id, hs.reservations}, holder: h, until: at + of.ttr, since: at, ttr: of.ttr,
		tube: hs.tubes.refName(of.tube), set: hs.refSet(in), size: len(of.body), metadata: hs.refMetadata(&of),
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

// lost returns whether h had reserved a job before all reservations were lost, or the job was taken back.
func (hs *holdings) lost(h tube.Holder, id uint64) bool { return hs.forfeited[h][id] }

// forgetHolder is called when a holder is gone.
func (hs *holdings) forgetHolder(h tube.Holder) {
	if len(hs.forfeited) == 0 {
		return
	}
	hs.lock()
	defer hs.unlock()
	delete(hs.forfeited, h)
}

// refMetadata returns holding.metadata of a job.
func (hs *holdings) refMetadata(of *job) uint32 {
	switch {
	case of.group != "":
		return hs.groups.refName(of.group)
	case of.hasMetadata:
		return otherMetadata
	}
	return 0
}

// addMetadata records that the metadata of a job says more than its group from now on.
func (hs *holdings) addMetadata(held *holding) {
	if held.metadata != otherMetadata {
		hs.groups.unrefName(held.metadata)
		held.metadata = otherMetadata
	}
}

// groupOf returns the group of a job whose metadata says only that; else "".
func (hs *holdings) groupOf(held *holding) string {
	if held.metadata == otherMetadata {
		return ""
	}
	return hs.groups.of(held.metadata)
}

// refSet returns the number of a lease set for one more of its jobs; 0 for none.
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

// unrefSet records that a job of a lease set is gone.
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

// drop records that no connection here holds a job any more.
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
	hs.tubes.unrefName(was.tube)
	if was.metadata != otherMetadata {
		hs.groups.unrefName(was.metadata)
	}
	hs.unrefSet(was.set)
	hs.removeFromHolder(was)
	if hs.slab.free(slot); len(hs.slots) == 0 && len(hs.slab.pages) > retainedPages {
		hs.slab, hs.slots = slab{}, make(map[uint64]uint32) // a map never shrinks
	}
}

// removeFromHolder records that a holder does not have a job any more.
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

// heldBy returns a job if h has it, and does not give it up earlier in the same call; else nil.
func (hs *holdings) heldBy(h tube.Holder, id, call uint64) *holding {
	if held := hs.get(id); held != nil && held.holder == h && held.spent != call {
		return held
	}
	return nil
}

// inSet returns whether Redis certainly has a job in a lease set.
func (hs *holdings) inSet(held *holding) bool { return held.set != 0 && !hs.sets.of(held.set).split }

// splitSet records that an operation other than a delete was sent for a job, which splits its
// lease set.
func (hs *holdings) splitSet(held *holding) {
	if held.set != 0 {
		hs.sets.of(held.set).split = true
	}
}

// touch restarts the TTR of a job.
func (hs *holdings) touch(id uint64, now time.Time) {
	hs.lock()
	defer hs.unlock()
	if held := hs.get(id); held != nil {
		held.until = hs.fromBase(now) + held.ttr
		heap.Fix(hs.holders[held.holder], int(held.index))
	}
}

// soon returns how long it is until the holder must be answered DEADLINE_SOON.
func (hs *holdings) soon(h tube.Holder, now time.Time) time.Duration {
	return hs.soonWithout(h, now, nil)
}

// soonWithout is soon without some of the jobs of the holder.
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

// holdsAny returns whether h holds anything, or did.
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

// isCurrent returns whether a reservation has not been given up yet.
func (hs *holdings) isCurrent(r reservation) bool {
	held := hs.get(r.id)
	return held != nil && held.number == r.number
}

// firstOf returns up to n reservations of h, the next to expire first.
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
