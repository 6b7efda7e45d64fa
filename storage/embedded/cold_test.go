package embedded

import (
	"fmt"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// coldDisk is a disk on which every delayed job is cold as soon as it is in the tables.
func coldDisk() *disk {
	d := newDisk()
	d.segment, d.coldAfter = crashSegment, 1
	return d
}

func evictions(s storage.Store) uint64 {
	e := s.(waitingEngine).Engine
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cold.evictions
}

// makeCold puts jobs until those that were put before are in the tables.
func makeCold(t *testing.T, s storage.Store) {
	t.Helper()
	e := s.(waitingEngine).Engine
	fillSegment(t, e)
	fillSegment(t, e)
	eventually(t, "the windows", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.behind == 0
	})
}

func TestCold(t *testing.T) {
	d := coldDisk()
	s := d.open(t)
	defer func() { s.Close() }()
	for i := range 1000 {
		do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Delay: uint32(1000 + i%10), TTR: 10, Body: fmt.Append(nil, "body ", i)})
	}
	makeCold(t, s)
	jobs, first := s.(waitingEngine).machine.Cold("cold")
	t.Log(evictions(s), jobs, first)
	stats := do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "cold"}, storage.Op{Kind: storage.JobStats, ID: 7}, storage.Op{Kind: storage.PeekHead, Tube: "cold", State: tube.Delayed})
	t.Logf("%+v %+v %v %q", stats[0].Answer.TubeStats, stats[1].Answer.Job, stats[2].Answer.ID, stats[2].Answer.Body)
	s.Close()
	s = d.open(t)
	jobs, first = s.(waitingEngine).machine.Cold("cold")
	t.Log("restarted", jobs, first)
	d.clock.advance(1001 * time.Second)
	s.Tick()
	took := do(t, s, storage.Op{Kind: storage.Take, Tubes: []string{"cold"}, Holder: 1})
	t.Logf("%d %q", took[0].Answer.ID, took[0].Answer.Body)
}
