package embedded

import (
	"context"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// waitingEngine is an engine that moves dead letters at once, like the model of the suite:
// before each call it loads the bodies that this needs.
type waitingEngine struct{ *Engine }

// Do implements storage.Store.
func (s waitingEngine) Do(batches ...*storage.Batch) {
	s.loadExhaustible(batches)
	s.awaitWindows()
	s.Engine.Do(batches...)
}

// DoPolling implements storage.PollingStore.
func (s waitingEngine) DoPolling(poll func(read bool) int, batches ...*storage.Batch) {
	s.loadExhaustible(batches)
	s.Engine.DoPolling(poll, batches...)
}

// awaitWindows waits until all windows that have ended are in the tables, if jobs become cold then, and makes ready jobs cold.
func (s waitingEngine) awaitWindows() {
	if s.cold.after != 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	await := func() {
		for (s.journal.behind > 0 || s.cold.cooling) && !s.closed && !s.journal.failing {
			s.journal.cond.Wait()
		}
	}
	await()
	s.startCooling()
	await()
}

// Close implements storage.Store. It checks the tables.
func (s waitingEngine) Close() error {
	if faults := faultsOf(s.Engine); len(faults) > 0 {
		panic(faults)
	}
	return s.Engine.Close()
}

// faultsOf returns what is wrong in the tables of an engine.
func faultsOf(e *Engine) (faults []string) {
	_, err := e.journal.tables.Check(context.Background(), tables.Check{Found: func(what, _ string) { faults = append(faults, what) }})
	if err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

// Tick implements storage.Store.
func (s waitingEngine) Tick() (time.Duration, error) {
	s.loadExhaustible(nil)
	s.admitAllDue()
	return s.Engine.Tick()
}

// admitAllDue admits the cold jobs that are due.
func (s waitingEngine) admitAllDue() {
	s.mu.Lock()
	names := s.machine.Tubes()
	s.mu.Unlock()
	for _, name := range names {
		for s.admitDuePage(tube.ColdQueue{Tube: name, State: tube.Delayed}) {
		}
	}
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
