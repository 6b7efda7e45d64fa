package embedded

import (
	"time"

	"redstalk/storage"
)

// waitingEngine is an engine that moves dead letters at once, like the model of the suite:
// before each call it loads the bodies that this needs.
type waitingEngine struct{ *Engine }

// Do implements storage.Store.
func (s waitingEngine) Do(batches ...*storage.Batch) {
	s.loadExhaustible(batches)
	s.Engine.Do(batches...)
}

// DoPolling implements storage.PollingStore.
func (s waitingEngine) DoPolling(poll func(read bool) int, batches ...*storage.Batch) {
	s.loadExhaustible(batches)
	s.Engine.DoPolling(poll, batches...)
}

// Tick implements storage.Store.
func (s waitingEngine) Tick() (time.Duration, error) {
	s.loadExhaustible(nil)
	return s.Engine.Tick()
}

// loadExhaustible loads the bodies of all jobs that may become dead letters.
func (s waitingEngine) loadExhaustible(batches []*storage.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.sending || s.machine.PendingDeadLetters() > 0) && !s.closed {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	any := len(s.machine.Policies()) > 0 || setsPolicy(batches)
	for id := uint64(1); id <= s.machine.LastID() && !s.closed; id++ {
		j := s.machine.Find(id)
		if j == nil || !s.onDiskOnly(j) {
			continue
		}
		if stats, _ := s.machine.JobStats(0, id); any || stats.Metadata != nil {
			if body, err := s.journal.tables.Body(id); err == nil {
				s.machine.KeepBody(j, body)
			}
		}
	}
}

func setsPolicy(batches []*storage.Batch) bool {
	for _, b := range batches {
		for i := range b.Ops {
			if b.Ops[i].Kind == storage.SetPolicy {
				return true
			}
		}
	}
	return false
}
