package wal

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const dir = "jobs"

// hookFS is a file system that calls a hook before everything that changes a file or the
// directory, with a text such as "write jobs/log.1". If the hook returns an error the operation
// is not carried out; only of a write the first half is, unless that is in the first sector of
// a file.
type hookFS struct {
	vfs.FS
	mu   sync.Mutex
	hook func(what string) error
}

func (fs *hookFS) ask(what string) error {
	fs.mu.Lock()
	hook := fs.hook
	fs.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(what)
}

func (fs *hookFS) set(hook func(what string) error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.hook = hook
}

func (fs *hookFS) file(what, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := fs.ask(what); err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err} // like the real file system
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, fs: fs, name: name}, nil
}

func (fs *hookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.file("create "+name, name, func() (vfs.File, error) { return fs.FS.Create(name, c) })
}

func (fs *hookFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.file("reuse "+from, to, func() (vfs.File, error) { return fs.FS.ReuseForWrite(from, to, c) })
}

func (fs *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return fs.file("open "+name, name, func() (vfs.File, error) { return fs.FS.OpenReadWrite(name, c, o...) })
}

func (fs *hookFS) OpenDir(name string) (vfs.File, error) {
	return fs.file("opendir "+name, name, func() (vfs.File, error) { return fs.FS.OpenDir(name) })
}

func (fs *hookFS) Remove(name string) error {
	if err := fs.ask("remove " + name); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

func (fs *hookFS) Rename(from, to string) error {
	if err := fs.ask("rename " + from + " to " + to); err != nil {
		return err
	}
	return fs.FS.Rename(from, to)
}

// hookFile keeps the name under which it was opened, although a segment is renamed once it is
// prepared.
type hookFile struct {
	vfs.File
	fs   *hookFS
	name string
}

func (f *hookFile) Write(p []byte) (int, error) {
	if err := f.fs.ask("write " + f.name); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *hookFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.fs.ask("write " + f.name); err != nil {
		if at+int64(len(p)) <= 512 {
			return 0, err
		}
		n, _ := f.File.WriteAt(p[:len(p)/2], at)
		return n, err
	}
	return f.File.WriteAt(p, at)
}

func (f *hookFile) Sync() error {
	if err := f.fs.ask("sync " + f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	if err := f.fs.ask("syncdata " + f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

func options(t testing.TB, fs vfs.FS, at string) Options {
	return Options{
		FS: fs, Dir: at, Size: 1 << 10, Log: slog.New(slog.DiscardHandler),
		Fatal: func(err error) {
			t.Errorf("fatal: %v", err)
			runtime.Goexit()
		},
	}
}

func newMem(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Sync(); err != nil {
		t.Fatal(err)
	}
	return fs
}

// open opens a log and returns what was replayed.
func open(o Options, first uint64) (l *Log, replayed []string, err error) {
	l, err = Open(o, first, func(payload []byte) error {
		replayed = append(replayed, string(payload))
		return nil
	})
	return l, replayed, err
}

func mustOpen(t testing.TB, o Options, first uint64) (*Log, []string) {
	t.Helper()
	l, replayed, err := open(o, first)
	if err != nil {
		t.Fatal(err)
	}
	return l, replayed
}

// add appends a payload.
func add(l *Log, payload string) error {
	_, err := l.Append(append(make([]byte, HeaderSize), payload...))
	return err
}

// addPieces appends a payload in up to four pieces.
func addPieces(l *Log, r *rand.Rand, payload string) error {
	frame := append(make([]byte, HeaderSize), payload...)
	var pieces [][]byte
	for from := 0; len(pieces) < 4; {
		to := from + max(HeaderSize-from, 0)
		to += r.IntN(len(frame) - to + 1)
		if len(pieces) == 3 {
			to = len(frame)
		}
		pieces, from = append(pieces, slices.Clone(frame[from:to])), to
	}
	return l.AppendPieces(pieces)
}

// awaitNext waits until nothing is being prepared.
func awaitNext(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.preparing {
		l.idle.Wait()
	}
}

// rotate rotates if the log is full. It waits until the next segment is prepared.
func rotate(l *Log) (ended uint64, err error) {
	awaitNext(l)
	if !l.Full() {
		awaitNext(l) // preparing may have started again
		if !l.Full() {
			return 0, nil
		}
	}
	return l.Rotate()
}

// payload returns a payload that is different from all others.
func payload(r *rand.Rand, n int) string {
	size := []int{0, 1, 7, 8, 40, 200, 700, 5000}[r.IntN(8)]
	return fmt.Sprintf("%d:%s", n, strings.Repeat(string(rune('a'+n%26)), r.IntN(size+1)))
}

// same fails unless got is want.
func same(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("replayed %d frames, want %d:\n%.300q\nwant:\n%.300q", len(got), len(want), got, want)
	}
}

// prefixOf returns a description of the error if got is not a prefix of all with at least n
// elements.
func prefixOf(got, all []string, n int) string {
	switch {
	case len(got) > len(all) || !slices.Equal(got, all[:len(got)]):
		return fmt.Sprintf("what was replayed is no beginning of what was appended:\n%.300q\nappended:\n%.300q", got, all)
	case len(got) < n:
		return fmt.Sprintf("replayed %d frames, and %d of %d were synced", len(got), n, len(all))
	}
	return ""
}
