package embedded

import (
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
)

// hookFS is a file system that calls a hook before each operation. The hook can block, or
// return an error.
type hookFS struct {
	*errorfs.FS
	inner vfs.FS
	mu    sync.Mutex
	hook  func(errorfs.Op) error
}

func newHookFS(fs vfs.FS) *hookFS {
	h := &hookFS{inner: fs}
	h.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(h.ask))
	return h
}

func (h *hookFS) ask(op errorfs.Op) error {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

func (h *hookFS) set(hook func(errorfs.Op) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = hook
}

// ReuseForWrite is overridden because the one of errorfs does not call the hook for later
// operations on the file.
func (h *hookFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.ask(errorfs.Op{Kind: errorfs.OpReuseForWrite, Path: from}); err != nil {
		return nil, err
	}
	f, err := h.inner.ReuseForWrite(from, to, c)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(f, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = to
		return h.ask(op)
	})), nil
}

func isTable(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") }

// isLog reports whether an operation is on a file of the log.
func isLog(op errorfs.Op) bool { return strings.HasPrefix(path.Base(op.Path), "log.") }

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

// eventually waits until cond is true.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// segments returns the numbers of the oldest and the current segment of the log.
func segments(e *Engine) (oldest, current uint64) { return e.journal.log.Segments() }

// do carries out operations. None of them may fail.
func do(t testing.TB, s storage.Store, ops ...storage.Op) []storage.Op {
	t.Helper()
	storage.DoWait(s, ops)
	for i := range ops {
		if a := &ops[i].Answer; a.Err != nil || a.NotFound {
			t.Fatalf("operation %d: %+v", i, a)
		}
	}
	return ops
}

// fillSegment puts jobs until a new segment of the log begins.
func fillSegment(t testing.TB, e *Engine) {
	t.Helper()
	_, begun := segments(e)
	body := make([]byte, 64<<10)
	for _, current := segments(e); current == begun; _, current = segments(e) {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "filler", Body: body})
	}
}

func mustOpen(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// memFS is a file system in memory on which a power cut can be simulated. The one of Pebble
// read-locks itself twice to make a link. If another goroutine makes a clone in between, both
// wait for ever.
type memFS struct {
	*vfs.MemFS
	cloning *sync.Mutex
}

func newMem() *memFS { return &memFS{vfs.NewCrashableMem(), new(sync.Mutex)} }

// Unwrap implements vfs.FS.
func (fs *memFS) Unwrap() vfs.FS { return fs.MemFS }

// Link implements vfs.FS.
func (fs *memFS) Link(from, to string) error {
	fs.cloning.Lock()
	defer fs.cloning.Unlock()
	return fs.MemFS.Link(from, to)
}

// CrashClone returns what a power cut would leave.
func (fs *memFS) CrashClone(c vfs.CrashCloneCfg) *memFS {
	fs.cloning.Lock()
	defer fs.cloning.Unlock()
	return &memFS{fs.MemFS.CrashClone(c), new(sync.Mutex)}
}
