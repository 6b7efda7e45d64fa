package server

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// hall is where connections wait for a job, first come first served. A hint
// that a tube has a job has one taken for the first in line; while that works it
// goes on, for twice as many each time. One such round is under way at a time.
// They belong to the loops, which make a round part of their next turn, as long
// as one is awake: to wake another thread takes longer than all the rest. If none
// is, the usher, a goroutine, does.
//
// No hint is lost on somebody who is just coming in: he remembers knocks from
// before he looked for a job by himself, and if it has changed when he has
// joined, and he is the first in a line, one is taken for him. In the other lines
// the hint has found somebody else, and goes on from there.
//
// rounds.go says who is served in a round, lapse.go how a wait ends.
type hall struct {
	store storage.Store
	bell  chan struct{} // capacity 1: somebody is to be served, for the usher
	quit  chan struct{}
	done  chan struct{}

	knocks atomic.Uint64 // hints so far
	size   atomic.Int64  // waiters

	mu     sync.Mutex
	lines  map[string]*line // by tube, where somebody waits
	dirty  map[string]int   // tubes to serve, and how many of each line
	called []*waiter        // to be served as well, in this order
	firsts list.List        // of *waiter, each first in some line, see look
	credit int              // tubes that look may still ask for
	busy   bool             // a round is under way
	begun  time.Time        // when it began
	awake  int              // loops that ask for a round before they sleep
	lapses lapses
}

// waiter is a connection in the hall.
type waiter struct {
	holder tube.Holder
	tubes  []string
	notify func() // called once there is an outcome, unless leave returned true

	// guarded by hall.mu
	places  []place       // in the lines of tubes, by their order; nil when not waiting
	turn    *list.Element // in hall.firsts, nil if it is first in no line
	called  bool          // it is in hall.called
	leaving bool          // wants to go once the round that serves it has ended
	lapsed  time.Time     // when its limit has come, see lapse
	final   bool          // the next take is its last
	decided bool          // it is out of the hall, with this answer:
	answer  storage.Answer

	// while a round is taking a job for it
	serving bool
	passing bool // it was called, and if it gets a job, others may
	last    bool // if it gets none it is out of the hall
	got     bool // the round has brought it a job
}

// line is who waits for a job of one tube, by arrival.
type line struct {
	first, last *place
	n           int
}

// place is that of a waiter in one line.
type place struct {
	waiter     *waiter
	line       *line
	prev, next *place
}

func newHall(store storage.Store) *hall {
	return &hall{
		store: store,
		bell:  make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		lines: make(map[string]*line), dirty: make(map[string]int),
	}
}

func (h *hall) start() { go h.usher() }

func (h *hall) stop() {
	close(h.quit)
	<-h.done
	h.stopLapses()
}

// Ready implements storage.Listener.
func (h *hall) Ready(tube string) bool {
	h.knocks.Add(1)
	if h.size.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.mark(tube, 1)
	h.ring()
	return is
}

// mark notes that so many in the line of the tube are to be served; false if it is
// empty. The lock is held.
func (h *hall) mark(tube string, quota int) bool {
	if h.lines[tube] == nil {
		return false
	}
	h.dirty[tube] = max(h.dirty[tube], quota)
	return true
}

// call notes that w is to be served, whatever its lines say. The lock is held.
func (h *hall) call(w *waiter) {
	if !w.called {
		w.called = true
		h.called = append(h.called, w)
	}
}

// ring calls the usher, if there is something that nobody else will see to. The
// lock is held.
func (h *hall) ring() {
	if h.busy || h.awake > 0 || len(h.dirty) == 0 && len(h.called) == 0 {
		return
	}
	select {
	case h.bell <- struct{}{}:
	default:
	}
}

// rise notes that a loop is awake: it will call rest.
func (h *hall) rise() {
	h.mu.Lock()
	h.awake++
	h.mu.Unlock()
}

// rest is for a loop that is about to sleep. It returns a round to be carried out
// before, or nil: then the loop does not count as awake any more.
func (h *hall) rest() *storage.Batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.begin()
	if b == nil {
		h.awake--
		h.ring() // what is to be done after the round that is under way
	}
	return b
}

// glance returns a round to be carried out, or nil.
func (h *hall) glance() *storage.Batch {
	if h.size.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begin()
}

// looksAtOnce bounds the tubes that are asked for in one look.
const looksAtOnce = 2000

// look has those served who are first in a line, in case a hint was lost: as many
// of them as looksAtOnce allows, and the next time the next ones. Who watches more
// tubes than that uses up several looks.
func (h *hall) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.credit = min(h.credit+looksAtOnce, looksAtOnce)
	for n := h.firsts.Len(); n > 0 && h.credit > 0; n-- {
		e := h.firsts.Front()
		h.firsts.MoveToBack(e)
		w := e.Value.(*waiter)
		h.credit -= len(w.tubes)
		h.call(w)
	}
	h.ring()
}

// Waiting implements storage.Listener.
func (h *hall) Waiting(tube string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if line := h.lines[tube]; line != nil {
		return line.n
	}
	return 0
}

// join puts w at the end of the lines of its tubes. knocks is what h.knocks
// was before w looked for a job by itself.
func (h *hall) join(w *waiter, knocks uint64) {
	places := make([]place, len(w.tubes))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size.Add(1)
	w.places = places
	var spare []line // allocated together, as a waiter may need very many
	for i, name := range w.tubes {
		l := h.lines[name]
		if l == nil {
			if len(spare) == 0 {
				spare = make([]line, min(len(w.tubes)-i, 32))
			}
			l, spare = &spare[0], spare[1:]
			h.lines[name] = l
		}
		places[i] = place{waiter: w, line: l}
		h.push(&places[i])
	}
	if w.turn != nil && h.knocks.Load() != knocks {
		h.call(w)
		h.ring()
	}
}

// push puts p at the end of its line. The lock is held.
func (h *hall) push(p *place) {
	l := p.line
	l.n++
	if p.prev, l.last = l.last, p; p.prev != nil {
		p.prev.next = p
		return
	}
	l.first = p
	h.leads(p.waiter)
}

// cut takes p out of its line. The lock is held.
func (h *hall) cut(p *place) {
	l := p.line
	l.n--
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.last = p.prev
	}
	if p.prev != nil {
		p.prev.next = p.next
		return
	}
	if l.first = p.next; l.first != nil {
		h.leads(l.first.waiter)
	}
}

// leads notes that w is the first in a line, which it is until it leaves. The lock
// is held.
func (h *hall) leads(w *waiter) {
	if w.turn == nil {
		w.turn = h.firsts.PushBack(w)
	}
}

// leave takes w out of the hall and returns true, or, if it is being or has
// been served, returns false: then there is or will be an outcome.
func (h *hall) leave(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.serving {
		w.leaving = true
		return false
	}
	if w.places == nil {
		return false
	}
	h.strike(w, w.called)
	h.ring()
	return true
}

// outcome returns what w has got, once that is decided.
func (h *hall) outcome(w *waiter) (answer storage.Answer, decided bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.answer, w.decided
}

// strike removes w from its lines, and has those served who are left there if
// pass is set. The lock is held.
func (h *hall) strike(w *waiter, pass bool) {
	for i := range w.places {
		p := &w.places[i]
		if h.cut(p); p.line.n == 0 {
			delete(h.lines, w.tubes[i])
		} else if pass {
			h.mark(w.tubes[i], 1)
		}
	}
	if w.turn != nil {
		h.firsts.Remove(w.turn)
	}
	w.places, w.turn = nil, nil
	h.size.Add(-1)
}

// decide takes w out of the hall with an answer. The lock is held.
func (h *hall) decide(w *waiter, answer storage.Answer, pass bool) {
	h.strike(w, pass)
	w.answer, w.decided = answer, true
}
