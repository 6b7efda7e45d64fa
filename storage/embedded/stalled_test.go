package embedded

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// doAllSoon carries out operations. It fails if that takes more than half a minute.
func doAllSoon(t *testing.T, s storage.Store, ops []storage.Op) []storage.Op {
	t.Helper()
	done := make(chan struct{})
	go s.Do(&storage.Batch{Ops: ops, Done: func() { close(done) }})
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("operations of kind %d are held up", ops[0].Kind)
	}
	return ops
}

func doSoon(t *testing.T, s storage.Store, op storage.Op) *storage.Answer {
	t.Helper()
	return &doAllSoon(t, s, []storage.Op{op})[0].Answer
}

// putUntilRefused puts jobs until there is no room, and returns their ids.
func putUntilRefused(t *testing.T, e *Engine) (ids []uint64) {
	t.Helper()
	for {
		a := doSoon(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 100, Body: make([]byte, 4<<10)})
		switch {
		case errors.Is(a.Err, storage.ErrNoSpace):
			return ids
		case a.Err != nil:
			t.Fatal(a.Err)
		}
		if ids = append(ids, a.ID); len(ids) > 10_000 {
			t.Fatal("puts are never refused")
		}
	}
}

// awaitPut puts jobs until one is accepted.
func awaitPut(t *testing.T, e *Engine) {
	t.Helper()
	eventually(t, "a put to be accepted", func() bool {
		return doSoon(t, e, storage.Op{Kind: storage.Put, Tube: "b", Body: []byte("x")}).Err == nil
	})
}

// logLines records what is logged.
type logLines struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Message)
	return nil
}

// count returns how many lines contain a word.
func (l *logLines) count(word string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// stalledEngine is an engine whose tables cannot be written.
type stalledEngine struct {
	*Engine
	disk *disk
	fs   *hookFS
	log  *logLines
}

func newStalledEngine(t *testing.T) *stalledEngine {
	d := newDisk()
	d.segment = crashSegment
	s := &stalledEngine{disk: d, fs: newHookFS(d.fs), log: &logLines{Handler: slog.DiscardHandler}}
	o := d.options(t)
	o.fs, o.Log = s.fs, slog.New(s.log)
	s.Engine = mustOpen(t, o)
	s.fs.set(func(op errorfs.Op) error {
		if isTable(op) && (isLink(op) || isCreate(op)) {
			return errDisk
		}
		return nil
	})
	return s
}

// afterPowerCut opens what a power cut leaves.
func (s *stalledEngine) afterPowerCut(t *testing.T) *Engine {
	t.Helper()
	d := &disk{fs: clone(s.disk.fs, 0), clock: s.disk.clock, segment: crashSegment}
	return mustOpen(t, d.options(t))
}

// TestTablesCannotBeWritten: when the tables are too far behind, puts are refused. Everything
// else goes on, over many segments of the log. A power cut loses nothing. When the tables can
// be written again they catch up, and the segments of the log are released.
func TestTablesCannotBeWritten(t *testing.T) {
	begun := time.Now()
	s := newStalledEngine(t)
	ids := putUntilRefused(t, s.Engine)
	_, first := segments(s.Engine)
	for current := first; current < first+2*maxBehind; _, current = segments(s.Engine) {
		moveJobs(t, s.Engine, ids)
	}
	for _, id := range ids[:10] {
		doSoon(t, s, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
	}
	wantJobs(t, s.afterPowerCut(t), ids)
	eventually(t, "a log message that puts are refused", func() bool { return s.log.count("puts are refused") > 0 })
	logged, limit := s.log.count("puts are refused"), 1+int(time.Since(begun)/telemetry.ThrottleInterval)
	if logged > limit || s.log.count("cannot be written") > 2*limit {
		t.Errorf("it was logged %d times that puts are refused", logged)
	}

	s.fs.set(nil)
	awaitPut(t, s.Engine)
	eventually(t, "the tables to catch up", func() bool {
		oldest, current := segments(s.Engine)
		return oldest == current
	})
	wantJobs(t, s.afterPowerCut(t), ids)
	if s.log.count("can be written again") < 1 {
		t.Error("it was not logged that the tables can be written again")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// moveJobs reserves, releases, buries and kicks jobs.
func moveJobs(t *testing.T, e *Engine, ids []uint64) {
	t.Helper()
	for _, m := range []tube.Move{tube.ReserveJob, tube.Release, tube.ReserveJob, tube.Bury, tube.KickJob} {
		var ops []storage.Op
		for _, id := range ids {
			ops = append(ops, storage.Op{Kind: storage.Move, Move: m, Holder: 1, ID: id, Pri: 7})
		}
		for i, op := range doAllSoon(t, e, ops) {
			if a := &op.Answer; a.Err != nil || a.NotFound {
				t.Fatalf("move %d of job %d: %+v", m, ids[i], a)
			}
		}
	}
}

// wantJobs checks that all jobs exist and are ready, except for the first ten, which are
// deleted. Then it closes the engine.
func wantJobs(t *testing.T, e *Engine, ids []uint64) {
	t.Helper()
	for i, id := range ids {
		ops := []storage.Op{{Kind: storage.JobStats, ID: id}, {Kind: storage.Peek, ID: id}}
		storage.DoWait(e, ops)
		job, body := ops[0].Answer.Job, ops[1].Answer.Body
		if i < 10 && job != nil || i >= 10 && (job == nil || job.State != tube.Ready || len(body) != 4<<10) {
			t.Errorf("job %d of %d: %+v with %d bytes", i, len(ids), job, len(body))
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestSlowTablesAreWaitedFor: puts that come faster than the tables can be written wait. They
// are not refused.
func TestSlowTablesAreWaitedFor(t *testing.T) {
	s := newStalledEngine(t)
	release := holdTables(s.fs)
	var puts sync.WaitGroup
	var enough atomic.Bool
	for range 4 {
		puts.Go(func() {
			for !enough.Load() {
				ops := []storage.Op{{Kind: storage.Put, Tube: "a", Body: make([]byte, 4<<10)}}
				if storage.DoWait(s, ops); ops[0].Answer.Err != nil {
					t.Errorf("a put that had to wait: %v", ops[0].Answer.Err)
					return
				}
			}
		})
	}
	eventually(t, "the tables to be far behind", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.journal.behind > maxBehind
	})
	enough.Store(true)
	close(release)
	puts.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestClosedWhileStalled: an engine whose tables cannot be written can be closed, and
// nothing is lost.
func TestClosedWhileStalled(t *testing.T) {
	s := newStalledEngine(t)
	ids := putUntilRefused(t, s.Engine)
	for _, id := range ids[:10] {
		doSoon(t, s, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantJobs(t, s.afterPowerCut(t), ids)
}
