package embedded

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

var (
	walks     = flag.Int("walks", 1, "random histories in which the power is cut after and within every step")
	walkSteps = flag.Int("walksteps", 70, "steps of such a history")
)

// tapFS is a file system that calls tap before and after everything that changes a
// file or a directory.
type tapFS struct {
	vfs.FS
	tap func(what string)
}

func (fs *tapFS) Unwrap() vfs.FS { return fs.FS }

func (fs *tapFS) around(what string, do func() error) error {
	fs.tap("before " + what)
	err := do()
	fs.tap("after " + what)
	return err
}

func (fs *tapFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = fs.around("create "+name, func() error {
		f, err = fs.FS.Create(name, c)
		return err
	})
	return fs.wrap(name, f, err)
}

func (fs *tapFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = fs.around("reuse "+from+" as "+to, func() error {
		f, err = fs.FS.ReuseForWrite(from, to, c)
		return err
	})
	return fs.wrap(to, f, err)
}

func (fs *tapFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	return fs.wrap(name, f, err)
}

func (fs *tapFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &tapFile{File: f, fs: fs, name: name}, nil
}

func (fs *tapFS) Remove(name string) error {
	return fs.around("remove "+name, func() error { return fs.FS.Remove(name) })
}

func (fs *tapFS) Rename(from, to string) error {
	return fs.around("rename "+from+" to "+to, func() error { return fs.FS.Rename(from, to) })
}

func (fs *tapFS) Link(from, to string) error {
	return fs.around("link "+from+" to "+to, func() error { return fs.FS.Link(from, to) })
}

type tapFile struct {
	vfs.File
	fs   *tapFS
	name string
}

func (f *tapFile) Write(p []byte) (n int, err error) {
	err = f.fs.around("write "+f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *tapFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.fs.around("write "+f.name, func() error {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, err
}

func (f *tapFile) Sync() error {
	return f.fs.around("sync "+f.name, f.File.Sync)
}

func (f *tapFile) SyncData() error {
	return f.fs.around("sync "+f.name, f.File.SyncData)
}

// diskImage is what a power cut left.
type diskImage struct {
	fs    *memFS
	when  string
	acked int // number of the last state that was acknowledged before
}

// crasher makes clones of a disk, as a power cut would leave it.
type crasher struct {
	*disk
	mark func() int // returns acked; nil until there is a state to compare with

	mu       sync.Mutex // guards the fields below: Pebble writes on several goroutines
	random   *rand.Rand
	interval int // one of this many points makes a clone
	limit    int // how many clones are kept at most
	remains  []diskImage
	writing  vfs.FS // only changes of this file system are points
}

func newCrasher(seed uint64) *crasher {
	d := newDisk()
	d.segment = crashSegment
	if seed%2 == 0 {
		d.windowBytes = 2 * crashSegment
	}
	if seed%3 == 1 {
		d.coldAfter, d.segment, d.windowBytes, d.mostReady, d.fewReady = 1, 2<<10, 0, 5, 1
	}
	return &crasher{disk: d, random: rand.New(rand.NewPCG(seed, 1)), interval: 8, limit: 2}
}

// afterPowerCut returns what a power cut leaves now: what was synced, and none, some or all of
// the other blocks, chosen anew each time.
func (c *crasher) afterPowerCut(fs *memFS) *memFS {
	percent := []int{0, 10, 50, 90, 100}[c.random.IntN(5)]
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.random})
}

// point is called before and after a file is changed.
func (c *crasher) point(on vfs.FS, fs *memFS, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mark == nil || on != c.writing || len(c.remains) >= c.limit || c.random.IntN(c.interval) > 0 {
		return
	}
	acked := c.mark()
	c.remains = append(c.remains, diskImage{fs: c.afterPowerCut(fs), when: what, acked: acked})
}

// taken returns the clones that were taken since the last call.
func (c *crasher) taken() []diskImage {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.remains
	c.remains = nil
	return t
}

// crashSegment is a small size for segments. They end often, and are quick to read.
const crashSegment = 64 << 10

// options returns options of the disk. The power can be cut before and after every change to
// it. Bodies are dropped from memory at once.
func (c *crasher) options(t testing.TB) Options {
	o := c.disk.options(t)
	fs, tap := c.fs, &tapFS{FS: c.fs}
	tap.tap = func(what string) { c.point(tap, fs, what) }
	c.mu.Lock()
	c.writing = tap
	c.mu.Unlock()
	o.fs, o.KeepBodies = tap, 1
	return o
}

// engine returns an engine whose crashes leave what afterPowerCut returns.
func (c *crasher) engine() *storetest.Engine {
	e := c.disk.engine(20)
	e.LargeBodies = 12
	e.Open = func(t testing.TB) storage.Store {
		t.Helper()
		s, err := Open(c.options(t))
		if err != nil {
			t.Fatal(err)
		}
		return waitingEngine{s}
	}
	e.Crash = func(s storage.Store) {
		c.mu.Lock()
		left := c.afterPowerCut(c.fs)
		c.writing = nil
		c.mu.Unlock()
		s.Close()
		c.fs = left
	}
	return e
}

// check opens an engine on what was left. It must be in one of the states. If exact is not nil,
// it is the engine that continues, and every instant must be the same in both.
func (r *diskImage) check(t testing.TB, clock *fakeClock, states []*storetest.Model, exact storage.Store) (diff string) {
	t.Helper()
	d := &disk{fs: r.fs, clock: clock, segment: crashSegment}
	opened, err := Open(d.options(t))
	if err != nil {
		return fmt.Sprintf("it cannot be opened: %+v", err)
	}
	e := waitingEngine{opened}
	defer e.Close()
	for next := time.Duration(0); next <= 0; { // what is over by now expires
		if next, err = e.Tick(); err != nil {
			return err.Error()
		}
	}
	now := states[len(states)-1]
	for i, m := range states {
		m = m.Reopened(false, now)
		one := m.Differs(e)
		if one == "" && exact != nil {
			one = sameInstants(e, exact, m.LastID())
		}
		if one == "" {
			return m.DiffersApart(e)
		}
		diff += fmt.Sprintf("from state %d of %d: %s\n", i+1, len(states), one)
	}
	return diff
}

// sameInstants compares what must be equal to the nanosecond: ages of jobs, times
// left, and ends of pauses.
func sameInstants(reopened, running storage.Store, lastID uint64) string {
	ops := func() []storage.Op {
		var ops []storage.Op
		for id := range lastID {
			ops = append(ops, storage.Op{Kind: storage.JobStats, ID: id + 1})
		}
		for _, name := range []string{"a", "b", "c", tube.Default} {
			ops = append(ops, storage.Op{Kind: storage.TubeStats, Tube: name})
		}
		return ops
	}
	got, want := ops(), ops()
	storage.DoWait(reopened, got)
	storage.DoWait(running, want)
	for i := range got {
		g, w := got[i].Answer, want[i].Answer
		switch {
		case w.Job != nil && w.Job.State == tube.Reserved && !w.Job.Leased && (g.Job == nil || g.Job.State != tube.Ready): // its rules apply, see Model.Reopen
		case w.Job != nil:
			job, again := *w.Job, *g.Job
			if job.State == tube.Reserved && !job.Leased {
				job.State, job.TimeLeft, job.Holder = tube.Ready, 0, 0
				job.Counters[tube.Reserves]--
			}
			job.Held, again.Held = tube.NotHeld, tube.NotHeld // reservations and starts are lost
			if !reflect.DeepEqual(again, job) {
				return fmt.Sprintf("job: %+v\nwant: %+v", again, job)
			}
		case w.TubeStats != nil && g.TubeStats != nil && g.TubeStats.PauseLeft != w.TubeStats.PauseLeft:
			return fmt.Sprintf("tube: %+v\nwant: %+v", *g.TubeStats, *w.TubeStats)
		}
	}
	return ""
}

// keep saves what was left in a directory, for a person to read.
func (r *diskImage) keep(t testing.TB) string {
	dir, err := os.MkdirTemp("", "powercut")
	if err == nil {
		_, err = vfs.Clone(r.fs, vfs.Default, "jobs", dir)
	}
	if err != nil {
		t.Log(err)
	}
	return dir
}

// TestPowerCut takes the engine through random histories. After every step, and at points
// within it, the test opens what a power cut would leave. Everything that was acknowledged must
// be there. Of each other batch all or nothing must be there, or all before an operation that may have had to read a
// body, and nothing without the batches before it.
func TestPowerCut(t *testing.T) {
	cuts, within, steps := 0, 0, *walkSteps
	if testing.Short() {
		steps /= 2
	}
	for i := range 2 * uint64(*walks) {
		seed, rules := storetest.FirstSeed()+i/2, i%2 > 0
		t.Run(fmt.Sprintf("seed %d, with rules: %v", seed, rules), func(t *testing.T) {
			c := newCrasher(seed)
			w := storetest.NewWalk(t, c.engine(), seed)
			if rules {
				w.WithRules()
			}
			c.mu.Lock()
			c.mark = w.Mark
			c.mu.Unlock()
			for n := range steps {
				first := w.Mark()
				w.Step()
				w.Acknowledge()
				for _, r := range c.taken() {
					within++
					verify(t, w, seed, &r, c.clock, w.Since(max(first, r.acked)), nil)
				}
				c.mu.Lock()
				r := diskImage{fs: c.afterPowerCut(c.fs), when: fmt.Sprintf("after step %d", n), acked: w.Mark()}
				c.mu.Unlock()
				cuts++
				verify(t, w, seed, &r, c.clock, w.Since(r.acked), w.Store())
			}
			c.mu.Lock()
			c.mark = nil
			c.mu.Unlock()
		})
	}
	t.Logf("power cut after %d steps and %d times within one", cuts, within)
	if cuts > 100 && within < cuts/2 {
		t.Errorf("only %d power cuts within steps", within)
	}
}

func verify(t *testing.T, w *storetest.Walk, seed uint64, r *diskImage, clock *fakeClock, states []*storetest.Model, exact storage.Store) {
	t.Helper()
	if diff := r.check(t, clock, states, exact); diff != "" {
		t.Fatalf("power cut %s: %s\nwhat it left is in %s\nagain: go test ./storage/embedded -run '%s' -seed %d -walks 1 -walksteps %d\nhistory:\n%s",
			r.when, diff, r.keep(t), "TestPowerCut", seed, *walkSteps, w.Log())
	}
}
