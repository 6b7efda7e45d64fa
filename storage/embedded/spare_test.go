package embedded

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/tube"
)

// fullFS is a file system that is full while room is 0: nothing can be written. Removing the spare makes room.
type fullFS struct {
	*hookFS
	room atomic.Int64 // bytes that are free
}

func newFullFS(fs vfs.FS) *fullFS {
	f := &fullFS{hookFS: newHookFS(fs)}
	f.set(func(op errorfs.Op) error {
		if f.room.Load() == 0 && (isWrite(op) || isCreate(op)) {
			return syscall.ENOSPC
		}
		return nil
	})
	return f
}

func (f *fullFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(f.room.Load())}, nil
}

func (f *fullFS) Remove(name string) error {
	_, missing := f.inner.Stat(name)
	err := f.hookFS.Remove(name)
	if missing == nil && err == nil && strings.HasSuffix(name, "/"+spareName) {
		f.room.Add(spareBytes)
	}
	return err
}

// waitForSpare waits until the engine has made the spare, which it tries each checkWhenIdle.
func waitForSpare(t *testing.T, fs vfs.FS) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(checkWhenIdle / 10) {
		if _, err := fs.Stat(fs.PathJoin("jobs", spareName)); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the spare is not made again")
		}
	}
}

// TestFullDisk: a store with a spare starts on a full disk and removes it. Without one the start says what to do. In
// both cases a store that lacks room says that puts are refused, and why.
func TestFullDisk(t *testing.T) {
	for _, spared := range []bool{true, false} {
		d := newDisk()
		fs := newFullFS(d.fs)
		fs.room.Store(1 << 30)
		o := d.options(t)
		o.fs = fs
		o.Fatal = func(err error) { panic(err) }
		e := mustOpen(t, o)
		do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 9, Body: []byte("x")})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if spared && !makeSpare(fs, "jobs", spareBytes) {
			t.Fatal("there is no spare")
		}
		fs.room.Store(0)
		var logged bytes.Buffer
		o.spare, o.Reserve, o.Log = spareBytes, 64<<20, slog.New(slog.NewTextHandler(&logged, nil))
		if !spared {
			if err := openRecovering(o); err == nil || !strings.Contains(err.Error(), "make room") {
				t.Errorf("without a spare: %v", err)
			}
			continue
		}
		e = mustOpen(t, o)
		if !strings.Contains(logged.String(), "--disk-reserve") || !strings.Contains(logged.String(), "spare") {
			t.Errorf("the log says: %s", &logged)
		}
		do(t, e, storage.Op{Kind: storage.Peek, ID: 1}, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: 1})
		stats := do(t, e, storage.Op{Kind: storage.Stats})[0].Answer.Stats
		if !strings.Contains(stats.Log.Refusing, "--disk-reserve") || e.Report().Disk.Refusing != stats.Log.Refusing {
			t.Errorf("stats say %q, the report %q", stats.Log.Refusing, e.Report().Disk.Refusing)
		}
		fs.room.Store(1 << 30)
		waitForSpare(t, fs)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
