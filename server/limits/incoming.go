package limits

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultIncoming is the default limit for bodies that are being received, in bytes.
	DefaultIncoming = 64 << 20

	// Uncounted is the size up to which a body is not counted, in bytes, so that ordinary ones
	// cost nothing.
	Uncounted = 16 << 10

	// maxAnnounced limits the room that is reserved for a body because its client has announced
	// its size.
	maxAnnounced = 16 << 20

	// minUnannounced is the least room that is reserved for a body of unknown size, so that few
	// have to ask again.
	minUnannounced = 1 << 20

	// minReceived is how much of a body must arrive in each Check while others wait for room.
	minReceived = 64 << 10
)

// incoming limits what is being received: all bodies that have arrived in part, of all
// clients. Room for a whole body is reserved before much of it is read, so that a body with
// room needs no more. Others wait for room in order. One body may exceed the limit, so that
// there is always one that can continue.
type incoming struct {
	max int64

	mu        sync.Mutex // guards the fields below
	sum       int64
	all       map[*Arrival]struct{}
	waiting   []*Arrival
	overLimit *Arrival    // the body that exceeds the limit; nil if there is none
	checks    *time.Timer // runs while a body waits; nil if none does
}

// Arrival is a body that is being received. A nil Arrival is not limited.
type Arrival struct {
	in              *incoming
	resume, giveWay func()
	received        atomic.Uint64

	// Guarded by in.mu.
	room, want int64
	waits      bool
	checked    bool   // seen is set, since it may continue
	seen       uint64 // what had been received at the last check
	gone       bool   // it had to give way
}

// Arrive begins to count a body, until End. resume is called when there is room after
// Reserve has refused it, giveWay if the memory is needed for others: then the body should
// be given up. Neither may block, nor call an Arrival.
func (b *Limits) Arrive(goOn, giveWay func()) *Arrival {
	if b == nil || b.incoming.max == 0 {
		return nil
	}
	a := &Arrival{in: &b.incoming, resume: goOn, giveWay: giveWay}
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.in.all == nil {
		a.in.all = make(map[*Arrival]struct{})
	}
	a.in.all[a] = struct{}{}
	return a
}

// Received sets how many bytes have arrived since the client connected, of this body and
// everything else.
func (a *Arrival) Received(total uint64) {
	if a != nil {
		a.received.Store(total)
	}
}

// Reserve asks for room for a body of which have bytes are here. announced is its size;
// negative if unknown. It reports whether more of the body may be read.
func (a *Arrival) Reserve(have, announced int64) bool {
	if a == nil {
		return true
	}
	want := min(max(2*have, maxAnnounced), announced)
	if announced < 0 {
		want = max(2*have, minUnannounced)
	}
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.waits || have <= a.room {
		return !a.waits
	}
	a.want = max(want, have)
	if (len(a.in.waiting) == 0 || a.in.overLimit == a) && a.in.admit(a) {
		return true
	}
	a.waits = true
	a.in.waiting = append(a.in.waiting, a)
	if a.in.checks == nil {
		a.in.checks = time.AfterFunc(Check, a.in.check)
	}
	return false
}

// admit reserves room if there is any, or if no body exceeds the limit.
func (in *incoming) admit(a *Arrival) bool {
	more := a.want - a.room
	switch {
	case in.sum+more <= in.max, in.overLimit == a:
	case in.overLimit == nil:
		in.overLimit = a
	default:
		return false
	}
	in.sum += more
	a.room, a.waits, a.checked = a.want, false, false
	return true
}

// End ends the counting: the body is complete, or given up.
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
	if in.overLimit == a || in.sum <= in.max {
		in.overLimit = nil
	}
	var admitted []*Arrival
	for len(in.waiting) > 0 && in.admit(in.waiting[0]) {
		admitted = append(admitted, in.waiting[0])
		in.waiting = in.waiting[1:]
	}
	in.mu.Unlock()
	for _, other := range admitted {
		other.resume()
	}
}

// check makes bodies that arrive slowly give way, while others wait for room.
func (in *incoming) check() {
	in.mu.Lock()
	if len(in.waiting) == 0 {
		in.checks = nil
		in.mu.Unlock()
		return
	}
	in.checks.Reset(Check)
	excess := in.excess()
	in.mu.Unlock()
	for _, a := range excess {
		a.giveWay()
	}
}

// excess returns the bodies that must give way: of those that arrived slowly since the last
// check the one that exceeds the limit, and then those with most room, until half of the
// limit would be free.
func (in *incoming) excess() (excess []*Arrival) {
	var slow []*Arrival
	sum := in.sum
	for a := range in.all {
		received := a.received.Load()
		switch {
		case a.waits:
			continue
		case a.gone:
			sum -= a.room
		case a.checked && received-a.seen < minReceived:
			slow = append(slow, a)
		}
		a.checked, a.seen = true, received
	}
	slices.SortFunc(slow, func(a, b *Arrival) int { return cmp.Compare(b.room, a.room) })
	for _, a := range slow {
		if sum > in.max/2 || a == in.overLimit {
			a.gone = true
			sum -= a.room
			excess = append(excess, a)
		}
	}
	return excess
}

// Incoming returns how much room is reserved, in bytes.
func (b *Limits) Incoming() int64 {
	if b == nil {
		return 0
	}
	b.incoming.mu.Lock()
	defer b.incoming.mu.Unlock()
	return b.incoming.sum
}
