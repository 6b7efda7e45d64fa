package embedded

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

var stressFor = flag.Duration("stress", 500*time.Millisecond, "how long each engine is under load at least")

// load is many clients of one engine. They call it in all the ways in which a server does.
type load struct {
	*ledger
	t       *testing.T
	e       *Engine
	ending  chan struct{}
	workers sync.WaitGroup
	batches chan *storage.Batch // for the loop
	polls   atomic.Int64        // polls of the loop that found some
}

const (
	directly = 4 // clients that call Do themselves
	looped   = 8 // clients that pass their batches to the loop
)

// startLoad starts the clients. Each has its own tube, so it knows which jobs it must find
// there.
func startLoad(t *testing.T, e *Engine, seed uint64) *load {
	l := &load{
		ledger: newLedger(), t: t, e: e,
		ending: make(chan struct{}), batches: make(chan *storage.Batch, 3*looped),
	}
	for i := range directly + looped {
		c := &client{load: l, holder: tube.Holder(i + 1), tube: fmt.Sprint("tube", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		c.do = func(b ...*storage.Batch) { e.Do(b...) }
		if i >= directly {
			c.do = l.enqueue
		}
		l.workers.Go(c.work)
	}
	l.workers.Go(l.tick)
	go l.loop()
	return l
}

// stop ends the clients, and then the loop.
func (l *load) stop() {
	close(l.ending)
	l.workers.Wait()
	close(l.batches)
}

func (l *load) over() bool {
	select {
	case <-l.ending:
		return true
	default:
		return false
	}
}

func (l *load) enqueue(batches ...*storage.Batch) {
	for _, b := range batches {
		l.batches <- b
	}
}

// loop does what an event loop of the server does: it passes on together what has arrived and,
// while that is being written, what arrives then.
func (l *load) loop() {
	for b := range l.batches {
		l.e.DoPolling(pollFunc(func() int {
			more := l.soon()
			if len(more) > 0 {
				l.polls.Add(1)
				l.e.Do(more...)
			}
			return len(more)
		}), l.waiting(b)...)
	}
}

// waiting returns first, if it is not nil, and what else has arrived.
func (l *load) waiting(first *storage.Batch) (batches []*storage.Batch) {
	if first != nil {
		batches = append(batches, first)
	}
	for {
		select {
		case b := <-l.batches:
			if b == nil {
				return batches // the load is over
			}
			batches = append(batches, b)
		default:
			return batches
		}
	}
}

// soon returns what has arrived. It waits some time if nothing has.
func (l *load) soon() []*storage.Batch {
	select {
	case b := <-l.batches:
		return l.waiting(b)
	case <-time.After(2 * time.Millisecond):
		return nil
	}
}

func (l *load) tick() {
	for !l.over() {
		if _, err := l.e.Tick(); err != nil {
			l.t.Error(err)
		}
		select {
		case <-l.ending:
		case <-time.After(time.Millisecond):
		}
	}
}

// client is a producer and consumer of the jobs in its own tube.
type client struct {
	*load
	holder tube.Holder
	tube   string
	random *rand.Rand
	do     func(...*storage.Batch)
	puts   int
}

func (c *client) work() {
	for !c.over() {
		switch have := c.tags(c.tube, ready); {
		case len(have) < 5 || len(have) < 60 && c.random.IntN(2) == 0:
			c.send(c.some(), c.some())
		case c.random.IntN(4) == 0:
			c.send([]order{c.move(tube.ReserveJob, c.holder, have[0])})
			c.send([]order{c.move(tube.Bury, c.holder, have[0])}, []order{c.move(tube.Delete, c.holder, have[1])})
		default:
			c.consume()
		}
		if hidden := c.tags(c.tube, buried); len(hidden) > 3 {
			c.send([]order{c.move(tube.KickJob, 0, hidden[0]), c.move(tube.Delete, c.holder, hidden[1])})
		}
	}
}

// some makes puts with bodies of all sizes.
func (c *client) some() (orders []order) {
	for range 1 + c.random.IntN(4) {
		c.puts++
		size := []int{20, tables.MaxInline, tables.MaxInline + 1, 8000, 40_000}[c.random.IntN(5)]
		orders = append(orders, c.put(fmt.Sprintf("%s-%d", c.tube, c.puts), c.tube, size))
	}
	return orders
}

// send passes on batches with one call, and waits until all are done.
func (c *client) send(orders ...[]order) {
	var done sync.WaitGroup
	var batches []*storage.Batch
	for _, o := range orders {
		done.Add(1)
		batches = append(batches, c.batch(done.Done, o...))
	}
	c.do(batches...)
	done.Wait()
}

// consume reserves the first job and deletes it. The job must be in the ledger.
func (c *client) consume() {
	done := make(chan struct{})
	b := &storage.Batch{
		Ops:  []storage.Op{{Kind: storage.Take, Holder: c.holder, Tubes: []string{c.tube}}},
		Done: func() { close(done) },
	}
	c.do(b)
	<-done
	a := &b.Ops[0].Answer
	storetest.Receive(a)
	tag := tagOf(a.Body)
	c.mu.Lock()
	account := c.jobs[tag]
	known := account != nil && account.id == a.ID && account.now == ready && bytes.Equal(a.Body, bodyOf(tag, account.size))
	c.mu.Unlock()
	if a.Err != nil || a.NotFound || !known {
		c.t.Errorf("a reserve in %s got %d with %d bytes, not found %t, %v; the ledger: %+v", c.tube, a.ID, len(a.Body), a.NotFound, a.Err, account)
		return
	}
	c.send([]order{c.move(tube.Delete, c.holder, tag)})
}

// stressed are the ways of syncing.
var stressed = map[string]time.Duration{"sync before replies": 0, "sync every 20 ms": 20 * time.Millisecond, "no sync": -1}

// stressOptions makes segments as small as possible, holds windows back for two of them, and
// keeps no body in memory.
func stressOptions(t *testing.T, fs vfs.FS, dir string, every time.Duration) Options {
	return Options{
		Dir: dir, FileSize: minFileSize, windowBytes: 2 * minFileSize, KeepBodies: 1, SyncEvery: every, fs: fs, Log: slog.New(slog.DiscardHandler),
		Fatal: func(err error) { t.Errorf("fatal: %v", err); select {} },
	}
}

// TestStress lets many clients work on a real disk until several segments of the log were
// filled and written to the tables. Then it closes the engine. Everything must be there when it
// is opened again.
func TestStress(t *testing.T) {
	for name, every := range stressed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := stressOptions(t, nil, t.TempDir(), every)
			e := mustOpen(t, o)
			l := startLoad(t, e, 1)
			until := time.After(*stressFor)
			eventually(t, "several checkpoints", func() bool { oldest, _ := segments(e); return oldest > 3 })
			<-until
			eventually(t, "polls that find something", func() bool { return l.polls.Load() > 0 || !e.journal.syncFirst })
			l.stop()
			_, current := segments(e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			l.wantLarge(current)
			e = mustOpen(t, o)
			l.compare(t, e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantLarge checks that the load was large enough.
func (l *load) wantLarge(segments uint64) {
	l.t.Logf("%d segments, %d batches, %d polls", segments, l.acked, l.polls.Load())
	if l.refused != nil {
		l.t.Error(l.refused)
	}
	if l.polls.Load() == 0 && l.e.journal.syncFirst {
		l.t.Error("no poll has found anything")
	}
}

// TestStressAndCrash takes what a power cut and what an end of the process leave, again and
// again while the clients work. With a sync before replies everything that was acknowledged
// must be there. Without, that holds for the end of the process only; what a power cut leaves
// must be consistent.
func TestStressAndCrash(t *testing.T) {
	atLength(t)
	for name, every := range stressed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := newMem()
			e := mustOpen(t, stressOptions(t, fs, "jobs", every))
			l := startLoad(t, e, 2)
			var crashes []crash
			for _, percent := range []int{0, 100} {
				_, begun := segments(e)
				eventually(t, "the next segments", func() bool { _, current := segments(e); return current > begun+1 })
				crashes = append(crashes, l.crash(fs, percent))
			}
			eventually(t, "polls that find something", func() bool { return l.polls.Load() > 0 || every != 0 })
			l.stop()
			_, current := segments(e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			l.wantLarge(current)
			for _, c := range append(crashes, l.crash(fs, 0)) {
				c.check(t, every)
			}
		})
	}
}

// crash is what is left at some moment of the load, and the ledger at that moment.
type crash struct {
	frozen  *memFS
	ledger  *ledger
	percent int
	closed  bool // the engine was closed
}

// crash copies the disk. The ledger has what was acknowledged before, and what may have been
// done until everything was copied.
func (l *load) crash(fs *memFS, percent int) crash {
	before := l.copy()
	left := clone(fs, percent)
	return crash{left, l.copy().since(before), percent, l.over()}
}

func (c *crash) check(t *testing.T, every time.Duration) {
	t.Helper()
	o := stressOptions(t, c.frozen, "jobs", every)
	o.segment = crashSegment // small segments are created faster
	e, err := Open(o)
	if err != nil {
		t.Fatalf("after a crash with %d percent: %v", c.percent, err)
	}
	if every == 0 || c.percent == 100 || c.closed {
		c.ledger.compare(t, e)
	} else {
		c.ledger.comparePart(t, e)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
