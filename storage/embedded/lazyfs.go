package embedded

import (
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lazyFS is a file system on which the syncs of Pebble's log do nothing by
// themselves. The data was written and is with the operating system; with an
// interval, a timer syncs what was written within it, the last write of a
// burst as well as the first. Other files are synced as Pebble asks.
type lazyFS struct {
	vfs.FS
	every time.Duration // 0 or less: never
	fatal func(error)

	mu      sync.Mutex
	dirty   map[*lazyFile]struct{}
	timer   *time.Timer // nil unless there is something dirty
	stopped bool
}

func newLazyFS(fs vfs.FS, every time.Duration, fatal func(error)) *lazyFS {
	return &lazyFS{FS: fs, every: every, fatal: fatal, dirty: make(map[*lazyFile]struct{})}
}

// Create implements vfs.FS.
func (fs *lazyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (fs *lazyFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	return fs.wrap(newname, f, err)
}

func (fs *lazyFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &lazyFile{File: f, fs: fs}, nil
}

// Unwrap implements vfs.FS.
func (fs *lazyFS) Unwrap() vfs.FS { return fs.FS }

// note has f synced within the interval.
func (fs *lazyFS) note(f *lazyFile) {
	if fs.every <= 0 {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dirty[f] = struct{}{}
	if fs.timer == nil && !fs.stopped {
		fs.timer = time.AfterFunc(fs.every, fs.sync)
	}
}

// sync syncs what is dirty. A file that was closed meanwhile was synced then.
func (fs *lazyFS) sync() {
	fs.mu.Lock()
	files := fs.dirty
	fs.dirty, fs.timer = make(map[*lazyFile]struct{}), nil
	fs.mu.Unlock()
	for f := range files {
		if err := f.syncNow(); err != nil {
			fs.fatal(err)
		}
	}
}

func (fs *lazyFS) stop() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.stopped = true
	if fs.timer != nil {
		fs.timer.Stop()
	}
}

// lazyFile is a log file.
type lazyFile struct {
	vfs.File
	fs *lazyFS

	mu     sync.Mutex // held while syncing or closing
	closed bool
}

// Sync implements vfs.File.
func (f *lazyFile) Sync() error {
	f.fs.note(f)
	return nil
}

// SyncData implements vfs.File.
func (f *lazyFile) SyncData() error { return f.Sync() }

// SyncTo implements vfs.File.
func (f *lazyFile) SyncTo(int64) (fullSync bool, err error) { return false, f.Sync() }

func (f *lazyFile) syncNow() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	return f.File.SyncData()
}

// Close implements vfs.File.
func (f *lazyFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.fs.every > 0 {
		if err := f.File.SyncData(); err != nil {
			f.File.Close()
			return err
		}
	}
	return f.File.Close()
}
