package redis

import (
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// holdings is what the connections of this instance have reserved, and until
// when by the local clock. Redis knows which jobs the instance has; which of
// its connections has them is known here only, which spares Redis the trouble.
// It is exact as long as batches are recorded one after the other: nobody else
// takes a job from an instance without having given it up, and then the script
// says so (LOST).
//
// It belongs to whoever makes the calls of the partition; only soon and any may
// be called by others, if it is shared.
type holdings struct {
	shared bool
	mu     sync.Mutex // held when anything changes, or others look; if shared

	jobs    map[uint64]*holding
	holders map[tube.Holder]*held
	spare   []*held    // empty ones
	used    []*holding // to be used again
	over    []string   // groups all of whose jobs are deleted, of which Redis was not told
}

// maxUsed bounds how many holdings are kept to be used again.
const maxUsed = 1024

// holding is one job. It is good until the job is dropped.
type holding struct {
	holder tube.Holder
	place  int // in held.ids
	until  time.Time
	ttr    time.Duration
	tube   string
	spent  uint64 // number of the last call in which the holder gives it up
	group  *group // in which Redis has it; nil if by itself
}

// group is jobs that Redis has reserved together, see lua/10_batch.lua. Once
// something was sent that splits it, its jobs count as being by themselves; the
// script can tell if they are not, because it was never carried out.
type group struct {
	name  string
	left  int // of its jobs, that were not deleted
	split bool
}

// held is what one connection has reserved.
type held struct{ ids []uint64 }

func newHoldings(shared bool) *holdings {
	return &holdings{shared: shared, jobs: make(map[uint64]*holding), holders: make(map[tube.Holder]*held)}
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

// clear forgets everything.
func (hs *holdings) clear() {
	hs.lock()
	defer hs.unlock()
	clear(hs.jobs)
	clear(hs.holders)
	hs.over = nil
}

// hold notes that h has got job id of a tube, in a group unless that is nil.
func (hs *holdings) hold(h tube.Holder, id uint64, name string, ttr time.Duration, now time.Time, in *group) {
	hs.lock()
	defer hs.unlock()
	hs.remove(id) // it was given up, or has expired, in this very batch
	its := hs.holders[h]
	if its == nil {
		its = hs.newHeld()
		hs.holders[h] = its
	}
	job := hs.newHolding()
	*job = holding{holder: h, place: len(its.ids), until: now.Add(ttr), ttr: ttr, tube: name, group: in}
	hs.jobs[id] = job
	its.ids = append(its.ids, id)
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
	if len(hs.used) < maxUsed {
		hs.used = append(hs.used, was)
	}
	if g := was.group; g != nil {
		if g.left--; g.left == 0 && !g.split {
			hs.over = append(hs.over, g.name)
		}
	}
	its := hs.holders[was.holder]
	last := len(its.ids) - 1
	if moved := its.ids[last]; moved != id {
		its.ids[was.place] = moved
		hs.jobs[moved].place = was.place
	}
	its.ids = its.ids[:last]
	if last == 0 {
		delete(hs.holders, was.holder)
		if cap(its.ids) < 1024 {
			hs.spare = append(hs.spare, its)
		}
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

// grouped returns whether Redis is sure to have the job in a group.
func (h *holding) grouped() bool { return h.group != nil && !h.group.split }

// split notes that something was sent that takes the job out of its group other
// than by deleting it, so that the group is split.
func (h *holding) split() {
	if h.group != nil {
		h.group.split = true
	}
}

// touch notes that the TTR of job id begins anew.
func (hs *holdings) touch(id uint64, now time.Time) {
	hs.lock()
	defer hs.unlock()
	if its := hs.jobs[id]; its != nil {
		its.until = now.Add(its.ttr)
	}
}

// soon is how long until the holder must be told DEADLINE_SOON.
func (hs *holdings) soon(h tube.Holder, now time.Time) time.Duration {
	hs.lock()
	defer hs.unlock()
	soon := storage.Forever
	if its := hs.holders[h]; its != nil {
		for _, id := range its.ids {
			if left := hs.jobs[id].until.Sub(now); left >= 0 {
				soon = min(soon, left-tube.Margin)
			}
		}
	}
	return soon
}

// any returns whether h has anything.
func (hs *holdings) any(h tube.Holder) bool {
	hs.lock()
	defer hs.unlock()
	return hs.holders[h] != nil
}

// of returns the ids of what h has; they change with the next call of a
// method.
func (hs *holdings) of(h tube.Holder) []uint64 {
	if its := hs.holders[h]; its != nil {
		return its.ids
	}
	return nil
}
