package queue

import (
	"fmt"
	"sync/atomic"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// bareQueue is a queue without a store or a dispatcher; the test dispatches.
type bareQueue struct {
	*Queue
	t *testing.T
}

func newBareQueue(t *testing.T) *bareQueue {
	q := &Queue{}
	q.lists.init()
	return &bareQueue{q, t}
}

// waits begins a wait for a job of the tubes, and returns its Waiter.
func (q *bareQueue) waits(h tube.Holder, wakeUps uint64, tubes ...string) *Waiter {
	w := q.NewWaiter(h, func() {})
	w.Wait(&storage.Op{Tubes: tubes}, wakeUps, storage.Forever)
	return w
}

// joined begins a wait for a job of tube t, and returns how often its Waiter was notified.
func (q *bareQueue) joined(h tube.Holder) *atomic.Int64 {
	notified := new(atomic.Int64)
	q.NewWaiter(h, func() { notified.Add(1) }).Wait(&storage.Op{Tubes: []string{"t"}}, q.WakeUps(), storage.Forever)
	return notified
}

// wakeUpTube is a wake-up from the store.
func (q *bareQueue) wakeUpTube(tube string) { listener{q.Queue}.WakeUp(tube) }

// wantDispatcherWoken checks whether the dispatcher was woken since the last check.
func (q *bareQueue) wantDispatcherWoken(what string, want bool) {
	q.t.Helper()
	select {
	case <-q.lists.wakeDispatcher:
		if !want {
			q.t.Errorf("%s: the dispatcher was woken", what)
		}
	default:
		if want {
			q.t.Errorf("%s: the dispatcher was not woken", what)
		}
	}
}

// serve ends a dispatch, which must consist of count takes. The first got of them find
// a job.
func (q *bareQueue) serve(what string, b *storage.Batch, count, got int) {
	q.t.Helper()
	if b == nil || len(b.Ops) != count {
		q.t.Fatalf("%s: the dispatch is %+v, want one for %d", what, b, count)
	}
	for i := range b.Ops {
		b.Ops[i].Answer.NotFound = i >= got
	}
	b.Done()
}

// TestDispatcher: it is woken only if no loop is awake that asks for dispatches.
func TestDispatcher(t *testing.T) {
	q := newBareQueue(t)
	first, second := q.joined(1), q.joined(2)
	q.wakeUpTube("t")
	q.wantDispatcherWoken("nobody is awake", true)
	q.serve("by the dispatcher", q.NextDispatch(), 1, 1)
	q.wantDispatcherWoken("one got a job", true) // there may be more
	q.serve("by the dispatcher, again", q.NextDispatch(), 1, 0)
	q.wantDispatcherWoken("one got none", false)
	if first.Load() != 1 || second.Load() != 0 || q.Waiters() != 1 {
		t.Errorf("notified %d and %d times, and %d wait", first.Load(), second.Load(), q.Waiters())
	}
}

// TestLoopServes: a loop that is awake serves the waiters before it sleeps.
func TestLoopServes(t *testing.T) {
	q := newBareQueue(t)
	for h := range 4 {
		q.joined(tube.Holder(h + 1))
	}
	q.LoopAwake()
	q.wakeUpTube("t")
	q.wantDispatcherWoken("a loop is awake", false)
	q.serve("beside other things", q.NextDispatch(), 1, 1)
	q.wantDispatcherWoken("a loop is awake, and there may be more", false)
	q.serve("before it sleeps", q.LoopSleeps(), 2, 1)
	q.wantDispatcherWoken("a loop is awake, and there is no more", false)
	if b := q.LoopSleeps(); b != nil {
		t.Errorf("a dispatch for nobody: %+v", b)
	}
	q.wakeUpTube("t")
	q.wantDispatcherWoken("the loop sleeps", true)
	if q.lists.loopsAwake != 0 || q.Waiters() != 2 {
		t.Errorf("%d loops are awake, %d wait", q.lists.loopsAwake, q.Waiters())
	}
}

// TestWakeUpDuringDispatch: a waitlist that is woken while a dispatch is under way is
// served when that has ended, even if the loop that was awake sleeps by then.
func TestWakeUpDuringDispatch(t *testing.T) {
	for _, sleeps := range []bool{true, false} {
		q := newBareQueue(t)
		q.joined(1)
		q.joined(2)
		q.LoopAwake()
		q.wakeUpTube("t")
		b := q.NextDispatch()
		q.wakeUpTube("t")
		if q.NextDispatch() != nil {
			t.Fatal("two dispatches are under way")
		}
		if sleeps && q.LoopSleeps() != nil {
			t.Fatal("two dispatches are under way")
		}
		q.wantDispatcherWoken("a dispatch is under way", false)
		q.serve("the first one", b, 1, 0)
		q.wantDispatcherWoken("it has ended", sleeps)
		q.serve("the second one", q.NextDispatch(), 1, 1)
	}
}

// TestSeveralWakeUps: a dispatch serves as many waits as there were wake-ups since the
// last one.
func TestSeveralWakeUps(t *testing.T) {
	q := newBareQueue(t)
	for h := range 100 {
		q.joined(tube.Holder(h + 1))
	}
	for range 3 {
		q.wakeUpTube("t")
	}
	q.serve("three wake-ups", q.NextDispatch(), 3, 0)
	q.wakeUpTube("t")
	q.serve("one more wake-up", q.NextDispatch(), 1, 0)
	for range 100 {
		q.wakeUpTube("t")
	}
	q.serve("very many wake-ups", q.NextDispatch(), maxServed, 0)
}

// TestWakeUpsForOneWaiter: wake-ups for all tubes of a wait result in one take, in one
// dispatch, whether they came before the wait joined or after.
func TestWakeUpsForOneWaiter(t *testing.T) {
	for _, before := range []bool{true, false} {
		q := newBareQueue(t)
		var tubes []string
		for i := range 100 {
			tubes = append(tubes, fmt.Sprint("t", i))
		}
		wakeUps := q.WakeUps()
		if before {
			q.wakeUpTube("t7")
		}
		q.waits(1, wakeUps, tubes...)
		for _, name := range tubes {
			if !before {
				q.wakeUpTube(name)
			}
		}
		q.serve("all wake-ups", q.NextDispatch(), 1, 0)
		if b := q.NextDispatch(); b != nil {
			t.Errorf("another dispatch for %d", len(b.Ops))
		}
	}
}

// TestMissedWakeUpIsPassedOn: two jobs arrive while nobody waits. The second one goes to the
// wait that has joined behind the first, even if the first is cancelled.
func TestMissedWakeUpIsPassedOn(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		q := newBareQueue(t)
		wakeUps := q.WakeUps()
		q.wakeUpTube("b")
		q.wakeUpTube("b")
		first := q.waits(1, wakeUps, "a", "b")
		q.waits(2, q.WakeUps(), "b", "c")
		if leaves {
			first.Cancel()
		} else {
			q.serve("who has missed it", q.NextDispatch(), 1, 1)
		}
		q.serve("who came then", q.NextDispatch(), 1, 0)
		if q.Waiters() != 1 {
			t.Errorf("%d wait", q.Waiters())
		}
	}
}

// TestWaitlistIsServedAgain: a waitlist is served again if all of its considered waits got a
// job, of this tube or of another one.
func TestWaitlistIsServedAgain(t *testing.T) {
	q := newBareQueue(t)
	for h := range 3 {
		q.waits(tube.Holder(h+1), 0, "a", "b")
	}
	q.wakeUpTube("a")
	q.wakeUpTube("b")
	q.serve("both tubes", q.NextDispatch(), 1, 1)
	q.serve("both again", q.NextDispatch(), 2, 1)
	if b := q.NextDispatch(); b != nil {
		t.Errorf("another dispatch for %d", len(b.Ops))
	}
}
