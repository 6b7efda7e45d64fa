package server

import (
	"sync/atomic"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// hallLab is a hall whose usher is the test: rung says whether he was called.
type hallLab struct {
	*hall
	t *testing.T
}

func newHallLab(t *testing.T) *hallLab { return &hallLab{newHall(nil), t} }

// joined has somebody wait for a job of tube t, and returns how often he was told
// of an outcome.
func (lab *hallLab) joined(h tube.Holder) *atomic.Int64 {
	told := new(atomic.Int64)
	lab.join(&waiter{holder: h, tubes: []string{"t"}, notify: func() { told.Add(1) }}, lab.knocks.Load())
	return told
}

// rung says whether the usher was called since it was last asked.
func (lab *hallLab) rung(what string, want bool) {
	lab.t.Helper()
	select {
	case <-lab.bell:
		if !want {
			lab.t.Errorf("%s: the usher was called", what)
		}
	default:
		if want {
			lab.t.Errorf("%s: the usher was not called", what)
		}
	}
}

// serve ends a round that must be for so many, of whom the first got get a job.
func (lab *hallLab) serve(what string, b *storage.Batch, many, got int) {
	lab.t.Helper()
	if b == nil || len(b.Ops) != many {
		lab.t.Fatalf("%s: the round is %+v, want one for %d", what, b, many)
	}
	for i := range b.Ops {
		b.Ops[i].Answer.NotFound = i >= got
	}
	b.Done()
}

// TestUsher: he is called if there is no loop that looks before it sleeps.
func TestUsher(t *testing.T) {
	lab := newHallLab(t)
	first, second := lab.joined(1), lab.joined(2)
	lab.Ready("t")
	lab.rung("nobody is awake", true)
	lab.serve("by the usher", lab.glance(), 1, 1)
	lab.rung("one got a job", true) // there may be more
	lab.serve("by the usher, again", lab.glance(), 1, 0)
	lab.rung("one got none", false)
	if first.Load() != 1 || second.Load() != 0 || lab.size.Load() != 1 {
		t.Errorf("told %d and %d times, and %d wait", first.Load(), second.Load(), lab.size.Load())
	}
}

// TestLoopServes: whoever waits is served by a loop that is awake, before it sleeps.
func TestLoopServes(t *testing.T) {
	lab := newHallLab(t)
	for h := range 4 {
		lab.joined(tube.Holder(h + 1))
	}
	lab.rise()
	lab.Ready("t")
	lab.rung("a loop is awake", false)
	lab.serve("beside other things", lab.glance(), 1, 1)
	lab.rung("a loop is awake, and there may be more", false)
	lab.serve("before it sleeps", lab.rest(), 2, 1)
	lab.rung("a loop is awake, and there is no more", false)
	if b := lab.rest(); b != nil {
		t.Errorf("a round for nobody: %+v", b)
	}
	lab.Ready("t")
	lab.rung("the loop sleeps", true)
	if lab.awake != 0 || lab.size.Load() != 2 {
		t.Errorf("%d loops are awake, %d wait", lab.awake, lab.size.Load())
	}
}

// TestHintDuringRound: what is hinted while a round is under way is seen to when it
// has ended, even if the loop that was awake sleeps by then.
func TestHintDuringRound(t *testing.T) {
	for _, sleeps := range []bool{true, false} {
		lab := newHallLab(t)
		lab.joined(1)
		lab.joined(2)
		lab.rise()
		lab.Ready("t")
		b := lab.glance()
		lab.Ready("t")
		if lab.glance() != nil {
			t.Fatal("two rounds are under way")
		}
		if sleeps && lab.rest() != nil {
			t.Fatal("two rounds are under way")
		}
		lab.rung("a round is under way", false)
		lab.serve("the first one", b, 1, 0)
		lab.rung("it has ended", sleeps)
		lab.serve("the second one", lab.glance(), 1, 1)
	}
}
