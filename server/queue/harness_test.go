package queue

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// harness is a queue on a memory engine inside a synctest bubble, with virtual time.
type harness struct {
	*testing.T
	*Queue
	store *slowStore
}

// withHarness runs test in a synctest bubble, in which sleeping takes no time. It fails if
// somebody still waits at the end.
func withHarness(t *testing.T, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: embedded.NewMemory()}
		log := slog.New(slog.DiscardHandler)
		w := &harness{T: t, store: store, Queue: New(store, Config{MaxJobSize: 10, Version: "test", Log: log})}
		test(w)
		if n := w.Waiters(); n != 0 {
			t.Errorf("%d wait at the end", n)
		}
		if err := w.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		store.Close()
	})
}

// slowStore is a store that a test can delay or make fail.
type slowStore struct {
	storage.Store
	mu   sync.Mutex
	hold func(*storage.Batch) // called before a batch is carried out
	fail error                // if not nil, the answer to everything
}

func (s *slowStore) set(change func(*slowStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *slowStore) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		s.mu.Lock()
		hold, fail := s.hold, s.fail
		s.mu.Unlock()
		if hold != nil {
			hold(b)
		}
		if fail == nil {
			s.Store.Do(b)
			continue
		}
		for i := range b.Ops {
			b.Ops[i].Answer = storage.Answer{Err: fail}
		}
		b.Done()
	}
}

// holdTakes makes the next takes wait, in the store, until release is called. held is closed
// when the first one waits.
func (s *slowStore) holdTakes() (held <-chan struct{}, release func()) {
	first, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.set(func(s *slowStore) {
		s.hold = func(b *storage.Batch) {
			if b.Ops[0].Kind == storage.Take {
				once.Do(func() { close(first) })
				<-gate
			}
		}
	})
	return first, func() { close(gate) }
}

// put puts a job of one byte into tube t.
func (w *harness) put(body string) uint64 {
	w.Helper()
	id, err := w.Put(context.Background(), NewJob{Tube: "t", TTR: 60, Body: []byte(body)})
	if err != nil {
		w.Fatalf("put: %v", err)
	}
	return id
}

// outcome is what a Reserve has returned.
type outcome struct {
	job  Job
	err  error
	took time.Duration
}

// reserve reserves from tube t for a holder, on a goroutine.
func (w *harness) reserve(ctx context.Context, h tube.Holder, wait time.Duration) <-chan outcome {
	c := make(chan outcome, 1)
	begun := time.Now()
	go func() {
		job, err := w.Reserve(ctx, h, []string{"t"}, wait)
		c <- outcome{job, err, time.Since(begun)}
	}()
	synctest.Wait() // it waits or has returned now
	return c
}

// wantState checks the state of a job, and how often it was reserved and released.
func (w *harness) wantState(id uint64, state tube.State, reserves, releases uint32) {
	w.Helper()
	s, err := w.JobStats(context.Background(), id)
	if err != nil {
		w.Fatalf("job %d: %v", id, err)
	}
	if got := s.Counters; s.State != state || uint32(got[tube.Reserves]) != reserves || uint32(got[tube.Releases]) != releases {
		w.Errorf("job %d is %v, reserved %d and released %d times, want %v, %d and %d",
			id, s.State, got[tube.Reserves], got[tube.Releases], state, reserves, releases)
	}
}
