package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage"
	"redstalk/tube"
)

// TestCheckpointsInTables: checkpoints that are in the tables need no memory, and are gone from there when their jobs are.
func TestCheckpointsInTables(t *testing.T) {
	d := newDisk()
	e := mustOpen(t, d.options(t))
	defer func() { e.Close() }()
	const jobs = 200
	save := func(id uint64, nth int) {
		op := storage.Op{Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: 1, ID: id, Args: &storage.Args{Data: []byte(nthCheckpoint(id, nth))}}
		if do(t, e, op)[0].Answer.NotFound {
			t.Fatalf("the checkpoint of job %d was not saved", id)
		}
	}
	var ids []uint64
	for range jobs {
		ids = append(ids, do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 1e6, Body: []byte("body")})[0].Answer.ID)
	}
	for _, id := range ids {
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
		for nth := range 3 {
			save(id, nth)
		}
	}
	want := func(what string, nth func(id uint64) int) {
		for _, id := range ids {
			if got := string(do(t, e, storage.Op{Kind: storage.GetCheckpoint, ID: id})[0].Answer.Body); got != nthCheckpoint(id, nth(id)) {
				t.Fatalf("%s: the checkpoint of job %d is %.20q, not the one that was saved last", what, id, got)
			}
		}
	}
	want("in memory", func(uint64) int { return 2 })
	toTables(t, e)
	if n := savedBytes(e); n != 0 {
		t.Errorf("%d bytes of checkpoints are in memory, and in the tables", n)
	}
	want("in the tables", func(uint64) int { return 2 })
	for _, id := range ids[:jobs/2] {
		save(id, 3)
	}
	half := func(id uint64) int {
		if id <= ids[jobs/2-1] {
			return 3
		}
		return 2
	}
	want("half of them replaced", half)
	e.Close()
	e = mustOpen(t, d.options(t))
	want("reopened", half)
	for _, id := range ids {
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
	}
	wantNoCheckpoints(t, e, ids)
}

// wantNoCheckpoints checks that the checkpoints with these numbers are gone, also from the tables.
func wantNoCheckpoints(t *testing.T, e *Engine, ids []uint64) {
	t.Helper()
	toTables(t, e)
	from := e.journal.tables.Snapshot()
	defer from.Close()
	for _, id := range ids {
		if _, err := from.Checkpoint(id); !errors.Is(err, pebble.ErrNotFound) {
			t.Fatalf("the checkpoint of job %d, which is deleted, is in the tables: %v", id, err)
		}
	}
	if n := savedBytes(e); n != 0 {
		t.Errorf("%d bytes of checkpoints are in memory, of jobs that are gone", n)
	}
}

// nthCheckpoint is what is saved of a job.
func nthCheckpoint(id uint64, nth int) string {
	return fmt.Sprint(id, " ", nth, strings.Repeat(" checkpoint", 400))
}

// TestShortLivedCheckpoint: a checkpoint whose job is deleted before its window is written leaves nothing for the tables.
func TestShortLivedCheckpoint(t *testing.T) {
	e, _ := newHolding(t)
	defer e.Close()
	id := do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 100})[0].Answer.ID
	do(t, e, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
	save := storage.Op{Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: 1, ID: id, Args: &storage.Args{Data: []byte("checkpoint")}}
	do(t, e, save)
	e.mu.Lock()
	e.journal.window.segment = 1
	e.journal.endWindow(true)
	e.mu.Unlock()
	do(t, e, save)
	do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id})
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.journal.held.Checkpoints) + len(e.journal.window.Checkpoints); n != 0 {
		t.Errorf("%d changes of checkpoints are left for the tables", n)
	}
}

// toTables waits until all that has changed is in the tables.
func toTables(t *testing.T, e *Engine) {
	t.Helper()
	for range 3 { // a window is held until the next one ends
		fillSegment(t, e)
	}
	e.mu.Lock()
	e.journal.flushWindows()
	e.mu.Unlock()
	awaitTables(t, e)
}

func savedBytes(e *Engine) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saved.bytes
}

// TestFiguresOfTables: the figures of checkpoints and of keys without jobs are the same after a start, from the log and from the tables.
func TestFiguresOfTables(t *testing.T) {
	d := newDisk()
	e := mustOpen(t, d.options(t))
	defer func() { e.Close() }()
	want := func(what string) {
		t.Helper()
		s := do(t, e, storage.Op{Kind: storage.Stats})[0].Answer.Stats
		if s.HeldKeys != 1 || s.Checkpoints != (tube.CheckpointTotals{Jobs: 1, Bytes: 20}) {
			t.Errorf("%s: %d keys are held, and checkpoints are %+v", what, s.HeldKeys, s.Checkpoints)
		}
	}
	for i := range 2 {
		tags := &tube.Tags{Key: fmt.Sprint("k", i), Rules: tube.Rules{HasKeyTTL: true, KeyTTL: time.Hour}}
		id := do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 1e6, Args: &storage.Args{Tags: tags}})[0].Answer.ID
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: 1, ID: id, Args: &storage.Args{Data: []byte(strings.Repeat("x", 10*(i+1)))}})
		if i == 0 {
			do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id})
		}
	}
	want("at first")
	e.Close()
	e = mustOpen(t, d.options(t))
	want("after a start")
	toTables(t, e)
	e.Close()
	e = mustOpen(t, d.options(t))
	want("from the tables")
}
