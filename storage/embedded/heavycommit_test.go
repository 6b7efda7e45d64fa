package embedded

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/tube"
)

// heavyPut makes a batch that takes long to write.
func heavyPut(done *atomic.Int64) *storage.Batch {
	return counted(done, storage.Op{Kind: storage.Put, Tube: "a", TTR: 100, Body: make([]byte, heavyCommit+1)})
}

// inOneSegment makes segments so large that they are not full after a heavy commit: a segment is
// synced when it ends, and nothing is written meanwhile.
func inOneSegment(o *Options) { o.segment = 4 * heavyCommit }

// awaitWritten waits until that many commits are written and not on the disk yet.
func awaitWritten(t *testing.T, e *Engine, commits int) {
	t.Helper()
	eventually(t, "the commits to be written", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.journal.syncing) == commits
	})
}

// TestWrittenWhileHeavyIsSynced: while a heavy commit is synced the next one is written. No
// batch is done that depends on what is not on the disk: not a put in the next commit, not a
// reserve of the job in the heavy one, and not a peek at it.
func TestWrittenWhileHeavyIsSynced(t *testing.T) {
	atLength(t)
	g := newPollingEngine(t, inOneSegment)
	defer g.close(t)
	hook, syncing, goOn := blocking()
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	g.fs.set(hook)
	var heavy, next, peeks atomic.Int64
	g.Do(heavyPut(&heavy))
	<-syncing
	awaitWritten(t, g.Engine, 1)
	g.Do(counted(&peeks, storage.Op{Kind: storage.Peek, ID: 1}))
	take := counted(&next, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"a"}})
	g.Do(append(puts(1, "b", &next), take)...)
	awaitWritten(t, g.Engine, 2)
	g.Do(counted(&peeks, storage.Op{Kind: storage.TubeStats, Tube: "b"}))
	if n := heavy.Load() + next.Load() + peeks.Load(); n != 0 {
		t.Errorf("%d batches are done, and nothing is on the disk", n)
	}
	if n := g.afterPowerCut(t, 0, "b"); n != 0 {
		t.Errorf("a power cut leaves %d jobs that were not synced", n)
	}
	if n := g.afterPowerCut(t, 100, "b"); n != 1 {
		t.Errorf("%d jobs of the next commit are written, want 1", n)
	}
	release()
	eventually(t, "all to be done", func() bool { return heavy.Load()+next.Load()+peeks.Load() == 5 })
	if a, b := g.afterPowerCut(t, 0, "a"), g.afterPowerCut(t, 0, "b"); a+b != 2 {
		t.Errorf("a power cut leaves %d and %d of 2 acknowledged jobs", a, b)
	}
}

// TestReservedBeforeTheSync: a reply to a reserve of a job that is on the disk is sent while
// its commit, which is heavy, is synced.
func TestReservedBeforeTheSync(t *testing.T) {
	g := newPollingEngine(t, inOneSegment)
	defer g.close(t)
	do(t, g.Engine, storage.Op{Kind: storage.Put, Tube: "b", TTR: 100, Body: []byte("job")})
	hook, syncing, goOn := blocking()
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	g.fs.set(hook)
	var put, taken atomic.Int64
	g.Do(heavyPut(&put), counted(&taken, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"b"}}))
	<-syncing
	eventually(t, "the reserve to be done", func() bool { return taken.Load() == 1 })
	if put.Load() != 0 {
		t.Error("the put is done before it is on the disk")
	}
	release()
	eventually(t, "the put to be done", func() bool { return put.Load() == 1 })
}

// TestFailingSyncOfHeavy: if a heavy commit cannot be synced, none of its batches is done, and
// none of those that were written meanwhile.
func TestFailingSyncOfHeavy(t *testing.T) {
	fatal := make(chan error, 10)
	g := newPollingEngine(t, func(o *Options) {
		inOneSegment(o)
		o.Fatal = func(err error) { fatal <- err; select {} }
	})
	syncing, release := make(chan struct{}, 100), make(chan struct{})
	g.fs.set(func(op errorfs.Op) error {
		if isLogSync(op) {
			syncing <- struct{}{}
			<-release
			return errDisk
		}
		return nil
	})
	var done atomic.Int64
	g.Do(heavyPut(&done))
	<-syncing
	g.Do(puts(1, "b", &done)...)
	g.Do(counted(&done, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: 1}))
	awaitWritten(t, g.Engine, 2)
	close(release)
	for range 2 { // one for each commit
		<-fatal
	}
	if n := done.Load(); n != 0 {
		t.Errorf("%d batches are done, and the disk has failed", n)
	}
	g.fs.set(blockForever)
}

// TestClosedWhileSyncing: an engine that is closed while a heavy commit is synced ends all
// batches first.
func TestClosedWhileSyncing(t *testing.T) {
	atLength(t)
	g := newPollingEngine(t, inOneSegment)
	hook, syncing, goOn := blocking()
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	g.fs.set(hook)
	var done atomic.Int64
	g.Do(heavyPut(&done))
	<-syncing
	g.Do(puts(1, "b", &done)...)
	awaitWritten(t, g.Engine, 2)
	closed := make(chan error)
	go func() { closed <- g.Close() }()
	release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if n := done.Load(); n != 2 {
		t.Errorf("%d of 2 batches are done", n)
	}
	if a, b := g.afterPowerCut(t, 0, "a"), g.afterPowerCut(t, 0, "b"); a+b != 2 {
		t.Errorf("a power cut leaves %d and %d of 2 acknowledged jobs", a, b)
	}
}
