package embedded

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/tube"
)

// onBoth runs a test on an engine in memory and on one with a journal.
func onBoth(t *testing.T, test func(t *testing.T, e *Engine)) {
	t.Run("memory", func(t *testing.T) { test(t, NewMemory()) })
	t.Run("journal", func(t *testing.T) { test(t, mustOpen(t, newDisk().options(t))) })
}

const many = 20 * partWork

// putMany puts many jobs, 64 in a batch.
func putMany(t *testing.T, e *Engine, name string, delay uint32) {
	t.Helper()
	op := storage.Op{Kind: storage.Put, Tube: name, Delay: delay, TTR: 1000, Body: []byte("body")}
	for range many / 64 {
		do(t, e, slices.Repeat([]storage.Op{op}, 64)...)
	}
}

func takeMany(t *testing.T, e *Engine, holder tube.Holder, name string) {
	t.Helper()
	op := storage.Op{Kind: storage.Take, Holder: holder, Tubes: []string{name}}
	for range many / 64 {
		do(t, e, slices.Repeat([]storage.Op{op}, 64)...)
	}
}

func statsOf(t *testing.T, e *Engine, name string) tube.TubeStats {
	t.Helper()
	return *do(t, e, storage.Op{Kind: storage.TubeStats, Tube: name})[0].Answer.TubeStats
}

// blockingListener is a listener that blocks the wake-ups of one tube. It does not block those
// that come from a caller of Do, which may have to commit.
type blockingListener struct {
	nopListener
	tube    string
	once    sync.Once
	blocked chan struct{} // closed when a wake-up is blocked
	release chan struct{}
}

func newBlockingListener(tube string) *blockingListener {
	return &blockingListener{tube: tube, blocked: make(chan struct{}), release: make(chan struct{})}
}

func (d *blockingListener) WakeUp(name string) bool {
	if name == d.tube && !bytes.Contains(debug.Stack(), []byte(".DoPolling(")) {
		d.once.Do(func() { close(d.blocked) })
		<-d.release
	}
	return false
}

// TestOthersComeBetween blocks a long kick, and a ReleaseAll of a holder of many jobs, after
// the first part. Batches of other clients are answered meanwhile, and see that only a part is
// done.
func TestOthersComeBetween(t *testing.T) {
	long := map[string]struct {
		op    storage.Op
		delay uint32
		prior func(t *testing.T, e *Engine)
	}{
		"kick":        {storage.Op{Kind: storage.Kick, Tube: "long", MaxJobs: 1 << 31}, 1000, func(*testing.T, *Engine) {}},
		"release all": {storage.Op{Kind: storage.ReleaseAll, Holder: 7}, 0, func(t *testing.T, e *Engine) { takeMany(t, e, 7, "long") }},
	}
	for name, l := range long {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, e *Engine) {
				putMany(t, e, "long", l.delay)
				l.prior(t, e)
				d := newBlockingListener("long")
				e.Listen(d)
				ended := make(chan struct{})
				b := &storage.Batch{Ops: []storage.Op{l.op}, Done: func() { close(ended) }}
				go e.Do(b)
				select {
				case <-d.blocked:
				case <-ended:
				}
				do(t, e, storage.Op{Kind: storage.Put, Tube: "other", Body: []byte("x")})
				if s := statsOf(t, e, "long"); s.Ready == 0 || s.Ready > many/2 {
					t.Errorf("%d of %d jobs were ready when others were served", s.Ready, many)
				}
				close(d.release)
				<-ended
				if s := statsOf(t, e, "long"); s.Ready != many {
					t.Errorf("%d of %d jobs are ready in the end", s.Ready, many)
				}
				if l.op.Kind == storage.Kick && b.Ops[0].Answer.Count != many {
					t.Errorf("kicked %d, want %d", b.Ops[0].Answer.Count, many)
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// withoutWorker lets a test do the worker's part.
func withoutWorker(e *Engine) { e.working = true }

// TestTasksShare: long batches are done in turn, a part of each. That holds for kicks, and for
// batches that reference very many tubes or take from them. Small batches go first.
func TestTasksShare(t *testing.T) {
	e := NewMemory()
	withoutWorker(e)
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	var order []string
	batch := func(name string, ops ...storage.Op) *storage.Batch {
		return &storage.Batch{Ops: ops, Done: func() { order = append(order, name) }}
	}
	put := storage.Op{Kind: storage.Put, Tube: "t9"}
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: names}
	e.Do(
		batch("ref", storage.Op{Kind: storage.Ref, Tubes: names, Role: tube.Watching, Delta: 1}),
		batch("takes", slices.Repeat([]storage.Op{put, take}, 40)...),
		batch("small", put),
	)
	if len(order) != 1 || order[0] != "small" || len(e.tasks) != 2 {
		t.Fatalf("done: %q; %d tasks", order, len(e.tasks))
	}
	if done := e.tasks[0].done; done != partWork+1 {
		t.Errorf("%d names were referenced at once, want %d", done, partWork+1)
	}
	e.workPart()
	if done := e.tasks[1].done; done != 2*(partWork+1) || e.tasks[0].batch.Ops[0].Kind != storage.Put {
		t.Errorf("after its next part %d names are referenced, and the first task has %d operations done", done, e.tasks[0].next)
	}
	for e.workPart() {
	}
	if len(order) != 3 || e.pending != 0 {
		t.Errorf("done: %q; %d tasks pending", order, e.pending)
	}
	if n := len(do(t, e, storage.Op{Kind: storage.Tubes})[0].Answer.Names); n != many+1 {
		t.Errorf("%d tubes, want %d", n, many+1)
	}
}

// TestCloseEndsTasks: Close waits for what was begun, and the journal has all of it.
func TestCloseEndsTasks(t *testing.T) {
	d := newDisk()
	e := mustOpen(t, d.options(t))
	putMany(t, e, "long", 1000)
	var ended atomic.Bool
	e.Do(&storage.Batch{Ops: []storage.Op{{Kind: storage.Kick, Tube: "long", MaxJobs: many}}, Done: func() { ended.Store(true) }})
	if err := e.Close(); err != nil || !ended.Load() {
		t.Errorf("closed: %v; the kick was done: %v", err, ended.Load())
	}
	e = mustOpen(t, d.options(t))
	defer e.Close()
	if s := statsOf(t, e, "long"); s.Ready != many {
		t.Errorf("%d of %d jobs are ready after a restart", s.Ready, many)
	}
}

// TestTickInParts counts how many things are done under one hold of the lock, by the wake-ups
// that come in between.
func TestTickInParts(t *testing.T) {
	clock := newFakeClock()
	e := newEngine(clock.now)
	putMany(t, e, "long", 1)
	clock.advance(2 * time.Second)
	d := newBlockingListener("long")
	e.Listen(d)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for next, err := e.Tick(); next <= 0 && err == nil; next, err = e.Tick() {
		}
	}()
	select {
	case <-d.blocked:
	case <-ended:
	}
	if s := statsOf(t, e, "long"); s.Ready == 0 || s.Ready > 2*tickPart {
		t.Errorf("%d of %d jobs were made ready at once", s.Ready, many)
	}
	close(d.release)
	<-ended
	if s := statsOf(t, e, "long"); s.Ready != many {
		t.Errorf("%d of %d jobs are ready in the end", s.Ready, many)
	}
}

// TestPutsWaitForRoom: while the log cannot be written, puts beyond a limit wait. Their callers
// do not, nor do clients that only read. All puts are done later.
func TestPutsWaitForRoom(t *testing.T) {
	g := newPollingEngine(t, nil)
	defer g.close(t)
	g.journal.unwrittenAt = 4000
	hook, syncing, release := blocking()
	g.fs.set(hook)
	var done atomic.Int64
	puts := func(n int) (batches []*storage.Batch) {
		for range n {
			batches = append(batches, counted(&done, storage.Op{Kind: storage.Put, Tube: "a", TTR: 9, Body: make([]byte, 1000)}))
		}
		return batches
	}
	go g.Do(puts(1)...)
	<-syncing
	g.DoPolling(pollFunc(func() int { g.Do(puts(10)...); return 10 }), puts(10)...)
	g.mu.Lock()
	waiting, unwritten := len(g.noRoom), g.journal.unwritten
	g.mu.Unlock()
	if unwritten > 5000 || waiting < 5 {
		t.Errorf("%d bytes wait to be written and %d batches for that", unwritten, waiting)
	}
	close(release)
	eventually(t, "all to be done", func() bool { return done.Load() == 11 })
	if n := g.afterPowerCut(t, 0, "a"); n != 11 {
		t.Errorf("a power cut leaves %d jobs that were acknowledged, of 11", n)
	}
}

// TestPutsWaitNoLonger: a put that waits for room goes on after some time, even if no room
// becomes available.
func TestPutsWaitNoLonger(t *testing.T) {
	d := newDisk()
	e := mustOpen(t, d.options(t))
	defer e.Close()
	e.journal.unwrittenAt = 1
	e.journal.unwritten = 2 // which are never written
	ended := make(chan struct{})
	e.Do(&storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "a", Body: []byte("x")}}, Done: func() { close(ended) }})
	if _, err := e.Tick(); err != nil || len(e.noRoom) != 1 {
		t.Fatalf("tick: %v; %d batches wait", err, len(e.noRoom))
	}
	d.clock.advance(time.Duration(maxWait) + time.Second)
	if _, err := e.Tick(); err != nil {
		t.Error(err)
	}
	<-ended
}

// TestLongKickWaitsForCommit: while the disk does not take what is written, a long kick waits.
// So a put that comes then does not wait for all the jobs that could be kicked meanwhile.
func TestLongKickWaitsForCommit(t *testing.T) {
	e := mustOpen(t, newDisk().options(t))
	defer e.Close()
	name := strings.Repeat("n", 200) // is in each record
	putMany(t, e, name, 1000)
	e.mu.Lock()
	e.journal.writing = new(commit) // as if a commit was in progress
	e.mu.Unlock()
	kicked := make(chan struct{})
	kick := &storage.Batch{Ops: []storage.Op{{Kind: storage.Kick, Tube: name, MaxJobs: 1 << 31}}, Done: func() { close(kicked) }}
	e.Do(kick)
	waiting := func() (bytes int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, f := range e.journal.filling.full {
			bytes += len(f.frame)
		}
		return bytes + len(e.journal.filling.frame)
	}
	for waiting() <= commitOfTasks {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // long enough to kick all of them
	if limit := commitOfTasks + 2*partWork*300; waiting() > limit {
		t.Errorf("%d bytes wait to be written, more than %d", waiting(), limit)
	}
	e.mu.Lock()
	e.journal.writing = nil
	e.journal.startCommit()
	e.journal.handOver()
	e.mu.Unlock()
	<-kicked
	if n := kick.Ops[0].Answer.Count; n != many/64*64 {
		t.Errorf("%d jobs were kicked", n)
	}
}

// TestFrames writes the batches of one call as several frames, some of them in pieces. A power
// cut leaves everything that was acknowledged.
func TestFrames(t *testing.T) {
	atLength(t)
	for _, size := range []int{100, minLarge, 3 * minLarge} {
		d := newDisk()
		e := mustOpen(t, d.options(t))
		e.journal.frameLimit = 4 * size
		var batches []*storage.Batch
		left := make(chan struct{}, 50)
		for i := range 50 {
			body := make([]byte, size+i)
			body[0], body[len(body)-1] = byte(i), byte(i)
			batches = append(batches, &storage.Batch{
				Ops:  []storage.Op{{Kind: storage.Put, Tube: "a", TTR: 9, Body: body}},
				Done: func() { left <- struct{}{} },
			})
		}
		sizes := frameSizes(e, func() { e.Do(batches...) })
		for range batches {
			<-left
		}
		if len(sizes) < 10 || slices.Max(sizes) > 6*(size+200) {
			t.Errorf("bodies of %d bytes: frames of %d bytes", size, sizes)
		}
		d.cutPower(e)
		e = mustOpen(t, d.options(t))
		for i, b := range batches {
			got := do(t, e, storage.Op{Kind: storage.Peek, ID: b.Ops[0].Answer.ID})[0].Answer.Body
			if !slices.Equal(got, b.Ops[0].Body) {
				t.Errorf("job %d comes back with %d bytes, not its %d", i, len(got), len(b.Ops[0].Body))
			}
		}
		e.Close()
	}
}

// frameSizes returns the sizes of the frames of the commit that do fills.
func frameSizes(e *Engine, do func()) (sizes []int) {
	e.mu.Lock()
	e.journal.writing = new(commit) // as if a commit was in progress
	e.mu.Unlock()
	do()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.journal.filling.each(func(pieces [][]byte) error {
		n := 0
		for _, p := range pieces {
			n += len(p)
		}
		sizes = append(sizes, n)
		return nil
	})
	e.journal.writing = nil
	e.journal.startCommit()
	e.journal.handOver()
	return sizes
}

// failReads returns a hook with which every read of a table fails.
func failReads(err error) func(errorfs.Op) error {
	return func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && isTable(op) {
			return err
		}
		return nil
	}
}
