package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/tube"
)

// coldDisk is a disk on which delayed jobs are cold as soon as they are in the tables.
func coldDisk() *disk {
	d := newDisk()
	d.segment, d.coldAfter = crashSegment, 1
	return d
}

// putCold puts n jobs into the tube "cold", of which each is due a second after the one before, and waits until they are cold. It returns
// the id of the first.
func putCold(t testing.TB, s storage.Store, n int) (first uint64) {
	t.Helper()
	for i := range n {
		op := do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Delay: uint32(1000 + i), TTR: 10, Body: fmt.Append(nil, "body ", i)})[0]
		if i == 0 {
			first = op.Answer.ID
		}
	}
	endWindows(t, s.(waitingEngine).Engine)
	if cold, _ := coldJobsOf(s); cold < n {
		t.Fatalf("%d of %d jobs are cold", cold, n)
	}
	return first
}

// endWindows puts jobs until everything that was put before is in the tables.
func endWindows(t testing.TB, e *Engine) {
	t.Helper()
	fillSegment(t, e)
	fillSegment(t, e)
	eventually(t, "the windows", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.behind == 0
	})
}

// coldJobsOf returns how many jobs of the tube "cold" are cold, and how many jobs the engine has in memory.
func coldJobsOf(s storage.Store) (cold, inMemory int) {
	e := s.(waitingEngine).Engine
	e.mu.Lock()
	defer e.mu.Unlock()
	cold, _ = e.machine.Cold("cold")
	for id := uint64(1); id <= e.machine.LastID(); id++ {
		if e.machine.Find(id) != nil {
			inMemory++
		}
	}
	return cold, inMemory
}

// TestCold: jobs that are cold are not in memory, also after a start, and are delivered in their order when they are due.
func TestCold(t *testing.T) {
	const n = 300
	d := coldDisk()
	s := d.open(t)
	first := putCold(t, s, n)
	for range 2 {
		if stats := do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "cold"})[0].Answer.TubeStats; stats.Delayed != n {
			t.Errorf("%d jobs are delayed", stats.Delayed)
		}
		if cold, inMemory := coldJobsOf(s); cold != n || inMemory > 100 {
			t.Errorf("%d jobs are cold, and %d in memory", cold, inMemory)
		}
		s.Close()
		s = d.open(t)
	}
	defer s.Close()
	d.clock.advance(1000*time.Second + n*time.Second)
	s.Tick()
	for i := range n {
		took := do(t, s, storage.Op{Kind: storage.Take, Tubes: []string{"cold"}, Holder: 1})[0].Answer
		if took.ID != first+uint64(i) || string(took.Body) != "body "+strconv.Itoa(i) {
			t.Fatalf("job %d: %d with %q", i, took.ID, took.Body)
		}
	}
}

// TestColdWhileDeleted: a cold job that was read, and is deleted before it gets back into memory, does not come back, though
// the tables would not have it any more by then.
func TestColdWhileDeleted(t *testing.T) {
	d := coldDisk()
	s := d.open(t)
	defer func() { s.Close() }()
	e := s.(waitingEngine).Engine
	first := putCold(t, s, 20)
	written := make(chan struct{})
	e.cold.afterRead = func() {
		e.cold.afterRead = nil
		do(t, s, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: first})
		go func() {
			defer close(written)
			endWindows(t, e)
		}()
		select {
		case <-written:
		case <-time.After(100 * time.Millisecond):
		}
	}
	page := do(t, s, storage.Op{Kind: storage.ListJobs, Tube: "cold", State: tube.Delayed, MaxJobs: 10})[0].Answer.Result
	<-written
	if page.Jobs[0].ID != first+1 {
		t.Errorf("the list begins with job %d", page.Jobs[0].ID)
	}
	for range 2 {
		gone := []storage.Op{{Kind: storage.Peek, ID: first}}
		if storage.DoWait(s, gone); !gone[0].Answer.NotFound {
			t.Errorf("the job that was deleted is there: %+v", gone[0].Answer)
		}
		s.Close()
		s = d.open(t)
	}
}

// TestColdUnreadable: if the tables cannot be read, a command about a cold job fails, and the job is there when they can be.
func TestColdUnreadable(t *testing.T) {
	d := coldDisk()
	fs := newHookFS(d.fs)
	o := d.options(t)
	o.fs = fs
	s := waitingEngine{mustOpen(t, o)}
	defer s.Close()
	first := putCold(t, s, 20)
	s.journal.tables.EmptyCache()
	fs.set(func(op errorfs.Op) error {
		if isTable(op) && (op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpOpen) {
			return errors.New("the disk is away")
		}
		return nil
	})
	ops := []storage.Op{
		{Kind: storage.Peek, ID: first}, {Kind: storage.PeekHead, Tube: "cold", State: tube.Delayed}, {Kind: storage.Flush, Tube: "cold", State: tube.Delayed},
	}
	for i := range ops {
		if storage.DoWait(s, ops[i:i+1]); !errors.Is(ops[i].Answer.Err, storage.ErrUnavailable) {
			t.Errorf("operation %d: %+v", i, ops[i].Answer)
		}
	}
	fs.set(nil)
	peeked := do(t, s, ops...)
	if string(peeked[0].Answer.Body) != "body 0" || peeked[1].Answer.ID != first || peeked[2].Answer.Count != 20 {
		t.Errorf("%+v", peeked)
	}
}

// TestColdBackup: a backup has cold jobs; they are cold in the engine that is restored from it, or buried like all others.
func TestColdBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), segment: crashSegment, windowBytes: -1, coldAfter: 1})
	defer e.Close()
	putCold(t, waitingEngine{e}, 600)
	backup := filepath.Join(dir, "backup")
	if _, err := e.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	again, _ := restored(t, backup, false)
	if stats := totals(t, again); stats.Delayed != 600 || again.machine.ColdJobs() != 600 {
		t.Errorf("%d jobs are delayed, %d of them cold", stats.Delayed, again.machine.ColdJobs())
	}
	buried, r := restored(t, backup, true)
	if stats := totals(t, buried); stats.Delayed != 0 || stats.Buried < 600 || r.Buried != int(stats.Buried) {
		t.Errorf("%+v, and %d were buried", stats, r.Buried)
	}
}

// TestColdKickWhileMade: a kick of delayed jobs ends though others become cold meanwhile.
func TestColdKickWhileMade(t *testing.T) {
	d := coldDisk()
	s := d.open(t)
	defer s.Close()
	putCold(t, s, 2000)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Delay: 999, TTR: 10, Body: make([]byte, 4000)})
			}
		}
	}()
	kicked := 0
	for kicked < 1500 {
		kicked += do(t, s, storage.Op{Kind: storage.Kick, Tube: "cold", MaxJobs: 500})[0].Answer.Count
	}
	close(stop)
	<-stopped
}
