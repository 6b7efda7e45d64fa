package server

import (
	"container/list"
	"sync"
	"sync/atomic"

	"redstalk/storage"
	"redstalk/tube"
)

// maxServed bounds how many of one tube's waiters the usher serves in a batch.
const maxServed = 64

// hall is where connections wait for a job, first come first served. A hint
// that a tube has a job has one taken for the first in line; while that works it
// goes on, for twice as many each time. One such round is under way at a time.
// They belong to the loops, which make a round part of their next turn, as long
// as one is awake: to wake another thread takes longer than all the rest. If none
// is, the usher, a goroutine, does.
//
// No hint is lost on somebody who is just coming in: he remembers knocks from
// before he looked for a job by himself, and if it has changed when he has
// joined, a round is made for him.
type hall struct {
	store storage.Store
	bell  chan struct{} // capacity 1: there is something in dirty, for the usher
	quit  chan struct{}
	done  chan struct{}

	knocks atomic.Uint64 // hints so far
	size   atomic.Int64  // waiters

	mu    sync.Mutex
	lines map[string]*list.List // of *waiter, by tube, by arrival
	dirty map[string]int        // tubes to serve, and how many of each line
	busy  bool                  // a round is under way
	awake int                   // loops that ask for a round before they sleep
}

// waiter is a connection in the hall.
type waiter struct {
	holder tube.Holder
	tubes  []string
	notify func() // called once there is an outcome, unless leave returned true

	// guarded by hall.mu
	places  []*list.Element // in the lines of tubes, by their order; nil when not waiting
	serving bool            // a round is taking a job for him
	leaving bool            // wants to go once that is decided
	decided bool            // he is out of the hall, with this answer:
	answer  storage.Answer  // NotFound if he left while being served
}

func newHall(store storage.Store) *hall {
	return &hall{
		store: store,
		bell:  make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		lines: make(map[string]*list.List), dirty: make(map[string]int),
	}
}

func (h *hall) start() { go h.usher() }

func (h *hall) stop() {
	close(h.quit)
	<-h.done
}

// Ready implements storage.Listener.
func (h *hall) Ready(tube string) bool {
	h.knocks.Add(1)
	if h.size.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.call(tube)
}

// call notes that the line of the tube is to be served; false if it is empty.
// The lock is held.
func (h *hall) call(tube string) bool {
	if h.lines[tube] == nil {
		return false
	}
	if h.dirty[tube] == 0 {
		h.dirty[tube] = 1
	}
	h.ring()
	return true
}

// ring calls the usher, if there is something that nobody else will see to. The
// lock is held.
func (h *hall) ring() {
	if h.busy || h.awake > 0 || len(h.dirty) == 0 {
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
		h.ring() // what became dirty while another round is under way
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

// look has the first in every line served, in case a hint was lost.
func (h *hall) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for tube := range h.lines {
		h.call(tube)
	}
}

// Waiting implements storage.Listener.
func (h *hall) Waiting(tube string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if line := h.lines[tube]; line != nil {
		return line.Len()
	}
	return 0
}

// join puts w at the end of the lines of its tubes. knocks is what h.knocks
// was before w looked for a job by itself.
func (h *hall) join(w *waiter, knocks uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size.Add(1)
	for _, name := range w.tubes {
		line := h.lines[name]
		if line == nil {
			line = list.New()
			h.lines[name] = line
		}
		w.places = append(w.places, line.PushBack(w))
	}
	if h.knocks.Load() != knocks {
		for _, name := range w.tubes {
			h.call(name)
		}
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
	h.strike(w)
	return true
}

// outcome returns what w has got, once that is decided.
func (h *hall) outcome(w *waiter) (answer storage.Answer, decided bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.answer, w.decided
}

// strike removes w from its lines. The lock is held.
func (h *hall) strike(w *waiter) {
	for i, name := range w.tubes {
		line := h.lines[name]
		line.Remove(w.places[i])
		if line.Len() == 0 {
			delete(h.lines, name)
		}
	}
	w.places = nil
	h.size.Add(-1)
}

// usher serves those in the lines of dirty tubes until the hall is closed.
func (h *hall) usher() {
	defer close(h.done)
	for {
		select {
		case <-h.quit:
			return
		case <-h.bell:
		}
		for b := h.glance(); b != nil; b = h.glance() {
			storage.DoBatch(h.store, b)
		}
	}
}

// begin begins a round for those in the lines of dirty tubes; nil if one is under
// way, or nobody is to be served. The lock is held.
func (h *hall) begin() *storage.Batch {
	if h.busy || len(h.dirty) == 0 {
		return nil
	}
	r := h.pick()
	if len(r.waiters) == 0 {
		return nil
	}
	h.busy = true
	// In its turn: whoever has released the job may have asked before that how
	// many wait, and is to be told of this one.
	return &storage.Batch{Ops: r.takes, InTurn: true, Done: func() {
		for _, w := range h.settle(r) {
			w.notify()
		}
	}}
}

// round is one batch of takes for those who wait.
type round struct {
	waiters []*waiter
	takes   []storage.Op
	tubes   []string       // for whose line each of the waiters was picked
	quota   map[string]int // how many of each line were to be picked
}

// pick chooses who is served next: the first of each dirty line. The lock is held.
func (h *hall) pick() round {
	r := round{quota: h.dirty}
	h.dirty = make(map[string]int)
	for name, quota := range r.quota {
		line := h.lines[name]
		if line == nil {
			continue
		}
		for e := line.Front(); e != nil && quota > 0; e = e.Next() {
			w := e.Value.(*waiter)
			if w.serving {
				continue // for another of its tubes
			}
			w.serving = true
			quota--
			r.waiters = append(r.waiters, w)
			r.tubes = append(r.tubes, name)
			r.takes = append(r.takes, storage.Op{Kind: storage.Take, Holder: w.holder, Tubes: w.tubes, Wait: true})
		}
	}
	return r
}

// settle ends a round: it gives out what was taken, and calls for another one for
// the lines in which everybody picked got a job. It returns who has an outcome.
func (h *hall) settle(r round) (decided []*waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range r.waiters {
		answer := r.takes[i].Answer
		w.serving = false
		if got := answer.Err == nil && !answer.NotFound; got || w.leaving {
			h.strike(w)
			if answer.Err != nil {
				answer = storage.Answer{NotFound: true}
			}
			w.answer, w.decided = answer, true
			decided = append(decided, w)
			if got {
				continue
			}
		}
		delete(r.quota, r.tubes[i])
	}
	for name, quota := range r.quota {
		if h.call(name) {
			h.dirty[name] = min(2*quota, maxServed)
		}
	}
	h.busy = false
	h.ring()
	return decided
}
