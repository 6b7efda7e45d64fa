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

// sharedStore is a memory engine that claims to be shared by several servers, which means that calls are
// slow.
type sharedStore struct {
	storage.Store
	handedOff atomic.Int64 // takes that followed a put in the same call
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

// TestHandOff: a job that a loop iteration puts is taken for a waiting connection with the same call of
// the store, unless another dispatch batch is under way at that time.
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
			t.Errorf("%s: no job was handed off directly", network)
		}
		worker.Close()
		producer.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
