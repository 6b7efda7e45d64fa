package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

// TestInstances: three instances, which stand still for up to minutes, lose operations and answers, and are
// replaced, put one job for each minute of a week, or count that minute as missed.
func TestInstances(t *testing.T) {
	seeds, minutes := 3, 10_000
	if testing.Short() {
		seeds, minutes = 1, 1_000
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runInstances(t, seed, minutes) })
		})
	}
}

const minutelySchedules = 3

func runInstances(t *testing.T, seed uint64, minutes int) {
	store := &storetest.SharedStore{Store: embedded.NewMemory()}
	store.Store.Listen(store)
	rng := rand.New(rand.NewPCG(seed, 1))
	setMinutely(t, store.Store)
	begun := time.Now()
	stops := []func(){}
	for n := 0; time.Since(begun) < time.Duration(minutes)*time.Minute; n++ {
		if len(stops) == 3 {
			k := rng.IntN(3)
			stops[k]()
			stops = append(stops[:k], stops[k+1:]...)
		}
		stops = append(stops, runInstance(store.Open(seed<<32+uint64(n))))
		<-time.After(time.Duration(rng.IntN(600)) * time.Minute)
	}
	for _, stop := range stops {
		stop()
	}
	<-time.After(storetest.LongestHeld) // operations of instances that are gone can still arrive
	checkMinutely(t, store.Store, minutes)
	store.Store.Close()
}

// runInstance runs an instance until it is stopped.
func runInstance(a *storetest.Access) (stop func()) {
	q := queue.New(a, queue.Config{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		New(q, nil).Run(ctx)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
		a.Listen(nil)
		q.Close(context.Background())
	}
}

// setMinutely sets schedules that put a job each minute: one only if it is not missed, one the last of those that
// were, one up to 5 of them.
func setMinutely(t *testing.T, store storage.Store) {
	q := queue.New((&storetest.SharedStore{Store: store}).Open(1), queue.Config{})
	defer q.Close(t.Context())
	s := New(q, nil)
	for i := range minutelySchedules {
		set := &tube.Schedule{Name: fmt.Sprint("s", i), Tube: "t", TTR: 60, Timing: tube.Timing{Cron: "* * * * *"}, Overlap: tube.OverlapAllow}
		set.HasCatchUp, set.CatchUpAll = i == 0, uint32(i/2*5)
		for s.Set(t.Context(), set, nil) != nil { // it was lost, perhaps
		}
	}
}

// checkMinutely checks that no minute has two jobs, and that each has one or is missed.
func checkMinutely(t *testing.T, store storage.Store, minutes int) {
	put := make(map[tube.Occurrence]int)
	for cursor := ""; ; {
		ops := []storage.Op{{Kind: storage.ListJobs, Tube: "t", State: tube.Ready, MaxJobs: tube.MaxListed, Args: &storage.Args{Cursor: cursor}}}
		storage.DoWait(store, ops)
		r := ops[0].Answer.Result
		for _, j := range r.Jobs {
			put[*j.Metadata.Occurrence]++
		}
		if cursor = r.Cursor; cursor == "" {
			break
		}
	}
	total := 0
	for o, n := range put {
		if total++; n != 1 {
			t.Errorf("%d jobs of %s for %v", n, o.Schedule, at(o.Nominal))
		}
	}
	for i := range minutelySchedules {
		ops := []storage.Op{{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: fmt.Sprint("s", i)}}}
		storage.DoWait(store, ops)
		s := ops[0].Answer.Result.Schedules()[0]
		if passed := uint64(s.Last/tube.Instant(time.Minute) - s.Begin/tube.Instant(time.Minute)); s.Results.Put+s.Missed != passed || passed < uint64(minutes-20) || s.Results.Put < uint64(minutes/2) {
			t.Errorf("%s: %d put and %d missed of %d", s.Name, s.Results.Put, s.Missed, passed)
		}
		t.Logf("%s: %d put, %d missed", s.Name, s.Results.Put, s.Missed)
		total -= int(s.Results.Put)
	}
	if total != 0 {
		t.Errorf("%d more jobs than were counted", total)
	}
}
