package server

import (
	"bufio"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
)

// shared is a memory engine that says that several servers share it, and so that calls
// take long.
type sharedStore struct {
	storage.Store
	handedOff atomic.Int64 // takes that were handed over behind a put
}

func (s *sharedStore) TickAll() (time.Duration, error) { return s.Tick() }

func (s *sharedStore) Do(batches ...*storage.Batch) {
	puts := 0
	for _, b := range batches {
		for i := range b.Ops {
			switch op := &b.Ops[i]; {
			case op.Kind == storage.Put:
				puts++
			case op.Kind == storage.Take && op.HandOff && puts > 0:
				s.handedOff.Add(1)
			}
		}
	}
	s.Store.Do(batches...)
}

// TestForeseen: the job that a turn puts is taken with the same call of the store for a
// connection that waits; unless another round happens to be under way.
func TestHandOff(t *testing.T) {
	for _, network := range []string{"tcp", "pipe"} {
		store := &sharedStore{Store: embedded.NewMemory()}
		s := onStore(t, store)
		worker, theirs := connected(t, network)
		go s.ServeConn(theirs)
		producer, theirs := connected(t, network)
		go s.ServeConn(theirs)
		replies := bufio.NewReader(worker)
		go io.Copy(io.Discard, producer)
		for try := 1; try <= 10 && store.handedOff.Load() == 0; try++ {
			io.WriteString(worker, "reserve\r\n")
			for s.queue.Waiters() == 0 {
				time.Sleep(time.Millisecond)
			}
			io.WriteString(producer, "put 0 0 9 0\r\n\r\n")
			want := fmt.Sprintf("RESERVED %d 0\r\n", try)
			if got, err := replies.ReadString('\n'); err != nil || got != want {
				t.Fatalf("%s: %q, %v, want %q", network, got, err, want)
			}
			replies.ReadString('\n')
		}
		if store.handedOff.Load() == 0 {
			t.Errorf("%s: no take was foreseen", network)
		}
		worker.Close()
		producer.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
