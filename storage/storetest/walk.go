package storetest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// Walk is a random history that a test takes step by step, to look at what is
// kept between any two of them and in the middle of one.
type Walk struct{ h *history }

// FirstSeed is the seed that was asked for on the command line.
func FirstSeed() uint64 { return *firstSeed }

// NewWalk opens a store of the engine and begins a history on it.
func NewWalk(t testing.TB, e *Engine, seed uint64) *Walk {
	h := newHistory(t, e, seed)
	h.trail = &trail{}
	h.trail.acknowledged(h.trail.happened(h.model))
	return &Walk{h: h}
}

// Step takes a step, which fails the test if an answer is not the model's. It
// returns false once the store has answered with storage.ErrClosed.
func (w *Walk) Step() bool {
	if !w.h.ended {
		w.h.step()
	}
	return !w.h.ended
}

// Settle has the store acknowledge all that has happened so far, such as the
// end of a delay, which nobody is told of.
func (w *Walk) Settle() {
	if w.h.engine.LateReserves {
		w.h.compare([]storage.Op{{Kind: storage.Pause, Tube: tube.Default, Delay: 1}})
		return
	}
	n := w.h.trail.last()
	w.h.totals()
	w.h.trail.acknowledged(n)
}

// Store returns the store as it is open now.
func (w *Walk) Store() storage.Store { return w.h.store }

// Mark returns the number of the last state that was acknowledged. It may be
// called from any goroutine.
func (w *Walk) Mark() int { return w.h.trail.mark() }

// Since returns the model as it was in the state of that number and in all
// later ones.
func (w *Walk) Since(mark int) []*Model { return w.h.trail.since(mark) }

// Log tells what has happened.
func (w *Walk) Log() string { return strings.Join(w.h.log, "\n") }

// trail is the states that a history has gone through. A nil one keeps none.
type trail struct {
	mu     sync.Mutex
	states []*Model
	acked  int // index of the last one that was acknowledged
}

// happened notes what the model has become and returns the state's number.
func (t *trail) happened(m *Model) int {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states = append(t.states, m.Clone())
	return len(t.states) - 1
}

func (t *trail) acknowledged(n int) {
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
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.states) - 1
}

func (t *trail) since(n int) []*Model {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.states[n:])
}

// Clone returns a copy that goes its own way.
func (m *Model) Clone() *Model {
	c := *m
	c.tubes, c.jobs = make([]*modelTube, 0, len(m.tubes)), make([]*modelJob, 0, len(m.jobs))
	copies := make(map[*modelTube]*modelTube)
	for _, t := range m.tubes {
		tube := *t
		copies[t] = &tube
		c.tubes = append(c.tubes, &tube)
	}
	for _, j := range m.jobs {
		job := *j
		job.tube = copies[j.tube]
		c.jobs = append(c.jobs, &job)
	}
	return &c
}

// LastID returns the largest id that was given out.
func (m *Model) LastID() uint64 { return m.lastID }

// Reopened returns what survives of m for whoever opens the store at the time
// of the model now. Delays and pauses that are over by then are over.
func (m *Model) Reopened(keepsTubes bool, now *Model) *Model {
	c := m.Clone()
	c.Reopen(keepsTubes)
	c.Tick(now.now)
	return c
}

// Differs compares all that a store answers with what m would, and says where
// they differ; "" if nowhere. Neither is changed.
func (m *Model) Differs(s storage.Store) string {
	ops := []storage.Op{{Kind: storage.Stats}, {Kind: storage.Tubes}}
	for _, name := range tubeNames {
		ops = append(ops, storage.Op{Kind: storage.TubeStats, Tube: name})
		for _, state := range []tube.State{tube.Ready, tube.Delayed, tube.Buried} {
			ops = append(ops, storage.Op{Kind: storage.PeekHead, Tube: name, State: state})
		}
	}
	for id := range m.lastID + 3 {
		ops = append(ops, storage.Op{Kind: storage.JobStats, ID: id}, storage.Op{Kind: storage.Peek, ID: id})
	}
	return m.agrees(s, ops...)
}

// DiffersApart takes both apart to compare what only shows then: the order of
// delayed and buried jobs, and the id of the next one.
func (m *Model) DiffersApart(s storage.Store) string {
	for _, name := range tubeNames {
		for _, state := range []tube.State{tube.Delayed, tube.Buried} {
			head := storage.Op{Kind: storage.PeekHead, Tube: name, State: state}
			for {
				if diff := m.agrees(s, head); diff != "" {
					return diff
				}
				first := m.first(state, func(j *modelJob) bool { return j.tube.name == name })
				if first == nil {
					break
				}
				if diff := m.agrees(s, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: first.id}); diff != "" {
					return diff
				}
			}
		}
	}
	return m.agrees(s, storage.Op{Kind: storage.Put, Tube: "a"})
}

// agrees has both carry out the operations and says where they differ.
func (m *Model) agrees(s storage.Store, ops ...storage.Op) string {
	mine := slices.Clone(ops)
	for i := range mine {
		m.Do(&mine[i])
	}
	storage.DoWait(s, ops)
	for i := range ops {
		if diff := differ(&ops[i].Answer, &mine[i].Answer, 1); diff != "" {
			return diff + ": " + describe(&ops[i]) + "\nstore: " + show(&ops[i].Answer) + "\nmodel: " + show(&mine[i].Answer)
		}
	}
	return ""
}

// hasEnded tells whether the store that gave these answers has ended.
func hasEnded(done []storage.Op) bool {
	for i := range done {
		if errors.Is(done[i].Answer.Err, storage.ErrClosed) {
			return true
		}
	}
	return false
}
