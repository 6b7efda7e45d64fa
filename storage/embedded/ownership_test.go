//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// onDisk is an engine in a real directory, and the error that it ends with.
type onDisk struct {
	*Engine
	dir   string
	clock *fakeClock
	fatal chan error
	fs    *freezableFS
	hook  atomic.Pointer[func()] // called once, when the engine asks for the time
}

func (d *onDisk) now() time.Time {
	if hook := d.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return d.clock.now()
}

// freezableFS is the file system of an engine that calls Fatal. Such an engine cannot be
// closed. Its Pebble, whose files are gone, would try to compact them again and again while
// later tests run. So once freeze is called, operations do not return.
type freezableFS struct {
	vfs.FS
	mu     sync.RWMutex // held by those that create files, and by freeze
	frozen atomic.Bool
	linked atomic.Pointer[func()] // called after each link
}

// freeze returns when no file is being created any more.
func (fs *freezableFS) freeze() {
	fs.frozen.Store(true)
	fs.mu.Lock()
	defer fs.mu.Unlock()
}

func (fs *freezableFS) waitIfFrozen() {
	if fs.frozen.Load() {
		select {}
	}
}

// Open implements vfs.FS.
func (fs *freezableFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	fs.waitIfFrozen()
	return fs.FS.Open(name, o...)
}

// Create implements vfs.FS.
func (fs *freezableFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	fs.waitIfFrozen()
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if fs.frozen.Load() {
		return nil, errors.New("the file system is frozen")
	}
	return fs.FS.Create(name, c)
}

// Stat implements vfs.FS. The tables check their directory with it, before everything else.
func (fs *freezableFS) Stat(name string) (vfs.FileInfo, error) {
	fs.waitIfFrozen()
	return fs.FS.Stat(name)
}

// Link implements vfs.FS. It is how the files of a window enter the tables.
func (fs *freezableFS) Link(old, name string) error {
	err := fs.FS.Link(old, name)
	if linked := fs.linked.Load(); linked != nil {
		(*linked)()
	}
	return err
}

// Unwrap implements vfs.FS.
func (fs *freezableFS) Unwrap() vfs.FS { return fs.FS }

// newOnDisk opens an engine in a directory of its own. It has jobs in its tables, and their
// bodies are not kept in memory.
func newOnDisk(t *testing.T) *onDisk {
	t.Helper()
	d := &onDisk{dir: filepath.Join(t.TempDir(), "jobs"), clock: newFakeClock(), fatal: make(chan error, 100), fs: &freezableFS{FS: vfs.Default}}
	t.Cleanup(d.fs.freeze)
	d.Engine = mustOpen(t, d.options())
	fillTables(t, d.Engine)
	return d
}

func (d *onDisk) options() Options {
	return Options{
		Dir: d.dir, segment: crashSegment, windowBytes: -1, KeepBodies: 1, Log: slog.New(slog.DiscardHandler), clock: d.now, fs: d.fs,
		Fatal: func(err error) { d.fatal <- err; select {} },
	}
}

// fillTables puts job 1 and others until job 1 is in the tables, and its body is only there.
func fillTables(t *testing.T, e *Engine) {
	t.Helper()
	do(t, e, storage.Op{Kind: storage.Put, Tube: "first", Body: []byte("the first one")})
	fillSegment(t, e)
	eventually(t, "the first segment to be in the tables", func() bool {
		oldest, current := segments(e)
		return oldest == current
	})
}

// put puts a job on another goroutine. The channel is closed when the put is acknowledged.
func (d *onDisk) put() (acked chan struct{}) {
	acked = make(chan struct{})
	b := &storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "a", Body: []byte("body")}}}
	b.Done = func() {
		if b.Ops[0].Answer.Err == nil {
			close(acked)
		}
	}
	go d.Do(b)
	return acked
}

// copyDirectory copies a directory with everything in it.
func copyDirectory(from, to string) error { return os.CopyFS(to, os.DirFS(from)) }

// removeLike removes the files whose paths match a pattern.
func removeLike(pattern string) error {
	names, err := filepath.Glob(pattern)
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// removeAll removes a directory in which another goroutine may be making a file.
func removeAll(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return err
}

// takeovers are the ways in which a directory is taken from an engine, and the file or
// directory that the error has to name.
var takeovers = map[string]struct {
	take  func(dir string) error
	names string
}{
	"removed": {removeAll, ""},
	"renamed": {func(dir string) error { return os.Rename(dir, dir+".old") }, ""},
	"replaced by a copy": {func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), copyDirectory(dir+".old", dir))
	}, ""},
	"replaced by an empty one": {func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755))
	}, ""},
	"replaced by a file": {func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o644))
	}, ""},
	"without its log":    {func(dir string) error { return removeLike(dir + "/log.*") }, "/log."},
	"without its tables": {func(dir string) error { return removeAll(dir + "/tables") }, "/tables"},
	"with other tables": {func(dir string) error {
		return errors.Join(os.Rename(dir+"/tables", dir+"/aside"), copyDirectory(dir+"/aside", dir+"/tables"))
	}, "/tables"},
}

func (d *onDisk) wantsGone(t *testing.T, names string) {
	t.Helper()
	select {
	case err := <-d.fatal:
		if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), d.dir+names) {
			t.Errorf("it ends with: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it was not noticed")
	}
}

// TestDirectoryIsTaken: nothing is acknowledged in a directory that is no longer the engine's.
func TestDirectoryIsTaken(t *testing.T) {
	for what, taking := range takeovers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newOnDisk(t)
			if err := taking.take(d.dir); err != nil {
				t.Fatal(err)
			}
			d.clock.advance(checkEvery)
			acked := d.put()
			d.wantsGone(t, taking.names)
			select {
			case <-acked:
				t.Error("a put was acknowledged")
			default:
			}
		})
	}
}

// TestDirectoryIsTakenWhileIdle: the engine notices it even if nothing changes.
func TestDirectoryIsTakenWhileIdle(t *testing.T) {
	for what, taking := range takeovers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newOnDisk(t)
			if err := taking.take(d.dir); err != nil {
				t.Fatal(err)
			}
			d.wantsGone(t, taking.names)
		})
	}
}

// TestClosedElsewhere: if an engine is closed before it has noticed, Close returns the error.
func TestClosedElsewhere(t *testing.T) {
	d := newOnDisk(t)
	if err := os.Rename(d.dir, d.dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), d.dir) {
		t.Errorf("closing an engine whose directory was renamed: %v", err)
	}
}

// TestNothingIsMadeElsewhere: the engine does not touch a directory that has replaced
// its own, even when segments and windows end.
func TestNothingIsMadeElsewhere(t *testing.T) {
	d := newOnDisk(t)
	if err := errors.Join(os.Rename(d.dir, d.dir+".old"), os.CopyFS(d.dir, os.DirFS(d.dir+".old"))); err != nil {
		t.Fatal(err)
	}
	before := listing(t, d.dir)
	go func() { // without advancing the clock, so that only the beginning of a segment checks
		for {
			d.Do(&storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "a", Body: make([]byte, 10_000)}}, Done: func() {}})
		}
	}()
	d.wantsGone(t, "")
	if after := listing(t, d.dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// TestDirectoryIsTakenBeforeRelease: segments are not released if the directory was replaced after their window was
// written. They would be those of another engine.
func TestDirectoryIsTakenBeforeRelease(t *testing.T) {
	d := newOnDisk(t)
	oldest, begun := segments(d.Engine)
	take := func() { // the engine asks for the time when it checks the directory
		if err := takeovers["replaced by a copy"].take(d.dir); err != nil {
			t.Error(err)
		}
	}
	linked := sync.OnceFunc(func() { d.hook.Store(&take) })
	d.fs.linked.Store(&linked)
	go func() { // the last put may never be answered
		for current := begun; current == begun; _, current = segments(d.Engine) {
			storage.DoWait(d, []storage.Op{{Kind: storage.Put, Tube: "a", Body: make([]byte, 10_000)}})
		}
	}()
	d.wantsGone(t, "")
	if now, _ := segments(d.Engine); now != oldest {
		t.Errorf("the segments %d to %d were released", oldest, now-1)
	}
}

// listing returns the files of a directory with their sizes and the times of their last
// changes.
func listing(t *testing.T, dir string) (all string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all += fmt.Sprintln(path, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEnding: a process that opens the directory of another one can tell whether that one is
// ending.
func TestEnding(t *testing.T) {
	d := newOnDisk(t)
	for _, ending := range []bool{false, true} {
		if ending {
			d.Ending()
		}
		for range 2 { // an attempt changes nothing
			if _, err := Open(d.options()); !errors.Is(err, ErrLocked) || errors.Is(err, ErrEnding) != ending {
				t.Errorf("ending: %v: %v", ending, err)
			}
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, d.options()).Close(); err != nil {
		t.Error(err)
	}
}

// TestLockedWithoutLockFile: the directory stays locked if the files by which other
// programs lock it are removed.
func TestLockedWithoutLockFile(t *testing.T) {
	d := newOnDisk(t)
	for _, name := range []string{"LOCK", "tables/LOCK"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
		if e, err := Open(d.options()); !errors.Is(err, ErrLocked) {
			t.Fatalf("opened beside another one without %s: %v, %v", name, e, err)
		}
		os.Create(filepath.Join(d.dir, name)) // the refused attempt may have created it again
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	e := mustOpen(t, d.options())
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestTablesRenamed: while the tables are under another name, puts are refused after a while.
// Everything else goes on, except for reading bodies that are only in the tables. When the
// tables are back, everything works again.
func TestTablesRenamed(t *testing.T) {
	d := newOnDisk(t)
	tables, aside := filepath.Join(d.dir, tables.DirName), filepath.Join(d.dir, "aside")
	if err := os.Rename(tables, aside); err != nil {
		t.Fatal(err)
	}
	ids := putUntilRefused(t, d.Engine)
	do(t, d, storage.Op{Kind: storage.Peek, ID: ids[len(ids)-1]})
	doSoon(t, d, storage.Op{Kind: storage.Peek, ID: 1}) // may fail now
	for _, id := range ids[:len(ids)/2] {
		do(t, d, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
	}
	if err := os.Rename(aside, tables); err != nil {
		t.Fatal(err)
	}
	awaitPut(t, d.Engine)
	if got := do(t, d, storage.Op{Kind: storage.Peek, ID: 1})[0].Answer.Body; string(got) != "the first one" {
		t.Errorf("the body of the first job is %q", got)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	e := mustOpen(t, d.options())
	defer e.Close()
	for i, id := range ids {
		ops := []storage.Op{{Kind: storage.Peek, ID: id}}
		if storage.DoWait(e, ops); ops[0].Answer.NotFound != (i < len(ids)/2) {
			t.Errorf("job %d of %d: %+v", i, len(ids), ops[0].Answer.NotFound)
		}
	}
}
