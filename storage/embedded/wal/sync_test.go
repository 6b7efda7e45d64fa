package wal

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAppendedWhileSyncing: frames can be appended while others are synced. The next sync
// covers all frames that this one does not cover.
func TestAppendedWhileSyncing(t *testing.T) {
	mem := newMem(t)
	var syncs atomic.Int64
	syncing, goOn := make(chan struct{}), make(chan struct{})
	fs := &hookFS{FS: mem}
	l, _ := mustOpen(t, options(t, fs, dir), 0)
	defer l.Abandon()
	awaitNext(l)
	fs.set(func(what string) error {
		if strings.HasPrefix(what, "syncdata ") && syncs.Add(1) == 1 {
			close(syncing)
			<-goOn
		}
		return nil
	})
	appended := func(payload string) Mark {
		if err := add(l, payload); err != nil {
			t.Fatal(err)
		}
		return l.Mark()
	}
	first, done := appended("first"), make(chan error)
	go func() { done <- l.SyncTo(first) }()
	<-syncing
	second, third := appended("second"), appended("third")
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, to := range []struct {
		mark  Mark
		syncs int64 // so far
	}{{first, 1}, {third, 2}, {second, 2}} {
		if err := l.SyncTo(to.mark); err != nil {
			t.Fatal(err)
		}
		if n := syncs.Load(); n != to.syncs {
			t.Errorf("%d syncs, want %d", n, to.syncs)
		}
		appended("later")
	}
	left, got := mustOpen(t, options(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), 0)
	same(t, got, []string{"first", "second", "third", "later"})
	left.Abandon()
}

// TestSyncedByTheEndOfASegment: the content of a segment that has ended is on the disk, and is
// not synced again, unless nothing is synced without a call.
func TestSyncedByTheEndOfASegment(t *testing.T) {
	for _, never := range []bool{false, true} {
		mem := newMem(t)
		o := options(t, mem, dir)
		o.Never = never
		o.SyncEvery = time.Hour
		var syncs atomic.Int64
		fs := &hookFS{FS: mem}
		o.FS = fs
		l, _ := mustOpen(t, o, 0)
		if err := add(l, strings.Repeat("x", 1200)); err != nil {
			t.Fatal(err)
		}
		m := l.Mark()
		if ended, err := rotate(l); ended == 0 || err != nil {
			t.Fatal(ended, err)
		}
		awaitNext(l)
		fs.set(func(what string) error {
			if strings.HasPrefix(what, "sync") {
				syncs.Add(1)
			}
			return nil
		})
		if err := l.SyncTo(m); err != nil {
			t.Fatal(err)
		}
		if n := syncs.Load(); (n > 0) != never {
			t.Errorf("never %t: %d syncs", never, n)
		}
		left, got := mustOpen(t, options(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), 0)
		same(t, got, []string{strings.Repeat("x", 1200)})
		left.Abandon()
		l.Abandon()
	}
}
