package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/telemetry"
)

var errInjected = errors.New("injected")

// nth returns a hook with which the nth operation fails whose description begins with kind and,
// if after is true, all later ones. It counts from 1.
func nth(kind string, n int64, after bool) (hook func(string) error, failed *atomic.Bool) {
	var count atomic.Int64
	failed = new(atomic.Bool)
	return func(what string) error {
		if !strings.HasPrefix(what, kind) {
			return nil
		}
		if k := count.Add(1); k == n || after && k > n {
			failed.Store(true)
			return errInjected
		}
		return nil
	}, failed
}

// TestFaults makes every write, sync, creation and renaming fail in turn, once or permanently.
// The error names the file, the log accepts nothing after that, and what was synced before is
// there when it is opened again.
func TestFaults(t *testing.T) {
	for _, kind := range []string{"write ", "syncdata ", "sync ", "create ", "rename ", "opendir ", "open "} {
		t.Run(strings.TrimSpace(kind), func(t *testing.T) {
			var seen atomic.Int64
			for n := int64(1); ; n++ {
				for _, forGood := range []bool{false, true} {
					hook, failed := nth(kind, n, forGood)
					if oneFault(t, hook, failed); !failed.Load() {
						if n < 3 {
							t.Errorf("only %d of them", n-1)
						}
						t.Logf("%d faults", seen.Load())
						return
					}
					seen.Add(1)
				}
			}
		})
	}
}

// oneFault opens a log, appends to it and closes it, twice, with a hook.
func oneFault(t *testing.T, hook func(string) error, failed *atomic.Bool) {
	mem := newMem(t)
	random := rand.New(rand.NewPCG(3, 3))
	fs := &hookFS{FS: mem}
	fs.set(hook)
	first, synced := uint64(0), 0
	var all []string
	for range 2 {
		var err error
		if all, synced, err = faultyLife(t, fs, first, all, synced); err != nil {
			wantNamed(t, err)
			if !failed.Load() {
				t.Fatal(err)
			}
		}
		for _, percent := range []int{0, 50, 100} {
			left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
			l, got := mustOpen(t, options(t, left, dir), 0)
			if diff := prefixOf(got, all, synced); diff != "" {
				t.Fatalf("with %d percent: %s", percent, diff)
			}
			l.Abandon()
		}
		if err != nil {
			return
		}
		first = 1
	}
}

// wantNamed fails unless an error says which file could not be used.
func wantNamed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), dir+"/log.") {
		t.Fatalf("the error does not say what has failed: %v", err)
	}
}

// faultyLife opens a log and appends to it until there is an error. After that nothing may
// succeed.
func faultyLife(t *testing.T, fs *hookFS, first uint64, all []string, synced int) ([]string, int, error) {
	l, got, err := open(options(t, fs, dir), first)
	if err != nil {
		return all, synced, err
	}
	if diff := prefixOf(got, all, synced); diff != "" {
		t.Fatal(diff)
	}
	all, synced = got, len(got)
	for n := range 12 {
		p := fmt.Sprint(len(all), strings.Repeat("x", 100*n))
		all = append(all, p)
		if n%4 == 1 {
			err = addPieces(l, rand.New(rand.NewPCG(uint64(n), 4)), p)
		} else {
			err = add(l, p)
		}
		if err != nil {
			break
		}
		if n%3 == 0 {
			if err = l.Sync(); err != nil {
				break
			}
			synced = len(all)
		}
		var ended uint64
		if ended, err = rotate(l); err != nil {
			break
		}
		if ended > 0 {
			synced = len(all)
		}
	}
	awaitNext(l)
	if err != nil {
		if e := add(l, "after"); !errors.Is(e, errInjected) {
			t.Fatalf("after %v, Append: %v", err, e)
		}
		if e := l.Sync(); !errors.Is(e, errInjected) {
			t.Fatalf("after %v, Sync: %v", err, e)
		}
		if l.Full() {
			if _, e := l.Rotate(); !errors.Is(e, errInjected) {
				t.Fatalf("after %v, Rotate: %v", err, e)
			}
		}
		l.Abandon()
		return all, synced, err
	}
	if err = l.Close(); err == nil {
		synced = len(all)
	}
	return all, synced, err
}

// TestFailedSyncIsNotForgotten: an operating system reports lost data once. A caller that syncs
// at the same time must not rely on the sync after that.
func TestFailedSyncIsNotForgotten(t *testing.T) {
	fs := &hookFS{FS: newMem(t)}
	fatal := make(chan error, 1)
	o := options(t, fs, dir)
	o.SyncEvery = 1
	o.Fatal = func(err error) { fatal <- err }
	l, _ := mustOpen(t, o, 0)
	awaitNext(l)
	failing, goOn := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int64
	fs.set(func(what string) error {
		if strings.HasPrefix(what, "syncdata ") && syncs.Add(1) == 1 {
			close(failing)
			<-goOn
			return errInjected
		}
		return nil
	})
	if err := add(l, "1"); err != nil {
		t.Fatal(err)
	}
	<-failing
	synced := make(chan error)
	go func() { synced <- l.Sync() }()
	close(goOn)
	if err := <-synced; !errors.Is(err, errInjected) {
		t.Errorf("a sync beside the one that failed: %v", err)
	}
	if err := <-fatal; !errors.Is(err, errInjected) {
		t.Errorf("fatal: %v", err)
	}
	if err := l.Close(); !errors.Is(err, errInjected) {
		t.Errorf("closing: %v", err)
	}
}

// counter counts what is logged.
type counter struct {
	slog.Handler
	n *atomic.Int64
}

func (c counter) Enabled(context.Context, slog.Level) bool { return true }

func (c counter) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}

// TestSegmentGrows: while the next segment cannot be prepared the current one grows. Preparing
// is retried, but not with every frame, and the warnings are limited.
func TestSegmentGrows(t *testing.T) {
	fs := &hookFS{FS: newMem(t)}
	o := options(t, fs, dir)
	var warnings, tries atomic.Int64
	begun := time.Now()
	o.Log = slog.New(counter{slog.DiscardHandler, &warnings})
	l, _ := mustOpen(t, o, 0)
	awaitNext(l)
	fs.set(func(what string) error {
		if strings.HasPrefix(what, "create ") {
			tries.Add(1)
			return errInjected
		}
		return nil
	})
	var want []string
	put := func(size int) (ended uint64) {
		t.Helper()
		want = append(want, strings.Repeat("x", size))
		if err := add(l, want[len(want)-1]); err != nil {
			t.Fatal(err)
		}
		ended, err := rotate(l)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	put(1200) // into the segment that was prepared before
	awaitNext(l)
	if tries.Load() != 1 || warnings.Load() != 1 {
		t.Fatalf("%d tries, %d warnings", tries.Load(), warnings.Load())
	}
	for range 1000 {
		if ended := put(0); ended > 0 {
			t.Fatal("it rotated into nothing")
		}
	}
	// 16000 bytes in steps of 1024/8, from 1024 on, not one attempt for each frame.
	took := time.Since(begun)
	if n := tries.Load(); n < 100 || n > 130 {
		t.Errorf("%d tries for 1000 frames", n)
	}
	if n := warnings.Load(); n > 1+int64(took/telemetry.ThrottleInterval) {
		t.Errorf("%d warnings in %v", n, took)
	}
	fs.set(nil)
	for n := 0; put(0) == 0; n++ {
		if n > 20 {
			t.Fatal("it does not rotate although the disk works again")
		}
	}
	put(10)
	l.Abandon()
	l, got := mustOpen(t, options(t, fs, dir), 1)
	same(t, got, want)
	l.Abandon()
}

// TestReuseFails: if an old segment cannot be used again, a new one is made.
func TestReuseFails(t *testing.T) {
	fs := &hookFS{FS: newMem(t)}
	l, _ := mustOpen(t, options(t, fs, dir), 0)
	awaitNext(l)
	hook, failed := nth("reuse ", 1, false)
	fs.set(hook)
	for n := range 5 {
		if err := add(l, strings.Repeat("x", 1200)); err != nil {
			t.Fatal(err)
		}
		ended, err := rotate(l)
		for ; ended == 0 && err == nil; ended, err = rotate(l) {
			if err := add(l, strings.Repeat("x", 200)); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || ended != uint64(n+1) {
			t.Fatal(ended, err)
		}
		awaitNext(l)
		l.Release(ended)
	}
	if !failed.Load() {
		t.Error("no attempt was made to use a segment again")
	}
	l.Abandon()
}
