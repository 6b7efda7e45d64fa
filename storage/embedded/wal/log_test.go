package wal

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRoundTrips opens a log again and again, appends across many segments, and releases old
// ones. It closes the log, or abandons it.
func TestRoundTrips(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": newMem(t), "files": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			at := dir
			if fs == vfs.Default {
				at = t.TempDir()
			}
			roundTrip(t, options(t, fs, at), rand.New(rand.NewPCG(1, 1)))
		})
	}
}

func roundTrip(t *testing.T, o Options, r *rand.Rand) {
	var want []string
	began := make(map[uint64]int) // segment → index in want
	first, n := uint64(0), 0
	for life := range 12 {
		o.Never = life%3 == 2
		l, got := mustOpen(t, o, first)
		same(t, got, want)
		oldest, current := l.Segments()
		if oldest != max(first, 1) {
			t.Fatalf("the oldest segment is %d, want %d", oldest, first)
		}
		began[current] = len(want)
		for range 60 {
			n++
			p := payload(r, n)
			if err := add(l, p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
			ended, err := rotate(l)
			if err != nil {
				t.Fatal(err)
			}
			if ended == 0 {
				continue
			}
			current++
			began[current] = len(want)
			if _, now := l.Segments(); ended != current-1 || now != current {
				t.Fatalf("segment %d ended, and the current one is %d, want %d", ended, now, current)
			}
			if keep := uint64(1 + r.IntN(6)); current > keep && current-keep >= max(first, 1) {
				first = current - keep + 1
				l.Release(first - 1)
				want, began = drop(want, began, first)
			}
		}
		first = max(first, 1)
		if life%2 == 0 {
			l.Abandon()
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if first < 50 {
		t.Errorf("only %d segments were released", first)
	}
}

// drop removes the content of the segments before first from what must be replayed.
func drop(want []string, began map[uint64]int, first uint64) ([]string, map[uint64]int) {
	cut, left := began[first], make(map[uint64]int)
	for segment, at := range began {
		if segment >= first {
			left[segment] = at - cut
		}
	}
	return want[cut:], left
}

// TestOldSegmentsAreUsedAgain: released segments become the next ones. There are never more
// files than the segments of the log, one that is prepared, and one to use again.
func TestOldSegmentsAreUsedAgain(t *testing.T) {
	reused := 0
	fs := &hookFS{FS: newMem(t), hook: func(what string) error {
		if strings.HasPrefix(what, "reuse ") {
			reused++
		}
		return nil
	}}
	l, _ := mustOpen(t, options(t, fs, dir), 0)
	for n := range 20 {
		if err := add(l, strings.Repeat("x", 1200)); err != nil {
			t.Fatal(err)
		}
		ended, err := rotate(l)
		if err != nil || ended == 0 {
			t.Fatal(ended, err)
		}
		awaitNext(l)
		l.Release(ended)
		if names, _ := fs.List(dir); len(names) > 3 {
			t.Fatalf("after %d rotations: %v", n+1, names)
		}
	}
	awaitNext(l)
	if reused < 17 {
		t.Errorf("of 20 segments %d were used again", reused)
	}
	if err := add(l, "last"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, current := l.Segments()
	l, got := mustOpen(t, options(t, fs, dir), current)
	same(t, got, []string{"last"})
	l.Abandon()
}

// TestReleasedAtOnce: if segments are released several at a time, all are used again. When the
// log gets shorter, those beyond its length are removed.
func TestReleasedAtOnce(t *testing.T) {
	created := 0
	fs := &hookFS{FS: newMem(t), hook: func(what string) error {
		if strings.HasPrefix(what, "create ") {
			created++
		}
		return nil
	}}
	l, _ := mustOpen(t, options(t, fs, dir), 0)
	defer l.Abandon()
	last := uint64(0)
	fill := func(n int) {
		for range n {
			if err := add(l, strings.Repeat("x", 1200)); err != nil {
				t.Fatal(err)
			}
			ended, err := rotate(l)
			if err != nil || ended == 0 {
				t.Fatal(ended, err)
			}
			awaitNext(l)
			last = ended
		}
	}
	fill(8)
	made := created
	for range 5 {
		l.Release(last - 4)
		fill(4)
	}
	if created != made {
		t.Errorf("%d segments were made although there were released ones", created-made)
	}
	l.Release(last)
	if names, _ := fs.List(dir); len(names) != 3 {
		t.Errorf("the log has one segment, and there are %v", names)
	}
}

// TestUnused: a segment that was prepared, completely or in part, is not a part of the log.
func TestUnused(t *testing.T) {
	fs := newMem(t)
	var want []string
	for n := range 4 {
		f, err := fs.Create(fs.PathJoin(dir, NewName), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, n*100)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		l, got := mustOpen(t, options(t, fs, dir), min(uint64(n), 1))
		same(t, got, want)
		awaitNext(l)
		_, current := l.Segments()
		if _, err := fs.Stat(l.path(current + 1)); err != nil {
			t.Fatalf("the next segment does not exist: %v", err)
		}
		if n > 0 {
			want = append(want, fmt.Sprint(n))
			if err := add(l, want[n-1]); err != nil {
				t.Fatal(err)
			}
		}
		l.Abandon()
	}
}

// TestMissing: a log that existed before and is missing is not taken for a new one.
func TestMissing(t *testing.T) {
	for _, first := range []uint64{1, 7} {
		l, _, err := open(options(t, newMem(t), dir), first)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("%s/log.%d", dir, first)) {
			t.Errorf("no segment, although %d is expected: %v", first, err)
		}
		if l != nil {
			l.Abandon()
		}
	}
}

// TestReplayFails: an error of the replay function names file and place.
func TestReplayFails(t *testing.T) {
	fs := newMem(t)
	l, _ := mustOpen(t, options(t, fs, dir), 0)
	if err := add(l, "1234"); err != nil {
		t.Fatal(err)
	}
	l.Abandon()
	mine := errors.New("mine")
	_, err := Open(options(t, fs, dir), 0, func([]byte) error { return mine })
	if !errors.Is(err, mine) || !strings.Contains(err.Error(), "log.1: frame at byte 64") {
		t.Error(err)
	}
}

// TestTimer: the timer syncs what nobody has called Sync for. That includes the last frames of
// a burst, which are appended while it syncs.
func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		fs := &hookFS{FS: mem}
		o := options(t, fs, dir)
		o.SyncEvery = time.Second
		l, _ := mustOpen(t, o, 0)
		awaitNext(l)
		var once sync.Once
		syncs := 0
		fs.set(func(what string) error {
			if strings.HasPrefix(what, "syncdata ") {
				syncs++
				once.Do(func() {
					if err := add(l, "3"); err != nil {
						t.Error(err)
					}
				})
			}
			return nil
		})
		left := func() []string {
			c, got := mustOpen(t, options(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), 1)
			c.Abandon()
			return got
		}
		for _, p := range []string{"1", "2"} {
			if err := add(l, p); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second - 1)
		same(t, left(), nil)
		<-time.After(1)
		synctest.Wait()
		if got := left(); len(got) < 2 {
			t.Fatalf("after the time only %q is on the disk", got)
		}
		<-time.After(time.Second)
		synctest.Wait()
		same(t, left(), []string{"1", "2", "3"})
		<-time.After(time.Hour)
		if syncs != 2 {
			t.Errorf("%d syncs, want 2", syncs)
		}
		fs.set(nil)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNever: only a call of Sync syncs, and then it syncs everything.
func TestNever(t *testing.T) {
	mem := newMem(t)
	var synced []string
	fs := &hookFS{FS: mem}
	o := options(t, fs, dir)
	o.Never = true
	l, _ := mustOpen(t, o, 0)
	fs.set(func(what string) error {
		if what == "syncdata jobs/log.new" || strings.HasPrefix(what, "sync jobs/log.") && !strings.HasSuffix(what, ".new") {
			synced = append(synced, what)
		}
		return nil
	})
	var want []string
	for n := range 4 {
		want = append(want, strings.Repeat(fmt.Sprint(n), 1200))
		if err := add(l, want[n]); err != nil {
			t.Fatal(err)
		}
		if n == 3 {
			break
		}
		if ended, err := rotate(l); ended == 0 || err != nil {
			t.Fatal(ended, err)
		}
	}
	awaitNext(l)
	if len(synced) > 0 {
		t.Errorf("synced: %q", synced)
	}
	c, got := mustOpen(t, options(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), 1)
	same(t, got, nil)
	c.Abandon()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	c, got = mustOpen(t, options(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), 1)
	same(t, got, want)
	c.Abandon()
	l.Abandon()
}

// TestReplayedIsSynced: what was only with the operating system when the log was opened is on
// the disk before anything new.
func TestReplayedIsSynced(t *testing.T) {
	mem := newMem(t)
	o := options(t, mem, dir)
	o.Never = true
	l, _ := mustOpen(t, o, 0)
	var want []string
	for n := range 3 {
		want = append(want, strings.Repeat(fmt.Sprint(n), 1200))
		if err := add(l, want[n]); err != nil {
			t.Fatal(err)
		}
		if ended, err := rotate(l); ended == 0 || err != nil {
			t.Fatal(ended, err)
		}
	}
	l.Abandon()
	l, got := mustOpen(t, options(t, mem, dir), 1)
	same(t, got, want)
	c, got := mustOpen(t, options(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), 1)
	same(t, got, want)
	c.Abandon()
	l.Abandon()
}

var histories = flag.Int("histories", 1, "random histories in which the power is cut")

// cutter takes a log through a random history, and cuts the power of its disk.
type cutter struct {
	t      *testing.T
	random *rand.Rand // guarded by mu while the next segment is being prepared
	mem    *vfs.MemFS
	fs     *hookFS
	o      Options
	log    *Log
	n      int
	large  bool // some pieces of frames are so large that they are written in parts

	mu     sync.Mutex // guards the following: the next segment is prepared in the background
	first  uint64
	mark   Mark     // a position
	marked int      // frames before it
	all    []string // appended
	synced int      // how many of them were synced
	cuts   int
}

// checkCut opens what a power cut leaves now.
func (c *cutter) checkCut(when string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
	percent := []int{0, 0, 10, 50, 90, 100}[c.random.IntN(6)]
	left := c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.random})
	o := options(c.t, left, dir)
	for range 2 { // the second Open finds what the first one has begun
		l, got, err := open(o, c.first)
		if err != nil {
			c.t.Fatalf("power cut %s: %v", when, err)
		}
		if diff := prefixOf(got, c.all, c.synced); diff != "" {
			c.t.Fatalf("power cut %s: %s", when, diff)
		}
		l.Abandon()
		if c.random.IntN(2) == 0 {
			o.FS = left.CrashClone(vfs.CrashCloneCfg{})
			l, again := mustOpen(c.t, o, c.first)
			same(c.t, again, got)
			l.Abandon()
		}
	}
}

// open opens the log. The power may be cut meanwhile as well.
func (c *cutter) open() {
	c.t.Helper()
	c.fs = &hookFS{FS: c.mem}
	c.fs.set(func(what string) error {
		if c.chance() {
			c.checkCut("before " + what)
		}
		return nil
	})
	c.o.FS = c.fs
	l, got := mustOpen(c.t, c.o, c.first)
	if diff := prefixOf(got, c.all, c.synced); diff != "" {
		c.t.Fatal(diff)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.all, c.synced, c.first = l, got, len(got), 1
	c.mark, c.marked = l.Mark(), len(got)
}

func (c *cutter) chance() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(6) == 0
}

func (c *cutter) step() {
	awaitNext(c.log) // so that from here on only the caller changes anything
	var err error
	switch c.random.IntN(10) {
	default:
		c.n++
		p := payload(c.random, c.n)
		c.all = append(c.all, p)
		err = add(c.log, p)
	case 0:
		err = c.addInPieces()
	case 1, 2:
		all := len(c.all)
		if err = c.log.Sync(); err == nil {
			c.synced = all
		}
	case 3:
		c.mark, c.marked = c.log.Mark(), len(c.all)
	case 4:
		if err = c.log.SyncTo(c.mark); err == nil {
			c.synced = max(c.synced, c.marked)
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
	switch ended, err := rotate(c.log); {
	case err != nil:
		c.t.Fatal(err)
	case ended > 0 && !c.o.Never:
		c.mu.Lock()
		c.synced = len(c.all)
		c.mu.Unlock()
	}
	awaitNext(c.log)
	c.checkCut("after a step")
}

// addInPieces appends a frame in pieces.
func (c *cutter) addInPieces() error {
	c.n++
	p := payload(c.random, c.n)
	if c.large && c.random.IntN(6) == 0 {
		p += strings.Repeat("large", cached/3)
	}
	c.all = append(c.all, p)
	return addPieces(c.log, c.random, p)
}

// TestPowerCut cuts the power after and within every step. What was synced is replayed, in
// order, and nothing that was not appended.
func TestPowerCut(t *testing.T) {
	cuts := 0
	for seed := range uint64(*histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &cutter{t: t, random: rand.New(rand.NewPCG(seed, 2)), mem: newMem(t), o: options(t, nil, dir), large: seed%8 == 5}
			c.o.Never = seed%4 == 3
			for range 5 {
				c.open()
				for range 30 {
					c.step()
				}
				c.fs.set(nil)
				if c.random.IntN(3) == 0 {
					if err := c.log.Close(); err != nil {
						t.Fatal(err)
					}
					c.synced = len(c.all)
				} else {
					c.log.Abandon()
				}
				c.mem = c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.random.IntN(101), RNG: c.random})
			}
			cuts += c.cuts
		})
	}
	t.Logf("%d power cuts", cuts)
	if cuts < 150**histories {
		t.Errorf("only %d power cuts", cuts)
	}
}
