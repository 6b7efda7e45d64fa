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

// world is a queue on a memory engine inside a bubble of virtual time.
type world struct {
	*testing.T
	*Queue
	store *slowStore
}

// inWorld runs test in a bubble, in which sleeping takes no time. At its end nobody
// may wait any more.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: embedded.NewMemory()}
		log := slog.New(slog.DiscardHandler)
		w := &world{T: t, store: store, Queue: New(store, Config{MaxJobSize: 10, Version: "test", Log: log})}
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

// slowStore is a store that a test can hold up or let fail.
type slowStore struct {
	storage.Store
	mu   sync.Mutex
	hold func(*storage.Batch) // before a batch is carried out
	fail error                // the answer to everything, if not nil
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

// holdTakes has the next takes wait, in the store, until release is called. held
// is closed when the first one does.
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
func (w *world) put(body string) uint64 {
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

// reserve has a holder reserve from tube t, on a goroutine.
func (w *world) reserve(ctx context.Context, h tube.Holder, wait time.Duration) <-chan outcome {
	c := make(chan outcome, 1)
	begun := time.Now()
	go func() {
		job, err := w.Reserve(ctx, h, []string{"t"}, wait)
		c <- outcome{job, err, time.Since(begun)}
	}()
	synctest.Wait() // it waits now, or has returned
	return c
}

// wantState checks the state of a job, and how often it was reserved and released.
func (w *world) wantState(id uint64, state tube.State, reserves, releases uint32) {
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
