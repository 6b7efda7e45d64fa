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

	jobs    map[uint64]*holding
	holders map[tube.Holder]*held
	begun   uint64     // reservations so far
	spare   []*held    // empty ones
	used    []*holding // to be used again
	over    []string   // lease sets all of whose jobs are deleted, of which Redis was not told

	// forfeited are reservations that Redis has lost. There may be other jobs with
	// the same ids by now: what their holders still say is not meant for these.
	forfeited map[tube.Holder]map[uint64]bool
}

// maxUsed bounds how many holdings are kept to be used again.
const maxUsed = 1024

// holding is one job. It is good until the job is dropped.
type holding struct {
	reservation
	holder tube.Holder
	place  int // in held
	until  time.Time
	since  time.Time // when it was delivered, as until
	ttr    time.Duration
	tube   string
	spent  uint64    // number of the last call in which the holder gives it up
	set    *leaseSet // in which Redis has it; nil if by itself

	size     int  // of its body, bytes
	hasFacts bool // see facts.go
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
	name  string
	left  int // of its jobs, that were not deleted
	split bool
}

// held is what one connection has reserved: a heap, of which the first is the
// next to expire.
type held struct{ jobs []*holding }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h *held) Len() int           { return len(h.jobs) }
func (h *held) Less(i, k int) bool { return h.jobs[i].until.Before(h.jobs[k].until) }

func (h *held) Swap(i, k int) {
	h.jobs[i], h.jobs[k] = h.jobs[k], h.jobs[i]
	h.jobs[i].place, h.jobs[k].place = i, k
}

func (h *held) Push(job any) {
	its := job.(*holding)
	its.place = len(h.jobs)
	h.jobs = append(h.jobs, its)
}

func (h *held) Pop() any {
	last := len(h.jobs) - 1
	job := h.jobs[last]
	h.jobs[last] = nil
	h.jobs = h.jobs[:last]
	return job
}

// next returns how long it is until the first job expires that has not yet, of
// those below a place in the heap, without some. It looks at no more jobs than twice
// those that have, and those.
func (h *held) next(at int, now time.Time, without map[uint64]bool) time.Duration {
	if at >= len(h.jobs) {
		return storage.Forever
	}
	if left := h.jobs[at].until.Sub(now); left >= 0 && !without[h.jobs[at].id] {
		return left
	}
	return min(h.next(2*at+1, now, without), h.next(2*at+2, now, without))
}

func newHoldings(shared bool) *holdings {
	return &holdings{
		shared: shared, jobs: make(map[uint64]*holding), holders: make(map[tube.Holder]*held),
		forfeited: make(map[tube.Holder]map[uint64]bool),
	}
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
	clear(hs.jobs)
	clear(hs.holders)
	hs.over = nil
}

// forfeit notes that all reservations are lost, and perhaps their jobs, too.
func (hs *holdings) forfeit() {
	hs.lock()
	for id, its := range hs.jobs {
		lost := hs.forfeited[its.holder]
		if lost == nil {
			lost = make(map[uint64]bool)
			hs.forfeited[its.holder] = lost
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
	its := hs.holders[h]
	if its == nil {
		its = hs.newHeld()
		hs.holders[h] = its
	}
	job := hs.newHolding()
	hs.begun++
	*job = holding{
		reservation: reservation{id, hs.begun}, holder: h, until: now.Add(of.ttr), since: now, ttr: of.ttr, tube: of.tube, set: in,
		size: len(of.body), hasFacts: of.hasFacts,
	}
	hs.jobs[id] = job
	heap.Push(its, job)
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

func (hs *holdings) newHolding() *holding {
	if n := len(hs.used); n > 0 {
		job := hs.used[n-1]
		hs.used = hs.used[:n-1]
		return job
	}
	return new(holding)
}

func (hs *holdings) newHeld() *held {
	if n := len(hs.spare); n > 0 {
		its := hs.spare[n-1]
		hs.spare = hs.spare[:n-1]
		return its
	}
	return &held{}
}

// drop notes that nobody here has job id any more.
func (hs *holdings) drop(id uint64) {
	hs.lock()
	defer hs.unlock()
	hs.remove(id)
}

func (hs *holdings) remove(id uint64) {
	was := hs.jobs[id]
	if was == nil {
		return
	}
	delete(hs.jobs, id)
	if s := was.set; s != nil {
		if s.left--; s.left == 0 && !s.split {
			hs.over = append(hs.over, s.name)
		}
	}
	its := hs.holders[was.holder]
	heap.Remove(its, was.place)
	if len(its.jobs) == 0 {
		delete(hs.holders, was.holder)
		if cap(its.jobs) < 1024 {
			hs.spare = append(hs.spare, its)
		}
	}
	if len(hs.used) < maxUsed {
		hs.used = append(hs.used, was)
	}
}

// has returns job id if h has it, and does not give it up earlier in the same
// call; nil if not.
func (hs *holdings) has(h tube.Holder, id, call uint64) *holding {
	if its := hs.jobs[id]; its != nil && its.holder == h && its.spent != call {
		return its
	}
	return nil
}

// inSet returns whether Redis is sure to have the job in a lease set.
func (h *holding) inSet() bool { return h.set != nil && !h.set.split }

// leaveSet notes that something was sent that takes the job out of its lease set other
// than by deleting it, so that the lease set is split.
func (h *holding) leaveSet() {
	if h.set != nil {
		h.set.split = true
	}
}

// touch notes that the TTR of job id begins anew.
func (hs *holdings) touch(id uint64, now time.Time) {
	hs.lock()
	defer hs.unlock()
	if its := hs.jobs[id]; its != nil {
		its.until = now.Add(its.ttr)
		heap.Fix(hs.holders[its.holder], its.place)
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
	its := hs.holders[h]
	if its == nil {
		return storage.Forever
	}
	left := its.next(0, now, without)
	if left == storage.Forever {
		return left
	}
	return left - tube.Margin
}

// any returns whether h has anything, or had.
func (hs *holdings) any(h tube.Holder) bool {
	hs.lock()
	defer hs.unlock()
	return hs.holders[h] != nil || hs.forfeited[h] != nil
}

// count returns how many jobs h has.
func (hs *holdings) count(h tube.Holder) int {
	if its := hs.holders[h]; its != nil {
		return len(its.jobs)
	}
	return 0
}

// stands returns whether a reservation has not been given up yet.
func (hs *holdings) stands(r reservation) bool {
	its := hs.jobs[r.id]
	return its != nil && its.number == r.number
}

// some returns some of what h has, n at most, the next to expire first.
func (hs *holdings) some(h tube.Holder, n int) []reservation {
	its := hs.holders[h]
	if its == nil {
		return nil
	}
	first := slices.Clone(its.jobs[:min(n, len(its.jobs))])
	slices.SortFunc(first, func(a, b *holding) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.id, b.id))
	})
	some := make([]reservation, len(first))
	for i := range some {
		some[i] = first[i].reservation
	}
	return some
}
