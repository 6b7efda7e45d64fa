package tally

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// faulty is a store that carries out tallies but answers the first ones with an error.
type faulty struct {
	storage.Store
	fails int
}

func (s *faulty) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		if b.Ops[0].Kind != storage.AddTallies || s.fails == 0 {
			s.Store.Do(b)
			continue
		}
		s.fails--
		done := b.Done
		b.Done = func() {
			for i := range b.Ops {
				b.Ops[i].Answer.Err = storage.ErrUnavailable
			}
			done()
		}
		s.Store.Do(b)
	}
}

// TestRecorder records what happens in tubes while the store answers some operations with errors, and at the end.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{Through: func(s storage.Store) storage.Store { return &faulty{s, 2} }, Log: slog.New(slog.DiscardHandler)})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			New(q, slog.New(slog.DiscardHandler)).Run(ctx)
			close(ended)
		}()
		h := q.NewHolder()
		do := func(ops ...storage.Op) []storage.Answer {
			answers, err := q.Do(t.Context(), ops...)
			if err != nil {
				t.Fatal(err)
			}
			return answers
		}
		do(storage.Op{Kind: storage.Ref, Role: tube.Watching, Delta: 1, Tubes: []string{"a", "b"}})
		for range 3 {
			do(storage.Op{Kind: storage.Put, Tube: "a", TTR: 100}, storage.Op{Kind: storage.Put, Tube: "b", TTR: 100})
		}
		time.Sleep(2 * time.Second)
		for _, move := range []tube.Move{tube.Delete, tube.Release, tube.Snooze} {
			id := do(storage.Op{Kind: storage.Take, Holder: h, Tubes: []string{"a"}})[0].ID
			time.Sleep(time.Second)
			do(storage.Op{Kind: storage.Move, Move: move, Holder: h, ID: id, Delay: 1000})
		}
		time.Sleep(30 * time.Second)
		want := tube.Tally{tube.TallyPuts: 3, tube.TallyStarted: 3, tube.TallyDone: 1, tube.TallyFailed: 1, tube.TallyFirst: 3, tube.TallyWait: 9000, tube.TallyRun: 1000}
		wantTally(t, q, "a", want)
		do(storage.Op{Kind: storage.Put, Tube: "b", TTR: 100})
		end()
		<-ended
		wantTally(t, q, "b", tube.Tally{tube.TallyPuts: 4})
		want[tube.TallyPuts] = 7
		wantTally(t, q, "", want)
		q.Close(t.Context())
		store.Close()
	})
}

func wantTally(t *testing.T, q *queue.Queue, name string, want tube.Tally) {
	t.Helper()
	for period := range tube.NumPeriods {
		all, _, err := q.Tallies(t.Context(), name, period, 2)
		var sum tube.Tally
		for i := range all {
			sum.Add(&all[i].Tally)
		}
		if err != nil || sum != want {
			t.Errorf("the last two %v of %q are %v, %v, want %v", period, name, sum, err, want)
		}
	}
}
