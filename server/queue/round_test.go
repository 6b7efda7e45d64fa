package queue

import (
	"fmt"
	"sync/atomic"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// lab is a queue without a store, whose usher is the test: usherCalled says whether
// it was woken.
type lab struct {
	*Queue
	t *testing.T
}

func newLab(t *testing.T) *lab {
	q := &Queue{}
	q.lists.init()
	return &lab{q, t}
}

// waits begins a wait for a job of the tubes, and returns it.
func (lab *lab) waits(h tube.Holder, hints uint64, tubes ...string) *Waiter {
	w := lab.NewWaiter(h, func() {})
	w.Wait(tubes, hints, storage.Forever)
	return w
}

// joined has somebody wait for a job of tube t, and returns how often it was told
// of an outcome.
func (lab *lab) joined(h tube.Holder) *atomic.Int64 {
	told := new(atomic.Int64)
	lab.NewWaiter(h, func() { told.Add(1) }).Wait([]string{"t"}, lab.WakeUps(), storage.Forever)
	return told
}

// ready is a hint of the store.
func (lab *lab) ready(tube string) { listener{lab.Queue}.Ready(tube) }

// usherCalled says whether the usher was called since that was last asked.
func (lab *lab) usherCalled(what string, want bool) {
	lab.t.Helper()
	select {
	case <-lab.lists.wakeDispatcher:
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
func (lab *lab) serve(what string, b *storage.Batch, many, got int) {
	lab.t.Helper()
	if b == nil || len(b.Ops) != many {
		lab.t.Fatalf("%s: the round is %+v, want one for %d", what, b, many)
	}
	for i := range b.Ops {
		b.Ops[i].Answer.NotFound = i >= got
	}
	b.Done()
}

// TestUsher: it is called if there is no loop that asks for a round before it sleeps.
func TestUsher(t *testing.T) {
	lab := newLab(t)
	first, second := lab.joined(1), lab.joined(2)
	lab.ready("t")
	lab.usherCalled("nobody is awake", true)
	lab.serve("by the usher", lab.NextDispatch(), 1, 1)
	lab.usherCalled("one got a job", true) // there may be more
	lab.serve("by the usher, again", lab.NextDispatch(), 1, 0)
	lab.usherCalled("one got none", false)
	if first.Load() != 1 || second.Load() != 0 || lab.Waiters() != 1 {
		t.Errorf("told %d and %d times, and %d wait", first.Load(), second.Load(), lab.Waiters())
	}
}

// TestLoopServes: whoever waits is served by a loop that is awake, before it sleeps.
func TestLoopServes(t *testing.T) {
	lab := newLab(t)
	for h := range 4 {
		lab.joined(tube.Holder(h + 1))
	}
	lab.LoopAwake()
	lab.ready("t")
	lab.usherCalled("a loop is awake", false)
	lab.serve("beside other things", lab.NextDispatch(), 1, 1)
	lab.usherCalled("a loop is awake, and there may be more", false)
	lab.serve("before it sleeps", lab.LoopSleeps(), 2, 1)
	lab.usherCalled("a loop is awake, and there is no more", false)
	if b := lab.LoopSleeps(); b != nil {
		t.Errorf("a round for nobody: %+v", b)
	}
	lab.ready("t")
	lab.usherCalled("the loop sleeps", true)
	if lab.lists.loopsAwake != 0 || lab.Waiters() != 2 {
		t.Errorf("%d loops are awake, %d wait", lab.lists.loopsAwake, lab.Waiters())
	}
}

// TestHintDuringRound: what is hinted while a round is under way is served when it
// has ended, even if the loop that was awake sleeps by then.
func TestHintDuringRound(t *testing.T) {
	for _, sleeps := range []bool{true, false} {
		lab := newLab(t)
		lab.joined(1)
		lab.joined(2)
		lab.LoopAwake()
		lab.ready("t")
		b := lab.NextDispatch()
		lab.ready("t")
		if lab.NextDispatch() != nil {
			t.Fatal("two rounds are under way")
		}
		if sleeps && lab.LoopSleeps() != nil {
			t.Fatal("two rounds are under way")
		}
		lab.usherCalled("a round is under way", false)
		lab.serve("the first one", b, 1, 0)
		lab.usherCalled("it has ended", sleeps)
		lab.serve("the second one", lab.NextDispatch(), 1, 1)
	}
}

// TestSeveralHints: as many are served as there were hints since the last round.
func TestSeveralHints(t *testing.T) {
	lab := newLab(t)
	for h := range 100 {
		lab.joined(tube.Holder(h + 1))
	}
	for range 3 {
		lab.ready("t")
	}
	lab.serve("three hints", lab.NextDispatch(), 3, 0)
	lab.ready("t")
	lab.serve("one more hint", lab.NextDispatch(), 1, 0)
	for range 100 {
		lab.ready("t")
	}
	lab.serve("very many hints", lab.NextDispatch(), maxServed, 0)
}

// TestHintsForOneWaiter: hints for all tubes of a wait are one take, in one round,
// whether they came before it joined or after.
func TestHintsForOneWaiter(t *testing.T) {
	for _, before := range []bool{true, false} {
		lab := newLab(t)
		var tubes []string
		for i := range 100 {
			tubes = append(tubes, fmt.Sprint("t", i))
		}
		hints := lab.WakeUps()
		if before {
			lab.ready("t7")
		}
		lab.waits(1, hints, tubes...)
		for _, name := range tubes {
			if !before {
				lab.ready(name)
			}
		}
		lab.serve("all hints", lab.NextDispatch(), 1, 0)
		if b := lab.NextDispatch(); b != nil {
			t.Errorf("another round for %d", len(b.Ops))
		}
	}
}

// TestMissedHintIsPassedOn: of two jobs that came while nobody waited the second goes
// to the one who has joined behind the first, even if that one leaves.
func TestMissedHintIsPassedOn(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		lab := newLab(t)
		hints := lab.WakeUps()
		lab.ready("b")
		lab.ready("b")
		first := lab.waits(1, hints, "a", "b")
		lab.waits(2, lab.WakeUps(), "b", "c")
		if leaves {
			first.Cancel()
		} else {
			lab.serve("who has missed it", lab.NextDispatch(), 1, 1)
		}
		lab.serve("who came then", lab.NextDispatch(), 1, 0)
		if lab.Waiters() != 1 {
			t.Errorf("%d wait", lab.Waiters())
		}
	}
}

// TestWaitlistIsServedAgain: a waitlist is served again if everybody who was
// considered for it got a job, in this tube or in another one.
func TestWaitlistIsServedAgain(t *testing.T) {
	lab := newLab(t)
	for h := range 3 {
		lab.waits(tube.Holder(h+1), 0, "a", "b")
	}
	lab.ready("a")
	lab.ready("b")
	lab.serve("both tubes", lab.NextDispatch(), 1, 1)
	lab.serve("both again", lab.NextDispatch(), 2, 1)
	if b := lab.NextDispatch(); b != nil {
		t.Errorf("another round for %d", len(b.Ops))
	}
}
