package tube

import "container/heap"

// alarm is the next due time of its owner: a tube, a holding, a throttle, the tombstones, the expiries,
// the unchecked, the listed groups, the schedules or the batches.
type alarm struct {
	at        Instant
	pos       int32     // index in alarms; -1: it is not set
	expires   bool      // the owner is the expiries
	unchecked bool      // the owner is the unchecked
	listed    bool      // the owner is the listed groups
	schedules bool      // the owner is the schedules
	batches   bool      // the owner is the batches
	tube      *Tube     // the owner if it is a tube: delays and the pause
	holding   *holding  // the owner if it is a holding: TTR deadlines
	throttle  *throttle // the owner if it is a throttle
}

// alarms is a container/heap of the alarms that are set, the earliest first.
type alarms []*alarm

func (a alarms) Len() int { return len(a) }

// Less sorts what expires behind everything else that is due at the same instant.
func (a alarms) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[j].expires && !a[i].expires
}

func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].pos, a[j].pos = int32(i), int32(j)
}

// Push is for container/heap only.
func (a *alarms) Push(x any) {
	x.(*alarm).pos = int32(len(*a))
	*a = append(*a, x.(*alarm))
}

// Pop is for container/heap only.
func (a *alarms) Pop() any {
	old := *a
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	x.pos = -1
	return x
}

// set sets x to the instant at, or removes it if at is Never.
func (a *alarms) set(x *alarm, at Instant) {
	switch {
	case x.pos >= 0 && at == Never:
		heap.Remove(a, int(x.pos))
	case x.pos >= 0 && at != x.at:
		x.at = at
		heap.Fix(a, int(x.pos))
	case x.pos < 0 && at != Never:
		x.at = at
		heap.Push(a, x)
	}
}

// next returns when the earliest alarm is due, or Never.
func (a alarms) next() Instant {
	if len(a) == 0 {
		return Never
	}
	return a[0].at
}
