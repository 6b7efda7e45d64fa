package tube

import "container/heap"

// alarm says when its owner, a tube or a holder, next has something due.
type alarm struct {
	at      Instant
	pos     int      // index among the alarms; -1 when not set
	tube    *Tube    // whose delays or pause, or
	holding *holding // whose reservations
}

// alarms is a container/heap of the set alarms, the earliest first.
type alarms []*alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at < a[j].at }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].pos, a[j].pos = i, j
}

// Push and Pop are for container/heap only.
func (a *alarms) Push(x any) {
	x.(*alarm).pos = len(*a)
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

// set arms x for the instant at, or disarms it if at is Never.
func (a *alarms) set(x *alarm, at Instant) {
	switch {
	case x.pos >= 0 && at == Never:
		heap.Remove(a, x.pos)
	case x.pos >= 0 && at != x.at:
		x.at = at
		heap.Fix(a, x.pos)
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
