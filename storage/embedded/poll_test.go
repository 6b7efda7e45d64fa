package embedded

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/tube"
)

// isLogSync reports whether frames of the log are being synced: by a commit or by the timer.
func isLogSync(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSyncData && isLog(op) }

// pollingEngine is an engine on a disk in memory. Tests make its file system wait.
type pollingEngine struct {
	*Engine
	fs *hookFS
	d  *disk
}

func newPollingEngine(t *testing.T, change func(*Options)) *pollingEngine {
	d := newDisk()
	g := &pollingEngine{fs: newHookFS(d.fs), d: d}
	o := d.options(t)
	o.fs = g.fs
	if change != nil {
		change(&o)
	}
	g.Engine = mustOpen(t, o)
	return g
}

func (g *pollingEngine) close(t *testing.T) {
	t.Helper()
	g.fs.set(nil)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// afterPowerCut opens what a power cut at this moment leaves, with percent of what was not
// synced. It returns how many jobs are ready in a tube.
func (g *pollingEngine) afterPowerCut(t *testing.T, percent int, name string) int {
	t.Helper()
	d := &disk{fs: clone(g.d.fs, percent), clock: g.d.clock}
	e := mustOpen(t, d.options(t))
	defer e.Close()
	ops := []storage.Op{{Kind: storage.TubeStats, Tube: name}}
	storage.DoWait(e, ops)
	if ops[0].Answer.TubeStats == nil {
		return 0
	}
	return int(ops[0].Answer.TubeStats.Ready)
}

// puts makes batches of one put each. Each adds 1 to done when it is done.
func puts(n int, name string, done *atomic.Int64) []*storage.Batch {
	batches := make([]*storage.Batch, n)
	for i := range batches {
		batches[i] = counted(done, storage.Op{Kind: storage.Put, Tube: name, TTR: 100, Body: []byte("body")})
	}
	return batches
}

// counted makes a batch that adds 1 to done when it is done.
func counted(done *atomic.Int64, ops ...storage.Op) *storage.Batch {
	return &storage.Batch{Ops: ops, Done: func() { done.Add(1) }}
}

// counting returns a hook that counts the syncs of the log.
func counting(syncs *atomic.Int64) func(errorfs.Op) error {
	return func(op errorfs.Op) error {
		if isLogSync(op) {
			syncs.Add(1)
		}
		return nil
	}
}

// pollFunc makes the argument of DoPolling from a function that carries out further batches.
func pollFunc(poll func() int) func(bool) int {
	return func(wanted bool) int {
		if !wanted {
			return 0
		}
		return poll()
	}
}

// blocking makes every sync of the log wait until release is closed. Before that it sends on
// syncing.
func blocking() (hook func(errorfs.Op) error, syncing chan struct{}, release chan struct{}) {
	syncing, release = make(chan struct{}, 100), make(chan struct{})
	return func(op errorfs.Op) error {
		if isLogSync(op) {
			syncing <- struct{}{}
			<-release
		}
		return nil
	}, syncing, release
}

// TestOneSyncForAllPolls: everything that was carried out while polling is done when DoPolling
// returns, and one sync of the log was enough for it. The timer may have synced as well, if
// this took long.
func TestOneSyncForAllPolls(t *testing.T) {
	g := newPollingEngine(t, nil)
	defer g.close(t)
	var syncs, done atomic.Int64
	g.fs.set(counting(&syncs))
	polls, begun := 0, time.Now()
	g.DoPolling(pollFunc(func() int {
		polls++
		g.Do(puts(5, "a", &done)...)
		if n := done.Load(); n > 0 && syncs.Load() == 0 {
			t.Errorf("poll %d: %d batches are done before any sync", polls, n)
		}
		return 5
	}), puts(2, "a", &done)...)
	limit := 1 + int64(time.Since(begun)/lateSync)
	if polls != maxPolls || done.Load() != 2+5*maxPolls {
		t.Errorf("%d polls and %d batches done, want %d and %d", polls, done.Load(), maxPolls, 2+5*maxPolls)
	}
	if n := syncs.Load(); n < 1 || n > limit {
		t.Errorf("%d syncs for all polls, want at most %d", n, limit)
	}
	if n := g.afterPowerCut(t, 0, "a"); n != 2+5*maxPolls {
		t.Errorf("a power cut leaves %d jobs that were acknowledged, of %d", n, 2+5*maxPolls)
	}
}

// TestNumberOfPolls: a commit polls as long as enough batches come and the log has to be
// synced, but not for ever.
func TestNumberOfPolls(t *testing.T) {
	put := storage.Op{Kind: storage.Put, Tube: "a", Body: []byte("body")}
	reserve := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"a"}}
	for _, c := range []struct {
		name    string
		batches []int // found by each poll, the last for all further ones
		op      storage.Op
		late    bool // the log is not synced before replies
		polls   int
	}{
		{"many come", []int{100}, put, false, maxPolls},
		{"nothing comes", []int{0}, put, false, 1},
		{"few come", []int{worthPolling - 1}, put, false, 1},
		{"just enough come", []int{worthPolling}, put, false, maxPolls},
		{"few come at last", []int{100, worthPolling, 1}, put, false, 3},
		{"nothing to sync", []int{100}, reserve, false, 0},
		{"no batch waits for a sync", []int{100}, put, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newPollingEngine(t, func(o *Options) {
				if c.late {
					o.SyncEvery = -1
				}
			})
			defer g.close(t)
			do(t, g, put)
			polls := 0
			var done atomic.Int64
			g.DoPolling(pollFunc(func() int {
				polls++
				return c.batches[min(polls, len(c.batches))-1]
			}), counted(&done, c.op))
			if polls != c.polls {
				t.Errorf("polled %d times, want %d", polls, c.polls)
			}
			if done.Load() != 1 {
				t.Errorf("done %d times", done.Load())
			}
		})
	}
}

// TestReservesBeforeTheSync: reserves of jobs that are on the disk are answered before the sync
// begins, both those of the first call and those of a poll, and there is another call of poll
// after them, so that these answers can be sent. Everything else is answered after the sync,
// including a reserve of a job that was just put, and a lease, which survives a restart. After a power cut before the sync, nothing of
// that exists.
func TestReservesBeforeTheSync(t *testing.T) {
	g := newPollingEngine(t, nil)
	defer g.close(t)
	put := storage.Op{Kind: storage.Put, Tube: "old", TTR: 100, Body: []byte("body")}
	do(t, g, put, put, put, put, put, put, put)
	take := func(from string) storage.Op {
		return storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{from}}
	}
	lease := take("old")
	lease.Holder = tube.LeaseHolder
	var free, bound, out atomic.Int64
	hook, syncing, release := blocking()
	g.fs.set(hook)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		polls := 0
		g.DoPolling(func(read bool) int {
			if out.Store(free.Load()); !read {
				return 0
			}
			polls++
			g.Do(append(puts(2, "new", &bound), counted(&free, take("old")), counted(&bound, take("new")),
				counted(&bound, take("old"), put), counted(&bound, lease))...)
			return 6 * (2 - polls)
		}, append(puts(1, "new", &bound), counted(&free, take("old")))...)
	}()
	<-syncing
	eventually(t, "the reserves to be done while the sync is blocked", func() bool { return free.Load() == 3 })
	if n := out.Load(); n != 3 {
		t.Errorf("%d answers to reserves could be sent before the sync", n)
	}
	if n := bound.Load(); n != 0 {
		t.Errorf("%d of the other batches are done before the sync", n)
	}
	if n := g.afterPowerCut(t, 0, "new"); n != 0 {
		t.Errorf("%d jobs are there after a power cut before the sync", n)
	}
	if n := g.afterPowerCut(t, 100, "new"); n != 5 {
		t.Errorf("%d jobs are there after an end of the process before the sync, want 5", n)
	}
	if n := bound.Load(); n != 0 {
		t.Errorf("%d of the other batches are done before the sync", n)
	}
	close(release)
	<-returned
	if n := bound.Load(); n != 11 {
		t.Errorf("%d of 11 other batches are done after the sync", n)
	}
	if n := g.afterPowerCut(t, 0, "new"); n != 5 {
		t.Errorf("%d jobs are there after a power cut after the sync, want 5", n)
	}
}

// TestFailingSyncEndsNothing: if the sync fails, nothing is acknowledged after it: neither what
// caused the sync, nor what was polled, nor what comes later.
func TestFailingSyncEndsNothing(t *testing.T) {
	fatal := make(chan error, 10)
	g := newPollingEngine(t, func(o *Options) {
		o.Fatal = func(err error) { fatal <- err; select {} }
	})
	do(t, g, storage.Op{Kind: storage.Put, Tube: "old", TTR: 100, Body: []byte("body")})
	broken := errors.New("broken")
	polled := make(chan struct{})
	g.fs.set(func(op errorfs.Op) error {
		if !isLogSync(op) {
			return nil
		}
		<-polled // the sync of the timer may come first
		return broken
	})
	var bound atomic.Int64
	go g.DoPolling(pollFunc(func() int {
		g.Do(puts(3, "new", &bound)...)
		close(polled)
		return 0
	}), puts(2, "new", &bound)...)
	if err := <-fatal; !errors.Is(err, broken) {
		t.Errorf("fatal: %v", err)
	}
	late := make(chan struct{})
	go func() {
		defer close(late)
		g.DoPolling(pollFunc(func() int { return 0 }), puts(1, "new", &bound)...)
	}()
	select {
	case <-late:
	case <-fatal:
	}
	if n := g.afterPowerCut(t, 0, "new"); n != 0 {
		t.Errorf("%d jobs are there that the sync has failed for", n)
	}
	if n := bound.Load(); n != 0 {
		t.Errorf("%d batches are done though the sync has failed", n)
	}
}

// TestPollingWhileTablesLag: a Do that is called while polling does not wait for the tables,
// because they could make no progress meanwhile. When they are too far behind, DoPolling waits
// like Do, and goes on when they have caught up.
func TestPollingWhileTablesLag(t *testing.T) {
	g := newPollingEngine(t, nil)
	defer g.close(t)
	releaseTables := make(chan struct{})
	g.fs.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && isTable(op) {
			<-releaseTables
		}
		return nil
	})
	behind := func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.journal.behind
	}
	for behind() < maxBehind {
		fillSegment(t, g.Engine)
	}
	var done atomic.Int64
	big := func(n int) []*storage.Batch {
		batches := puts(n, "new", &done)
		for _, b := range batches {
			b.Ops[0].Body = make([]byte, 256<<10)
		}
		return batches
	}
	want := int64(0)
	for behind() <= maxBehind { // it may take some polls until a segment is prepared
		polls := 0
		g.DoPolling(pollFunc(func() int { polls++; g.Do(big(3)...); return 3 }), big(1)...)
		if want += 1 + 3*int64(polls); polls != maxPolls || done.Load() != want {
			t.Fatalf("%d polls, and %d of %d batches done", polls, done.Load(), want)
		}
	}
	waiting, returned := make(chan struct{}), make(chan struct{})
	go func() {
		close(waiting)
		defer close(returned)
		g.DoPolling(pollFunc(func() int { g.Do(big(1)...); return 1 }), big(1)...)
	}()
	<-waiting
	if n := done.Load(); n != want {
		t.Errorf("%d batches done, want %d: nothing waits for the tables", n, want)
	}
	close(releaseTables)
	<-returned
	eventually(t, "all to be done", func() bool { return done.Load() == want+2 })
}

// TestPollingByOneCaller: a caller that does not commit does not call poll. Its batches are
// done all the same.
func TestPollingByOneCaller(t *testing.T) {
	g := newPollingEngine(t, nil)
	defer g.close(t)
	hook, syncing, release := blocking()
	g.fs.set(hook)
	var done, asked atomic.Int64
	go g.Do(puts(1, "a", &done)...)
	<-syncing
	for range 3 {
		g.DoPolling(pollFunc(func() int { asked.Add(1); return 0 }), puts(2, "a", &done)...)
	}
	if done.Load() != 0 || asked.Load() != 0 {
		t.Errorf("%d batches done and polled %d times while another caller syncs", done.Load(), asked.Load())
	}
	close(release)
	eventually(t, "all batches to be done", func() bool { return done.Load() == 7 })
	if n := g.afterPowerCut(t, 0, "a"); n != 7 {
		t.Errorf("a power cut leaves %d jobs that were acknowledged, of 7", n)
	}
}

// TestPolledInOrder: a reserve of a job that is on the disk overtakes a release that is not
// synced yet, unless its batch is Ordered.
func TestPolledInOrder(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		g := newPollingEngine(t, nil)
		take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
		storage.DoWait(g, []storage.Op{{Kind: storage.Put, Tube: "t", TTR: 100}, take})
		var order []string
		batch := func(name string, op storage.Op) *storage.Batch {
			return &storage.Batch{Ops: []storage.Op{op}, Done: func() { order = append(order, name) }}
		}
		release := batch("release", storage.Op{Kind: storage.Move, Move: tube.Release, Holder: 1, ID: 1})
		reserve := batch("reserve", storage.Op{Kind: storage.Take, Holder: 2, Tubes: []string{"t"}})
		reserve.Ordered = ordered
		asked := false
		g.DoPolling(pollFunc(func() int {
			if asked {
				return 0
			}
			asked = true
			g.Do(reserve)
			return 1
		}), release)
		want := []string{"reserve", "release"}
		if ordered {
			want = []string{"release", "reserve"}
		}
		if !slices.Equal(order, want) || reserve.Ops[0].Answer.ID != 1 {
			t.Errorf("ordered %v: done in the order %q, want %q; took job %d", ordered, order, want, reserve.Ops[0].Answer.ID)
		}
		g.close(t)
	}
}
