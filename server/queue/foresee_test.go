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

// foreseeing is a lab whose store is worth rounds that are foreseen.
func foreseeing(t *testing.T) *lab {
	lab := newLab(t)
	lab.foresees = true
	return lab
}

// puts is a batch of so many puts into a tube.
func puts(name string, n int) *storage.Batch {
	b := &storage.Batch{}
	for range n {
		b.Ops = append(b.Ops, storage.Op{Kind: storage.Put, Tube: name})
	}
	return b
}

// TestForesee: of each tube as many are served as there are puts, in their order, and one
// more. If that one gets nothing, the round is not repeated.
func TestForesee(t *testing.T) {
	lab := foreseeing(t)
	for h := range 5 {
		lab.waits(tube.Holder(h+1), 0, "t")
	}
	hints := lab.WakeUps()
	b := lab.HandOff([]*storage.Batch{puts("t", 1), puts("u", 1), puts("t", 1)})
	if lab.HandOff([]*storage.Batch{puts("t", 1)}) != nil || lab.NextDispatch() != nil {
		t.Fatal("two rounds are under way")
	}
	for i := range b.Ops {
		if op := &b.Ops[i]; op.Holder != tube.Holder(i+1) || !op.HandOff || !op.Wait {
			t.Errorf("take %d: %+v", i, op)
		}
	}
	lab.serve("foreseen", b, 3, 2)
	if lab.NextDispatch() != nil || lab.Waiters() != 3 {
		t.Errorf("another round, or %d wait", lab.Waiters())
	}
	if lab.WakeUps() == hints {
		t.Error("who joins now does not see that the waitlist was served")
	}
	lab.serve("foreseen, for all who wait", lab.HandOff([]*storage.Batch{puts("t", 9)}), 3, 3)
	if lab.NextDispatch() != nil || lab.Waiters() != 0 {
		t.Errorf("another round, or %d wait", lab.Waiters())
	}
}

// TestForeseeAndJoin: who joins behind those that a foreseen round serves is not
// forgotten, though the store may not know of that wait.
func TestForeseeAndJoin(t *testing.T) {
	for _, late := range []bool{false, true} {
		lab := foreseeing(t)
		lab.waits(1, 0, "t")
		hints := lab.WakeUps() // then the second one looks for a job
		b := lab.HandOff([]*storage.Batch{puts("t", 1)})
		if !late {
			lab.waits(2, hints, "t")
		}
		lab.serve("foreseen", b, 1, 1)
		if late {
			lab.waits(2, hints, "t")
		}
		lab.serve("who has joined", lab.NextDispatch(), 1, 0)
	}
}

// TestForeseeNothing: a round is foreseen only for ready jobs for which somebody waits,
// and if nothing else is to be served.
func TestForeseeNothing(t *testing.T) {
	many := make([]string, maxHandOffTubes+1)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	delayed := &storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "t", Delay: 1}}}
	for what, is := range map[string]struct {
		batch *storage.Batch
		begin func(*lab)
	}{
		"delayed":        {delayed, func(*lab) {}},
		"another tube":   {puts("u", 1), func(*lab) {}},
		"a hint":         {puts("t", 1), func(lab *lab) { lab.ready("t") }},
		"too many tubes": {puts("m0", 1), func(lab *lab) { lab.waits(2, 0, many...) }},
		"not worth it":   {puts("t", 1), func(lab *lab) { lab.foresees = false }},
	} {
		lab := foreseeing(t)
		lab.waits(1, 0, "t")
		is.begin(lab)
		if b := lab.HandOff([]*storage.Batch{is.batch}); b != nil {
			t.Errorf("%s: a round for %d", what, len(b.Ops))
		}
	}
	lab := foreseeing(t)
	lab.waits(1, 0, "m0")
	lab.waits(2, 0, many...)
	lab.serve("up to one for too many tubes", lab.HandOff([]*storage.Batch{puts("m0", 3)}), 1, 1)
}

// TestForeseenByPut: a put of another door brings the job to who waits, with one call of
// the store.
func TestForeseenByPut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.foresees = true
		got := w.reserve(context.Background(), 1, time.Hour)
		takes := 0
		w.store.set(func(s *slowStore) {
			s.hold = func(b *storage.Batch) {
				if b.Ops[0].Kind == storage.Take {
					takes++
					if !b.Ops[0].HandOff {
						t.Error("the round was not foreseen")
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
