package storetest

import (
	"strings"
	"sync"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// Walk is a random history that a test runs step by step. So the test can examine what is
// stored between two steps and in the middle of one.
type Walk struct{ h *history }

// FirstSeed returns the seed given on the command line.
func FirstSeed() uint64 { return *firstSeed }

// NewWalk opens a store of the engine and begins a history on it.
func NewWalk(t testing.TB, e *Engine, seed uint64) *Walk {
	h := newHistory(t, e, seed)
	h.trail = &trail{}
	h.trail.acknowledge(h.trail.add(h.model))
	return &Walk{h: h}
}

// WithRules adds tags, policies, leases and schedules to the history from now on, and groups to every
// second one.
func (w *Walk) WithRules() {
	w.h.setRules(true)
	w.h.groups = w.h.random.IntN(2) == 0
}

// Step does a step. It fails the test if an answer differs from the model's. It returns false
// once the store has answered with storage.ErrClosed.
func (w *Walk) Step() bool {
	if !w.h.ended {
		w.h.step()
	}
	return !w.h.ended
}

// Acknowledge makes the store acknowledge all that has happened so far, including what no
// client was notified of, such as the end of a delay.
func (w *Walk) Acknowledge() {
	if w.h.engine.LateReserves {
		w.h.compare([]storage.Op{{Kind: storage.Pause, Tube: tube.Default, Delay: 1}})
		return
	}
	n := w.h.trail.last()
	w.h.totals()
	w.h.trail.acknowledge(n)
}

// Store returns the store that is open now.
func (w *Walk) Store() storage.Store { return w.h.store }

// Mark returns the number of the last state that was acknowledged. It may be called
// from any goroutine.
func (w *Walk) Mark() int { return w.h.trail.mark() }

// Since returns copies of the model in the state of that number and in all later
// states.
func (w *Walk) Since(mark int) []*Model { return w.h.trail.since(mark) }

// Log returns what has happened.
func (w *Walk) Log() string { return strings.Join(w.h.log, "\n") }

// trail is the list of states that a history has gone through. A nil trail stores none.
type trail struct {
	mu     sync.Mutex
	states []*Model
	parts  map[int][]*Model // within the batch that leads to states[i]: see split
	acked  int              // index of the last one that was acknowledged
}

// add appends the present state of the model. It returns the state's number.
func (t *trail) add(m *Model) int {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states = append(t.states, m.Clone())
	return len(t.states) - 1
}

// split adds the present state of the model, which is within a batch, to the states that are possible until the next
// one is acknowledged. A store carries out a batch in parts if it has to read a body first.
func (t *trail) split(m *Model) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts == nil {
		t.parts = make(map[int][]*Model)
	}
	next := len(t.states)
	t.parts[next] = append(t.parts[next], m.Clone())
}

// acknowledge records that state n, and all before it, were acknowledged.
func (t *trail) acknowledge(n int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = max(t.acked, n)
}

func (t *trail) mark() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acked
}

func (t *trail) last() int {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.states) - 1
}

func (t *trail) since(n int) (states []*Model) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := n; i < len(t.states); i++ {
		if i > n {
			states = append(states, t.parts[i]...)
		}
		states = append(states, t.states[i])
	}
	return states
}
