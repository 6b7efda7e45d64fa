package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage"
	"redstalk/tube"
)

// exhaust delivers and releases jobs of tube t until their policy is exhausted.
func exhaust(t *testing.T, e *Engine, ids ...uint64) {
	t.Helper()
	policy := &tube.Policy{Rules: tube.Rules{Max: 1, Dead: "morgue"}}
	do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: policy}})
	for _, id := range ids {
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.Release, Holder: 1, ID: id})
	}
}

// wantDead waits until the morgue has jobs with these bodies, and no other job is in t.
func wantDead(t *testing.T, e *Engine, bodies [][]byte) {
	t.Helper()
	eventually(t, "the jobs to be in the morgue", func() bool {
		ops := []storage.Op{{Kind: storage.TubeStats, Tube: "morgue"}}
		storage.DoWait(e, ops)
		s := ops[0].Answer.TubeStats
		return s != nil && s.Ready == uint64(len(bodies))
	})
	for i, want := range bodies {
		a := do(t, e, storage.Op{Kind: storage.Take, Holder: 9, Tubes: []string{"morgue"}})[0].Answer
		s := do(t, e, storage.Op{Kind: storage.JobStats, ID: a.ID})[0].Answer.Job
		if !bytes.Equal(a.Body, want) || s.Metadata.FromTube != "t" || s.Metadata.FromID != uint64(i+1) {
			t.Errorf("dead letter %d is %d with %d bytes, %+v", i, a.ID, len(a.Body), s.Metadata)
		}
	}
	ops := []storage.Op{{Kind: storage.TubeStats, Tube: "t"}}
	if storage.DoWait(e, ops); !ops[0].Answer.NotFound {
		t.Errorf("the tube they come from is %+v", ops[0].Answer.TubeStats)
	}
}

// TestDeadLettersFromDisk: jobs whose bodies are on disk only get to the dead-letter tube, in
// order, and are there after a power cut.
func TestDeadLettersFromDisk(t *testing.T) {
	e, bodies := onlyOnDisk(t)
	exhaust(t, e, 1, 2)
	wantDead(t, e, bodies)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDeadLettersAfterStart: the next process moves the pending dead letters that a process did
// not move. Each job is in exactly one place, whenever the power is cut.
func TestDeadLettersAfterStart(t *testing.T) {
	d := newDisk()
	d.segment = crashSegment
	o := d.options(t)
	fs := newHookFS(d.fs)
	o.fs, o.KeepBodies = fs, 1
	e := mustOpen(t, o)
	var bodies [][]byte
	for i := range 5 {
		bodies = append(bodies, bytes.Repeat([]byte{byte('a' + i)}, 1+3000*(i%2)))
		do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 100, Body: bodies[i]})
	}
	fillSegment(t, e)
	eventually(t, "the bodies to be on disk only", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.onDiskOnly(e.machine.Find(1)) && e.onDiskOnly(e.machine.Find(5))
	})
	e.mu.Lock()
	e.sendAt = tube.Never
	e.mu.Unlock()
	exhaust(t, e, 1, 2, 3, 4, 5)
	left := &disk{fs: clone(d.fs, 0), clock: d.clock, segment: crashSegment}
	e.Close()
	for range 3 { // also after the jobs were moved
		again := mustOpen(t, left.options(t))
		eventually(t, "the sender to end", func() bool {
			again.mu.Lock()
			defer again.mu.Unlock()
			return !again.sending && again.machine.PendingDeadLetters() == 0
		})
		do(t, again, storage.Op{Kind: storage.Pause, Tube: "morgue"})
		left = &disk{fs: clone(left.fs, 0), clock: d.clock, segment: crashSegment}
		again.Close()
	}
	last := mustOpen(t, left.options(t))
	defer last.Close()
	wantDead(t, last, bodies)
}

// TestUnreadableDeadLetter: a job whose body cannot be read is tried again. If the body is damaged, it stays
// buried, with a reason.
func TestUnreadableDeadLetter(t *testing.T) {
	d := newDisk()
	d.segment = crashSegment
	o := d.options(t)
	fs := newHookFS(d.fs)
	o.fs, o.KeepBodies = fs, 1
	e := mustOpen(t, o)
	for i := range 4 {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 100, Body: []byte(fmt.Sprintf("%02000d", i))})
	}
	fillSegment(t, e)
	eventually(t, "the bodies to be on disk only", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.onDiskOnly(e.machine.Find(4))
	})
	policy := &tube.Policy{Rules: tube.Rules{Max: 1, Dead: "morgue"}}
	do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: policy}})
	for range 4 {
		do(t, e, storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{"t"}})
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, o) // has not read the bodies yet
	defer e.Close()
	fs.set(failReads(errors.New("broken")))
	d.clock.advance(101 * time.Second)
	e.Tick()
	waits := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return !e.sending && e.machine.PendingDeadLetters() == 4
	}
	eventually(t, "the sender to wait", waits)
	fs.set(failReads(pebble.ErrCorruption))
	d.clock.advance(2 * time.Second)
	e.Tick()
	eventually(t, "the jobs to be given up", func() bool {
		s := do(t, e, storage.Op{Kind: storage.JobStats, ID: 1})[0].Answer.Job
		return s.State == tube.Buried && s.Metadata.PendingDead == "" && s.Metadata.Parked == tube.ParkedDeliveries && s.Metadata.AllNotes().Reason == damagedReason
	})
	if s := statsOf(t, e, "t"); s.Buried != 4 {
		t.Errorf("%d jobs are buried, want 4", s.Buried)
	}
}
