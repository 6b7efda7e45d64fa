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

// gatherer is a memory engine that asks for more until nothing comes.
type pollingStore struct {
	storage.Store
	polls atomic.Int64 // in which something came
}

func (g *pollingStore) DoPolling(more func(look bool) int, batches ...*storage.Batch) {
	g.Do(batches...)
	for more(true) > 0 {
		g.polls.Add(1)
	}
}

// TestGathering has several clients send bursts in which sessions ask their
// loop for a further turn, while the loop is within one: no batch is lost.
func TestPollAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no loops here")
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
		t.Error("nothing was gathered")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
