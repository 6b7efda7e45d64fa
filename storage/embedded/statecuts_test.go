package embedded

import (
	"math/rand/v2"
	"sync"
	"testing"

	"redstalk/storage"
)

// stateCuts is an engine that goes from one state to the next. Its power is cut at random points.
type stateCuts[S any] struct {
	t *testing.T
	*crasher
	e    *Engine
	cuts int

	random *rand.Rand
	mu     sync.Mutex // guards states
	states []S        // since the engine was opened; the last one may not be acknowledged yet
	acked  int        // index of the last one that is
}

func newStateCuts[S any](t *testing.T, first S) *stateCuts[S] {
	c := &stateCuts[S]{t: t, crasher: newCrasher(2), random: rand.New(rand.NewPCG(1, 2))}
	c.limit = 1
	c.begin(first)
	return c
}

// run makes steps until it is done, and calls check with what each power cut has left. It wants that many of them.
func (c *stateCuts[S]) run(done func() bool, step func(), check func(left *diskImage), cuts int) {
	for !done() {
		step()
		if left := c.taken(); len(left) > 0 {
			check(&left[0])
		}
	}
	c.e.Close()
	if c.t.Logf("%d power cuts", c.cuts); c.cuts < cuts {
		c.t.Errorf("only %d power cuts", c.cuts)
	}
}

func (c *stateCuts[S]) markOf() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

// begin opens the engine, which is in that state. Sometimes it lets the tables catch up before the next power cut.
func (c *stateCuts[S]) begin(s S) {
	c.mu.Lock()
	c.states, c.acked = []S{s}, 0
	c.mu.Unlock()
	wait := c.cuts%3 == 2
	c.setPoints(!wait)
	c.e = mustOpen(c.t, c.options(c.t))
	if wait {
		eventually(c.t, "the tables to catch up", func() bool { oldest, current := segments(c.e); return oldest == current })
		c.setPoints(true)
	}
}

// setPoints sets whether the power can be cut from now on.
func (c *stateCuts[S]) setPoints(on bool) {
	c.crasher.mu.Lock()
	defer c.crasher.mu.Unlock()
	c.interval, c.mark = []int{10, 40, 200}[c.cuts%3], nil
	if on {
		c.mark = c.markOf
	}
}

// change carries out operations that lead to a state.
func (c *stateCuts[S]) change(to S, ops ...storage.Op) []storage.Op {
	c.mu.Lock()
	c.states = append(c.states, to)
	c.mu.Unlock()
	do(c.t, c.e, ops...)
	c.mu.Lock()
	c.acked = len(c.states) - 1
	c.mu.Unlock()
	return ops
}

func (c *stateCuts[S]) last() S { return c.states[len(c.states)-1] }

// goOn opens the engine with what a power cut has left.
func (c *stateCuts[S]) goOn(left *diskImage) {
	c.crasher.mu.Lock()
	c.writing, c.remains = nil, nil // the engine that ends here may have had another one
	c.crasher.mu.Unlock()
	c.e.Close()
	c.cuts++
	c.fs = left.fs
	var unknown S
	c.begin(unknown)
}
