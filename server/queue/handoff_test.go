package queue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// newHandOffQueue returns a bareQueue on a store with direct hand-off.
func newHandOffQueue(t *testing.T) *bareQueue {
	q := newBareQueue(t)
	q.handsOff = true
	return q
}

// puts returns a batch of n puts into a tube.
func puts(name string, n int) *storage.Batch {
	b := &storage.Batch{}
	for range n {
		b.Ops = append(b.Ops, storage.Op{Kind: storage.Put, Tube: name})
	}
	return b
}

// TestHandOff: in each tube, one wait more than there are puts is served, in order. If the
// last one gets nothing, the dispatch batch is not repeated.
func TestHandOff(t *testing.T) {
	q := newHandOffQueue(t)
	for h := range 5 {
		q.waits(tube.Holder(h+1), 0, "t")
	}
	wakeUps := q.WakeUps()
	b := q.HandOff([]*storage.Batch{puts("t", 1), puts("u", 1), puts("t", 1)})
	if q.HandOff([]*storage.Batch{puts("t", 1)}) != nil || q.NextDispatch() != nil {
		t.Fatal("two dispatch batches are under way")
	}
	for i := range b.Ops {
		if op := &b.Ops[i]; op.Holder != tube.Holder(i+1) || !op.HandOff || !op.Wait {
			t.Errorf("take %d: %+v", i, op)
		}
	}
	q.serve("hand-off", b, 3, 2)
	if q.NextDispatch() != nil || q.Waiters() != 3 {
		t.Errorf("another dispatch batch, or %d wait", q.Waiters())
	}
	if q.WakeUps() == wakeUps {
		t.Error("who joins now does not see that the waitlist was served")
	}
	q.serve("hand-off, for all who wait", q.HandOff([]*storage.Batch{puts("t", 9)}), 3, 3)
	if q.NextDispatch() != nil || q.Waiters() != 0 {
		t.Errorf("another dispatch batch, or %d wait", q.Waiters())
	}
}

// TestHandOffAndJoin: a wait that joins behind those that a direct hand-off serves is not
// forgotten, although the store may not know of it.
func TestHandOffAndJoin(t *testing.T) {
	for _, late := range []bool{false, true} {
		q := newHandOffQueue(t)
		q.waits(1, 0, "t")
		wakeUps := q.WakeUps() // then the second one looks for a job
		b := q.HandOff([]*storage.Batch{puts("t", 1)})
		if !late {
			q.waits(2, wakeUps, "t")
		}
		q.serve("hand-off", b, 1, 1)
		if late {
			q.waits(2, wakeUps, "t")
		}
		q.serve("who has joined", q.NextDispatch(), 1, 0)
	}
}

// TestHandOffNothing: a direct hand-off is made only for ready jobs for which somebody
// waits, and only if nothing else is to be served.
func TestHandOffNothing(t *testing.T) {
	count := make([]string, maxHandOffTubes+1)
	for i := range count {
		count[i] = fmt.Sprint("m", i)
	}
	delayed := &storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "t", Delay: 1}}}
	for what, test := range map[string]struct {
		batch *storage.Batch
		begin func(*bareQueue)
	}{
		"delayed":        {delayed, func(*bareQueue) {}},
		"another tube":   {puts("u", 1), func(*bareQueue) {}},
		"a wake-up":      {puts("t", 1), func(q *bareQueue) { q.wakeUpTube("t") }},
		"too many tubes": {puts("m0", 1), func(q *bareQueue) { q.waits(2, 0, count...) }},
		"not worth it":   {puts("t", 1), func(q *bareQueue) { q.handsOff = false }},
	} {
		q := newHandOffQueue(t)
		q.waits(1, 0, "t")
		test.begin(q)
		if b := q.HandOff([]*storage.Batch{test.batch}); b != nil {
			t.Errorf("%s: a dispatch batch for %d", what, len(b.Ops))
		}
	}
	q := newHandOffQueue(t)
	q.waits(1, 0, "m0")
	q.waits(2, 0, count...)
	q.serve("up to one for too many tubes", q.HandOff([]*storage.Batch{puts("m0", 3)}), 1, 1)
}

// TestHandOffByPut: a put through another listener gives the job to a waiter within one
// store call.
func TestHandOffByPut(t *testing.T) {
	withHarness(t, func(w *harness) {
		w.handsOff = true
		got := w.reserve(context.Background(), 1, time.Hour)
		takes := 0
		w.store.set(func(s *slowStore) {
			s.hold = func(b *storage.Batch) {
				if b.Ops[0].Kind == storage.Take {
					takes++
					if !b.Ops[0].HandOff {
						t.Error("the take is no direct hand-off")
					}
				}
			}
		})
		id := w.put("x")
		if out := <-got; out.err != nil || out.job.ID != id || takes != 1 {
			t.Errorf("%+v after %d takes, want job %d", out, takes, id)
		}
		synctest.Wait()
	})
}
