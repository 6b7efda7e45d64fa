package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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
	cold, _ = e.machine.Cold(tube.ColdQueue{Tube: "cold", State: tube.Delayed})
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

// becomesCold makes a job cold again, as the checkpointer does.
func becomesCold(t *testing.T, e *Engine, id uint64) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.journal.evict(id); e.machine.Find(id) != nil {
		t.Error("the job is not cold")
	}
}

// TestColdMeanwhile: jobs of other tubes that become cold while cold jobs are read do not hold up who reads them.
func TestColdMeanwhile(t *testing.T) {
	d := coldDisk()
	s := d.open(t)
	defer func() { s.Close() }()
	e := s.(waitingEngine).Engine
	other := do(t, s, storage.Op{Kind: storage.Put, Tube: "other", Delay: 1000, TTR: 10})[0].Answer.ID
	first := putCold(t, s, 20)
	reads := 0
	e.cold.afterRead = func() {
		if reads++; reads > 20 {
			return
		}
		if _, err := e.journal.admitOne(other); err != nil {
			t.Error(err)
		}
		becomesCold(t, e, other)
	}
	page := do(t, s, storage.Op{Kind: storage.ListJobs, Tube: "cold", State: tube.Delayed, MaxJobs: 5})[0].Answer.Result
	if len(page.Jobs) != 5 || page.Jobs[0].ID != first || reads != 1 {
		t.Errorf("%d reads for %d jobs", reads, len(page.Jobs))
	}
	kicked := do(t, s, storage.Op{Kind: storage.Kick, Tube: "cold", MaxJobs: 20})[0].Answer.Count
	if kicked != 20 || reads > 3 {
		t.Errorf("%d reads for %d jobs", reads, kicked)
	}
	if len(e.cold.watches) != 0 {
		t.Errorf("%d watches are left", len(e.cold.watches))
	}
}

// TestColdInList: jobs of a list that become cold while it is read are read once more, and then stay until it is made.
func TestColdInList(t *testing.T) {
	d := coldDisk()
	s := d.open(t)
	defer func() { s.Close() }()
	e := s.(waitingEngine).Engine
	first := putCold(t, s, 20)
	reads := 0
	e.cold.afterRead = func() {
		if reads++; reads > 10 {
			return
		}
		for _, id := range []uint64{first + 2, first + 15} { // the second one is not in the list
			if _, err := e.journal.admitOne(id); err != nil {
				t.Error(err)
			}
			e.mu.Lock()
			e.journal.evict(id)
			e.mu.Unlock()
		}
	}
	page := do(t, s, storage.Op{Kind: storage.ListJobs, Tube: "cold", State: tube.Delayed, MaxJobs: 5})[0].Answer.Result
	if len(page.Jobs) != 5 || page.Jobs[0].ID != first || page.Jobs[2].ID != first+2 || reads > 3 {
		t.Errorf("%d reads for %v", reads, page.Jobs)
	}
	if cold, _ := coldJobsOf(s); cold != 20 || len(e.cold.watches) != 0 {
		t.Errorf("%d jobs are cold in the end, and there are %d watches", cold, len(e.cold.watches))
	}
}

// TestColdBeforeFirst: a job that becomes cold before the place from which on the first jobs are to be read, while their reader waits for a
// window, is one of them.
func TestColdBeforeFirst(t *testing.T) {
	d := coldDisk()
	s := d.open(t)
	defer func() { s.Close() }()
	e := s.(waitingEngine).Engine
	first := putCold(t, s, 20)
	if _, err := e.journal.admitOne(first); err != nil {
		t.Fatal(err)
	}
	do(t, s, storage.Op{Kind: storage.PeekHead, Tube: "cold", State: tube.Delayed}) // now the second one is the first that is cold
	e.cold.ingesting.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(t, s, storage.Op{Kind: storage.Kick, Tube: "cold", MaxJobs: 2})
	}()
	eventually(t, "the kick", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.cold.watches) > 0
	})
	becomesCold(t, e, first)
	e.cold.ingesting.Unlock()
	<-done
	for n, want := range []tube.State{tube.Ready, tube.Ready, tube.Delayed} {
		if got := do(t, s, storage.Op{Kind: storage.JobStats, ID: first + uint64(n)})[0].Answer.Job.State; got != want {
			t.Errorf("job %d is %v", n, got)
		}
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

// coldReadyDisk is a disk on which ready jobs are cold soon, if there are more than a few.
func coldReadyDisk() *disk {
	d := coldDisk()
	d.mostReady, d.fewReady = 100, 20
	return d
}

// putReady puts n ready jobs of random priorities into the tube "ready", and waits until most are cold. It returns their ids in the order in
// which they come out.
func putReady(t testing.TB, s storage.Store, n int) (ids []uint64) {
	t.Helper()
	pri := make(map[uint64]uint32, n)
	for i := range n {
		op := storage.Op{Kind: storage.Put, Tube: "ready", Pri: uint32(i * 7919 % 13), TTR: 10, Body: fmt.Append(nil, "body ", i)}
		id := do(t, s, op)[0].Answer.ID
		ids, pri[id] = append(ids, id), op.Pri
	}
	slices.SortFunc(ids, func(a, b uint64) int { return cmp.Or(cmp.Compare(pri[a], pri[b]), cmp.Compare(a, b)) })
	e := s.(waitingEngine).Engine
	endWindows(t, e)
	eventually(t, "no more ready jobs become cold", func() bool {
		s.Tick()
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.machine.ReadyInMemory() <= 100 && !e.cold.cooling
	})
	return ids
}

// TestColdReady: of very many ready jobs only the first are in memory, also after a start, and all come out in their order.
func TestColdReady(t *testing.T) {
	const n = 1000
	d := coldReadyDisk()
	s := d.open(t)
	ids := putReady(t, s, n)
	urgent := do(t, s, storage.Op{Kind: storage.Put, Tube: "ready", TTR: 10, Body: []byte("urgent")})[0].Answer.ID
	ids = slices.Insert(ids, (n+12)/13, urgent) // the last one of priority 0
	for range 2 {
		stats := do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "ready"})[0].Answer.TubeStats
		if stats.Ready != n+1 || stats.Urgent != n+1 {
			t.Errorf("%d jobs are ready, and %d urgent", stats.Ready, stats.Urgent)
		}
		s.Close()
		s = d.open(t)
	}
	defer s.Close()
	e := s.(waitingEngine).Engine
	e.mu.Lock()
	e.cold.admitting = true // none are admitted but for the commands below
	e.mu.Unlock()
	if cold := e.machine.ColdJobs(); cold < n-100 {
		t.Errorf("%d jobs are cold", cold)
	}
	ids = append(ids, do(t, s, storage.Op{Kind: storage.Put, Tube: "ready", Pri: 1 << 20, TTR: 10, Body: []byte("last")})[0].Answer.ID)
	for i, id := range ids {
		ops := do(t, s, storage.Op{Kind: storage.PeekHead, Tube: "ready", State: tube.Ready}, storage.Op{Kind: storage.Take, Tubes: []string{"ready"}, Holder: 1})
		if peeked, took := ops[0].Answer, ops[1].Answer; peeked.ID != id || took.ID != id || len(took.Body) == 0 {
			t.Fatalf("job %d: peeked %d, and took %d with %q, want %d", i, peeked.ID, took.ID, took.Body, id)
		}
	}
}

// TestColdOldest: the oldest ready job of a tube can be a cold one that comes out late; jobs that have gone do not count.
func TestColdOldest(t *testing.T) {
	const n = 300
	d := coldReadyDisk()
	s := d.open(t)
	defer s.Close()
	old := do(t, s, storage.Op{Kind: storage.Put, Tube: "ready", Pri: 12, TTR: 10, Body: []byte("old")})[0].Answer.ID
	d.clock.advance(100 * time.Second)
	putReady(t, s, n)
	oldest := func() time.Duration {
		return do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "ready"})[0].Answer.TubeStats.OldestReady.Round(10 * time.Second)
	}
	if got := oldest(); got != 100*time.Second {
		t.Errorf("the oldest ready job is %v old", got)
	}
	do(t, s, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: old})
	if got := oldest(); got != 0 {
		t.Errorf("without it, the oldest ready job is %v old", got)
	}
}

// TestColdReadyWhole: commands about many jobs reach all that are ready, wherever they are.
func TestColdReadyWhole(t *testing.T) {
	const n = 500
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s storage.Store, ids []uint64)
	}{
		{"flush", func(t *testing.T, s storage.Store, ids []uint64) {
			if flushed := do(t, s, storage.Op{Kind: storage.Flush, Tube: "ready", State: tube.Gone})[0].Answer.Count; flushed != n {
				t.Errorf("%d jobs were flushed", flushed)
			}
		}},
		{"move", func(t *testing.T, s storage.Store, ids []uint64) {
			moved := do(t, s, storage.Op{Kind: storage.MoveJobs, Tube: "ready", State: tube.Ready, MaxJobs: n, Args: &storage.Args{To: "other"}})[0].Answer.Count
			if other := do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "other"})[0].Answer.TubeStats; moved != n || other.Ready != n {
				t.Errorf("%d jobs were moved, and %d came", moved, other.Ready)
			}
		}},
		{"list", func(t *testing.T, s storage.Store, ids []uint64) {
			var listed []uint64
			for cursor, more := "", true; more; more = cursor != "" {
				page := do(t, s, storage.Op{Kind: storage.ListJobs, Tube: "ready", State: tube.Ready, MaxJobs: 30, Args: &storage.Args{Cursor: cursor}})[0].Answer.Result
				for _, j := range page.Jobs {
					listed = append(listed, j.ID)
				}
				cursor = page.Cursor
			}
			if !slices.Equal(listed, ids) {
				t.Errorf("%d jobs are listed: %v", len(listed), listed)
			}
		}},
		{"with a group", func(t *testing.T, s storage.Store, ids []uint64) {
			do(t, s, storage.Op{Kind: storage.Put, Tube: "ready", Pri: 1 << 20, TTR: 10, Body: []byte("a"), Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}})
			got := make(map[uint64]bool)
			for range n + 1 {
				took := do(t, s, storage.Op{Kind: storage.Take, Tubes: []string{"ready"}, Holder: 1})[0].Answer
				got[took.ID] = !took.NotFound
			}
			for _, id := range ids {
				if !got[id] {
					t.Fatalf("job %d is missing", id)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := coldReadyDisk().open(t)
			defer s.Close()
			c.do(t, s, putReady(t, s, n))
		})
	}
}

// TestColdBurst: when more delayed jobs are due at once than are admitted, those that are admitted make room as cold ready jobs until all are.
func TestColdBurst(t *testing.T) {
	const n = 600
	d := coldDisk()
	s := d.open(t)
	defer s.Close()
	e := s.(waitingEngine).Engine
	for i := range n {
		do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Pri: uint32(n - i), Delay: 1000, TTR: 10, Body: fmt.Append(nil, "body ", i)})
	}
	endWindows(t, e)
	e.mu.Lock()
	e.cold.mostWarm, e.cold.fewReady = 100, 5
	e.mu.Unlock()
	d.clock.advance(1001 * time.Second)
	of := tube.ColdQueue{Tube: "cold", State: tube.Delayed}
	eventually(t, "delayed jobs that are due stay cold", func() bool {
		d.clock.advance(100 * time.Millisecond)
		s.Tick()
		e.mu.Lock()
		defer e.mu.Unlock()
		cold, _ := e.machine.Cold(of)
		return cold == 0 && e.machine.Totals().Ready >= n && !e.cold.cooling
	})
	if _, inMemory := coldJobsOf(s); inMemory > 200 {
		t.Errorf("%d jobs are in memory", inMemory)
	}
	for i := range n {
		took := do(t, s, storage.Op{Kind: storage.Take, Tubes: []string{"cold"}, Holder: 1})[0].Answer
		if want := fmt.Sprint("body ", n-1-i); string(took.Body) != want {
			t.Fatalf("job %d is %q, want %q", i, took.Body, want)
		}
	}
}

// TestColdClockSet: when the wall clock is set a month ahead, delayed jobs that are cold are due, with a bounded number of them in memory; when
// it is set back, those that are still delayed wait again.
func TestColdClockSet(t *testing.T) {
	const n, day = 500, 24 * time.Hour
	d, clock := coldDisk(), &setClock{fakeClock: newFakeClock()}
	o := d.options(t)
	o.clock = clock.now
	s := waitingEngine{mustOpen(t, o)}
	defer s.Close()
	e := s.Engine
	for i := range n {
		do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Delay: uint32(20*day/time.Second) + uint32(i), TTR: 10, Body: fmt.Append(nil, "body ", i)})
	}
	endWindows(t, e)
	e.mu.Lock()
	e.cold.mostWarm, e.cold.fewReady = 100, 1000 // they do not make room
	e.mu.Unlock()
	ready := func() (ready, cold int) {
		clock.advance(100 * time.Millisecond)
		s.Tick()
		e.mu.Lock()
		defer e.mu.Unlock()
		cold, _ = e.machine.Cold(tube.ColdQueue{Tube: "cold", State: tube.Delayed})
		return e.machine.CountIn("cold", tube.Ready), cold
	}
	clock.ahead.Add(int64(30 * day / time.Second))
	eventually(t, "the jobs are not due", func() bool { r, _ := ready(); return r >= 100 })
	if _, cold := ready(); cold < n-200 { // waitingEngine admits them, too
		t.Errorf("%d jobs are cold", cold)
	}
	clock.ahead.Add(-int64(30 * day / time.Second))
	for i := range 100 {
		took := do(t, s, storage.Op{Kind: storage.Take, Tubes: []string{"cold"}, Holder: 1})[0].Answer
		if string(took.Body) != "body "+strconv.Itoa(i) {
			t.Fatalf("job %d is %q", i, took.Body)
		}
	}
	r, _ := ready() // those that were due stay ready
	if stats := do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "cold"})[0].Answer.TubeStats; r > 100 || r+int(stats.Delayed) != n-100 {
		t.Errorf("set back, %d jobs are ready, %d delayed", r, stats.Delayed)
	}
}

// callContext calls a function each time when it is asked whether it has ended.
type callContext struct {
	context.Context
	call func()
}

func (c callContext) Err() error {
	c.call()
	return c.Context.Err()
}

// TestColdWhileBuried: when all jobs are buried, none is left out because it becomes cold meanwhile.
func TestColdWhileBuried(t *testing.T) {
	const n = 50
	s := coldDisk().open(t)
	defer s.Close()
	e := s.(waitingEngine).Engine
	for i := range n {
		do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Delay: 1000, TTR: 10, Body: fmt.Append(nil, "body ", i)})
	}
	calls, queues := 0, 2*len(e.machine.Tubes())
	ctx := callContext{t.Context(), func() {
		if calls++; calls == queues+1 { // the cold jobs of all queues are buried
			endWindows(t, e)
		}
	}}
	if _, err := e.buryAll(ctx, "all"); err != nil {
		t.Fatal(err)
	}
	if stats := do(t, s, storage.Op{Kind: storage.TubeStats, Tube: "cold"})[0].Answer.TubeStats; stats.Buried != n || stats.Delayed != 0 {
		t.Errorf("%d jobs are buried, %d delayed", stats.Buried, stats.Delayed)
	}
}
