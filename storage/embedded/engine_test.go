package embedded

import (
	"cmp"
	"flag"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/storetest"
)

// fakeClock is a clock that moves only by advance.
type fakeClock struct {
	start time.Time
	ahead atomic.Int64
}

func newFakeClock() *fakeClock { return &fakeClock{start: time.Now()} }

func (c *fakeClock) now() time.Time { return c.start.Add(time.Duration(c.ahead.Load())) }

func (c *fakeClock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) *storetest.Engine {
		clock := newFakeClock()
		return &storetest.Engine{
			Open:    func(testing.TB) storage.Store { return newEngine(clock.now) },
			Advance: clock.advance, Now: clock.now,
		}
	})
}

// disk is a directory in memory that outlives engines. A power cut leaves only what was synced.
type disk struct {
	fs          *memFS
	clock       *fakeClock
	segment     int64 // bytes; 0: the minimum for a user
	windowBytes int64 // bytes of bodies in a window; 0: windows are not held back
	coldAfter   time.Duration
	mostReady   int
	fewReady    int
	keep        int64 // bytes of bodies that stay in memory; 0: the default
	opened      int   // times
}

func newDisk() *disk { return &disk{fs: newMem(), clock: newFakeClock()} }

func (d *disk) options(t testing.TB) Options {
	return Options{
		Dir: "jobs", FileSize: minFileSize, segment: d.segment, windowBytes: cmp.Or(d.windowBytes, -1), KeepBodies: d.keep, coldAfter: d.coldAfter, mostReady: d.mostReady, fewReady: d.fewReady, Log: slog.New(slog.DiscardHandler), fs: d.fs, clock: d.clock.now,
		Fatal: func(err error) { t.Errorf("fatal: %v", err); select {} },
	}
}

func (d *disk) open(t testing.TB) storage.Store {
	t.Helper()
	jobs := -1
	if d.opened++; d.opened > 1 && (d.opened < 10 || d.opened%8 == 0) { // it takes longer than a start
		jobs = d.fsck(t)
	}
	o := d.options(t)
	o.restored = func(there int) {
		if jobs >= 0 && there != jobs {
			t.Errorf("fsck has found %d jobs, and %d are there", jobs, there)
		}
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return waitingEngine{e}
}

// fsck checks the disk, which must be in order, and returns how many jobs are on it.
func (d *disk) fsck(t testing.TB) (jobs int) {
	t.Helper()
	jobs, _, faults := fsckOf(t, d.options(t), false)
	if len(faults) > 0 {
		t.Errorf("fsck: %q", faults)
	}
	return jobs
}

// cutPower ends an engine, and leaves what was synced.
func (d *disk) cutPower(s storage.Store) {
	left := d.fs.CrashClone(vfs.CrashCloneCfg{})
	s.Close() // on the old file system, which is no longer used
	d.fs = left
}

func (d *disk) engine(restartEvery int) *storetest.Engine {
	return &storetest.Engine{
		Open: d.open, Advance: d.clock.advance, Now: d.clock.now, Crash: d.cutPower,
		Durable: true, CleanCrash: true, LateReserves: true, LateDeadLetters: true, ReadsJobs: d.coldAfter != 0, RestartEvery: restartEvery,
	}
}

// largeSegments is a flag because large segments take time: mostly for reading them at each
// start.
var largeSegments = flag.Int("large-segments", 8, "one of this many disks of TestJournal has segments as large as a user's")

// TestJournal runs the suite, mostly with small segments.
func TestJournal(t *testing.T) {
	disks := 0
	storetest.Run(t, func(testing.TB) *storetest.Engine {
		d := newDisk()
		if disks++; disks%*largeSegments != 0 {
			d.segment = crashSegment
		}
		if disks%2 == 0 {
			d.windowBytes = 2 * crashSegment
		}
		if disks%4 == 0 {
			d.windowBytes, d.keep = 16*crashSegment, 1 // a job that is written again must be without its body
		}
		if disks%3 == 1 {
			d.coldAfter, d.segment, d.windowBytes, d.mostReady, d.fewReady = 1, 1<<10, 0, 5, 1
		}
		return d.engine(20)
	})
}

// atLength skips a test that only make test-long runs.
func atLength(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// TestJournalAlwaysReopened opens the store again after every step. It closes it before, or
// cuts its power.
func TestJournalAlwaysReopened(t *testing.T) {
	atLength(t)
	var disks []*disk
	storetest.Run(t, func(testing.TB) *storetest.Engine {
		d := newDisk()
		d.segment = crashSegment
		disks = append(disks, d)
		e := d.engine(1)
		e.Brief, e.LargeBodies = 32, 20
		return e
	})
	opened := 0
	for _, d := range disks {
		opened += d.opened
	}
	t.Logf("opened %d times for %d cases and histories", opened, len(disks))
	if opened < 10*len(disks) {
		t.Errorf("opened only %d times for %d cases and histories", opened, len(disks))
	}
}
