package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// sharedStore is a memory engine that several instances use, each through an access of its own.
type sharedStore struct {
	storage.Store
	mu       sync.Mutex
	accesses []*access
}

// access is how one instance reaches the store. It loses operations and answers, and stands still, at random.
type access struct {
	*sharedStore
	listener storage.Listener

	mu    sync.Mutex
	rng   *rand.Rand
	until time.Time // it stands still until then
}

// open returns the access of one more instance.
func (s *sharedStore) open(seed uint64) *access {
	a := &access{sharedStore: s, rng: rand.New(rand.NewPCG(seed, 0))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accesses = append(s.accesses, a)
	return a
}

// all returns the listeners of all instances.
func (s *sharedStore) all() (listeners []storage.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accesses {
		if a.listener != nil {
			listeners = append(listeners, a.listener)
		}
	}
	return listeners
}

func (s *sharedStore) WakeUp(string) bool { return true }
func (s *sharedStore) Waiting(string) int { return 0 }

func (s *sharedStore) Due(in time.Duration) {
	for _, l := range s.all() {
		l.Due(in)
	}
}

func (s *sharedStore) BatchesDue() {}

func (s *sharedStore) SchedulesDue() {
	for _, l := range s.all() {
		l.SchedulesDue()
	}
}

// Listen sets the listener of the instance.
func (a *access) Listen(l storage.Listener) {
	a.sharedStore.mu.Lock()
	defer a.sharedStore.mu.Unlock()
	a.listener = l
}

// Close leaves the store open for the others.
func (a *access) Close() error { return nil }

// fate decides what happens to a batch: how long it is held up, whether it is carried out, and whether its
// answers arrive.
func (a *access) fate() (held time.Duration, lost, answerLost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rng.IntN(40) == 0 {
		a.until = time.Now().Add(time.Duration(a.rng.Int64N(int64(longestHeld))))
	}
	return time.Until(a.until), a.rng.IntN(20) == 0, a.rng.IntN(20) == 0
}

func (a *access) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		held, lost, answerLost := a.fate()
		go func() {
			if held > 0 {
				<-time.After(held)
			}
			if !lost {
				storage.DoWait(a.sharedStore.Store, b.Ops)
			}
			for i := range b.Ops {
				if lost || answerLost {
					b.Ops[i].Answer = storage.Answer{Err: storage.ErrUnavailable}
				}
			}
			b.Done()
		}()
	}
}

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

const (
	longestHeld       = 400 * time.Second
	minutelySchedules = 3
)

func runInstances(t *testing.T, seed uint64, minutes int) {
	store := &sharedStore{Store: embedded.NewMemory()}
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
		stops = append(stops, runInstance(store.open(seed<<32+uint64(n))))
		<-time.After(time.Duration(rng.IntN(600)) * time.Minute)
	}
	for _, stop := range stops {
		stop()
	}
	<-time.After(longestHeld) // operations of instances that are gone can still arrive
	checkMinutely(t, store.Store, minutes)
	store.Store.Close()
}

// runInstance runs an instance until it is stopped.
func runInstance(a *access) (stop func()) {
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
	q := queue.New(&access{sharedStore: &sharedStore{Store: store}, rng: rand.New(rand.NewPCG(1, 1))}, queue.Config{})
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
		ops := []storage.Op{{Kind: storage.GetSchedule, Args: &storage.Args{Name: fmt.Sprint("s", i)}}}
		storage.DoWait(store, ops)
		s := ops[0].Answer.Result.Schedules[0]
		if passed := uint64((s.Last - wholeMs(s.Begin)) / tube.Instant(time.Minute)); s.Results.Put+s.Missed != passed || passed < uint64(minutes-20) || s.Results.Put < uint64(minutes/2) {
			t.Errorf("%s: %d put and %d missed of %d", s.Name, s.Results.Put, s.Missed, passed)
		}
		t.Logf("%s: %d put, %d missed", s.Name, s.Results.Put, s.Missed)
		total -= int(s.Results.Put)
	}
	if total != 0 {
		t.Errorf("%d more jobs than were counted", total)
	}
}
