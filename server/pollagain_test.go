package server

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"redstalk/storage"
	"redstalk/storage/embedded"
)

// pollingStore is a memory engine that polls again until no more batches come.
type pollingStore struct {
	storage.Store
	polls atomic.Int64 // that brought batches
}

func (s *pollingStore) DoPolling(pollAgain func(poll bool) int, batches ...*storage.Batch) {
	s.Do(batches...)
	for pollAgain(true) > 0 {
		s.polls.Add(1)
	}
}

// TestPollAgain: if sessions submit batches while the loop polls again within an iteration, no batch is
// lost.
func TestPollAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has loops")
	}
	store := &pollingStore{Store: embedded.NewMemory()}
	s := onStore(t, store)
	const clients, n = 8, 300
	var all sync.WaitGroup
	for range clients {
		ours, theirs := connected(t, "tcp")
		go s.ServeConn(theirs)
		go io.WriteString(ours, strings.Repeat("put 0 0 9 0\r\n\r\nreserve\r\npeek-ready\r\n", n)+"quit\r\n")
		all.Go(func() {
			replies, err := io.ReadAll(ours)
			if lines := bytes.Count(replies, []byte("\r\n")); err != nil || lines < 3*n {
				t.Errorf("%d lines, %v", lines, err)
			}
		})
	}
	all.Wait()
	if store.polls.Load() == 0 {
		t.Error("polling again has brought no batches")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
