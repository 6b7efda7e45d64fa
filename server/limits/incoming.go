package limits

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultIncoming is how many bytes there may be room for of bodies that are on their way,
	// unless somebody says otherwise.
	DefaultIncoming = 64 << 20

	// Uncounted is up to how many bytes of a body are not counted, so that usual ones cost
	// nothing.
	Uncounted = 16 << 10

	// believed is the most that is set aside for a body because its client has announced it.
	believed = 16 << 20

	// unannounced is what is set aside at least for a body whose size is not known: then few
	// have to ask again.
	unannounced = 1 << 20

	// leastReceived is what has to come of a body in each Check while others wait for room.
	leastReceived = 64 << 10
)

// incoming is what is being received: the bodies of which a part has come, over all clients.
// Room for all of a body is set aside before much of it is read, so that those for which there is
// room need no more. Others wait for it in turn. One body may go beyond the bound, so that there
// is always one that goes on.
type incoming struct {
	most int64

	mu      sync.Mutex // guards what follows
	sum     int64
	all     map[*Arrival]struct{}
	waiting []*Arrival
	first   *Arrival    // the one beyond the bound; nil if there is none
	checks  *time.Timer // runs while anybody waits; nil if nobody does
}

// Arrival is a body that is on its way. nil is one that is not bounded.
type Arrival struct {
	in            *incoming
	goOn, giveWay func()
	came          atomic.Uint64

	// Guarded by in.mu.
	room, want int64
	waits      bool
	looked     bool   // at seen, since it may go on
	seen       uint64 // what had come then
	gone       bool   // it had to give way
}

// Arrive begins to count a body, which End ends. goOn is called when there is room for which
// Reserve has asked in vain, giveWay if the memory is needed for others: then the body should be
// given up. Neither may block, nor call an Arrival.
func (b *Bounds) Arrive(goOn, giveWay func()) *Arrival {
	if b == nil || b.incoming.most == 0 {
		return nil
	}
	a := &Arrival{in: &b.incoming, goOn: goOn, giveWay: giveWay}
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.in.all == nil {
		a.in.all = make(map[*Arrival]struct{})
	}
	a.in.all[a] = struct{}{}
	return a
}

// Came says how many bytes have come, of this body and whatever else, since the client came.
func (a *Arrival) Came(total uint64) {
	if a != nil {
		a.came.Store(total)
	}
}

// Reserve asks for room for a body of which there are have bytes, and announced ones in all
// (negative: that is not known). It reports whether more of the body may be read.
func (a *Arrival) Reserve(have, announced int64) bool {
	if a == nil {
		return true
	}
	want := min(max(2*have, believed), announced)
	if announced < 0 {
		want = max(2*have, unannounced)
	}
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.waits || have <= a.room {
		return !a.waits
	}
	a.want = max(want, have)
	if (len(a.in.waiting) == 0 || a.in.first == a) && a.in.admit(a) {
		return true
	}
	a.waits = true
	a.in.waiting = append(a.in.waiting, a)
	if a.in.checks == nil {
		a.in.checks = time.AfterFunc(Check, a.in.check)
	}
	return false
}

// admit sets room aside if there is any, or if nobody is beyond the bound.
func (in *incoming) admit(a *Arrival) bool {
	more := a.want - a.room
	switch {
	case in.sum+more <= in.most, in.first == a:
	case in.first == nil:
		in.first = a
	default:
		return false
	}
	in.sum += more
	a.room, a.waits, a.looked = a.want, false, false
	return true
}

// End says that the body has come, or is given up.
func (a *Arrival) End() {
	if a == nil {
		return
	}
	in := a.in
	in.mu.Lock()
	delete(in.all, a)
	in.sum -= a.room
	a.room = 0
	if a.waits {
		in.waiting = slices.DeleteFunc(in.waiting, func(w *Arrival) bool { return w == a })
	}
	if in.first == a || in.sum <= in.most {
		in.first = nil
	}
	var admitted []*Arrival
	for len(in.waiting) > 0 && in.admit(in.waiting[0]) {
		admitted = append(admitted, in.waiting[0])
		in.waiting = in.waiting[1:]
	}
	in.mu.Unlock()
	for _, other := range admitted {
		other.goOn()
	}
}

// check has bodies give way that come slowly, while others wait for room.
func (in *incoming) check() {
	in.mu.Lock()
	if len(in.waiting) == 0 {
		in.checks = nil
		in.mu.Unlock()
		return
	}
	in.checks.Reset(Check)
	over := in.over()
	in.mu.Unlock()
	for _, a := range over {
		a.giveWay()
	}
}

// over returns those that have to give way: of the bodies that came slowly since the last check
// the one beyond the bound, and then those with most room, until half of all would be free.
func (in *incoming) over() (over []*Arrival) {
	var slow []*Arrival
	sum := in.sum
	for a := range in.all {
		came := a.came.Load()
		switch {
		case a.waits:
			continue
		case a.gone:
			sum -= a.room
		case a.looked && came-a.seen < leastReceived:
			slow = append(slow, a)
		}
		a.looked, a.seen = true, came
	}
	slices.SortFunc(slow, func(a, b *Arrival) int { return cmp.Compare(b.room, a.room) })
	for _, a := range slow {
		if sum > in.most/2 || a == in.first {
			a.gone = true
			sum -= a.room
			over = append(over, a)
		}
	}
	return over
}

// Incoming is how much room is set aside, in bytes.
func (b *Bounds) Incoming() int64 {
	if b == nil {
		return 0
	}
	b.incoming.mu.Lock()
	defer b.incoming.mu.Unlock()
	return b.incoming.sum
}
