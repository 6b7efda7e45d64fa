package redis

import (
	"container/heap"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// holdings is what the connections of this instance have reserved, and until
// when by the local clock. Redis decides; this is for DEADLINE_SOON, and to
// know what to give back when a connection ends. It may name a job that has
// expired or was taken away since, which the script notices.
type holdings map[tube.Holder]*held

// held is what one connection has reserved.
type held struct {
	until map[uint64]time.Time // by job id
	first deadlines            // may hold out-of-date entries
}

type deadline struct {
	at time.Time
	id uint64
}

// hold notes that h has job id until then, or longer than before.
func (hs holdings) hold(h tube.Holder, id uint64, until time.Time) {
	held := hs[h]
	if held == nil {
		held = newHeld()
		hs[h] = held
	}
	held.until[id] = until
	heap.Push(&held.first, deadline{until, id})
	if len(held.first) > 2*len(held.until)+16 {
		held.rebuild()
	}
}

// drop notes that h no longer has job id.
func (hs holdings) drop(h tube.Holder, id uint64) {
	if held := hs[h]; held != nil {
		delete(held.until, id)
		if len(held.until) == 0 {
			delete(hs, h)
		}
	}
}

// soon is how long until the holder must be told DEADLINE_SOON.
func (hs holdings) soon(h tube.Holder, now time.Time) time.Duration {
	held := hs[h]
	if held == nil {
		return storage.Forever
	}
	for len(held.first) > 0 {
		d := held.first[0]
		switch until, has := held.until[d.id]; {
		case !has || !until.Equal(d.at):
			heap.Pop(&held.first) // given up or touched since
		case until.Before(now):
			heap.Pop(&held.first) // expired
			delete(held.until, d.id)
		default:
			return until.Sub(now) - tube.Margin
		}
	}
	return storage.Forever
}

// leave forgets h and returns the ids of what it had.
func (hs holdings) leave(h tube.Holder) []uint64 {
	held := hs[h]
	if held == nil {
		return nil
	}
	ids := make([]uint64, 0, len(held.until))
	for id := range held.until {
		ids = append(ids, id)
	}
	delete(hs, h)
	return ids
}

func newHeld() *held { return &held{until: make(map[uint64]time.Time)} }

// rebuild drops the entries that are out of date.
func (h *held) rebuild() {
	h.first = h.first[:0]
	for id, until := range h.until {
		h.first = append(h.first, deadline{until, id})
	}
	heap.Init(&h.first)
}

// deadlines is a container/heap, the nearest first.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// Push and Pop are for container/heap only.
func (d *deadlines) Push(x any) { *d = append(*d, x.(deadline)) }

// Pop is for container/heap only.
func (d *deadlines) Pop() any {
	old := *d
	x := old[len(old)-1]
	*d = old[:len(old)-1]
	return x
}
