package embedded

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

var faults = flag.Int("faults", 1, "how many operations of each kind fail, each in a life of its own; 0: all of them, once and permanently")

// errDisk is the error of a fault. Unlike the error of a real file system it does not name the
// file. So if a message names it, the engine added the name.
var errDisk = errors.New("injected by the test")

// fault makes the nth of some operations fail, on files of the log or of the tables. If it
// lasts, the later ones fail as well, until it is mended. It mends itself after it was met
// patience times, so that every life ends.
type fault struct {
	meets func(errorfs.Op) bool
	nth   int
	lasts bool
	ofDir bool // it makes only syncs of the tables' directory fail, see isTablesDirSync

	mu     sync.Mutex
	seen   int
	struck int
	mended bool
	first  errorfs.Op // that failed
}

// patience is how often a lasting fault is met before it mends itself. In the background Pebble
// tries again at once, for ever.
const patience = 100

func (f *fault) hook(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mended || isTablesDirSync(op) != f.ofDir || !f.meets(op) {
		return nil
	}
	if f.seen++; f.seen < f.nth {
		return nil
	}
	if f.struck++; f.struck == 1 {
		f.first = op
	}
	f.mended = !f.lasts || f.struck == patience
	return errDisk
}

// mend ends a lasting fault, if it was met.
func (f *fault) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mended = f.mended || f.lasts && f.struck > 0
}

func (f *fault) hasStruck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck > 0
}

// ofTableOpen reports whether it occurred when a table was opened.
func (f *fault) ofTableOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck > 0 && isOpen(f.first) && isTable(f.first)
}

func (f *fault) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("fault %d (%s, lasts: %t)", f.nth, f.first.Path, f.lasts)
}

// isTablesDirSync reports whether the directory of the tables is synced.
// TestSyncOfTheTablesDirectory tests that.
func isTablesDirSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync && op.Path == "jobs/"+tables.DirName
}

// inTables reports whether an operation is on a file of Pebble's, on an ingest file, or on
// their directory.
func inTables(op errorfs.Op) bool {
	return strings.Contains(op.Path, "/"+tables.DirName) || isTable(op)
}

// ofLog reports whether an operation is on a file of the log, or on the directory that contains
// the log and the tables.
func ofLog(op errorfs.Op) bool { return !inTables(op) && !strings.HasSuffix(op.Path, "LOCK") }

func isWrite(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt
}

func isCreate(op errorfs.Op) bool {
	return op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite || op.Kind == errorfs.OpMkdirAll
}

func isRename(op errorfs.Op) bool { return op.Kind == errorfs.OpRename }
func isRemove(op errorfs.Op) bool { return op.Kind == errorfs.OpRemove }
func isLink(op errorfs.Op) bool   { return op.Kind == errorfs.OpLink }
func isOpen(op errorfs.Op) bool   { return op.Kind == errorfs.OpOpen || op.Kind == errorfs.OpOpenDir }

// faultyLife is the life of an engine on a disk with a fault, with its ledger.
type faultyLife struct {
	*ledger
	t     *testing.T
	disk  *disk
	fs    *hookFS
	fault *fault
	fatal chan error // the error of Fatal
	ended chan error // the result: nil, or an error of Open or Close
	e     atomic.Pointer[Engine]
	puts  int
}

func newFaultyLife(t *testing.T, f *fault) *faultyLife {
	d := newDisk()
	l := &faultyLife{
		ledger: newLedger(), t: t, disk: d, fs: newHookFS(d.fs), fault: f,
		fatal: make(chan error, 100), ended: make(chan error, 1),
	}
	l.fs.set(f.hook)
	return l
}

func (l *faultyLife) open() error {
	o := l.disk.options(l.t)
	o.fs, o.KeepBodies, o.Log = l.fs, 1, slog.New(slog.DiscardHandler)
	o.Fatal = func(err error) { l.fatal <- err; select {} }
	e, err := Open(o)
	l.e.Store(e)
	return err
}

// close closes the engine. A lasting fault is mended only after that.
func (l *faultyLife) close() error {
	defer l.fault.mend()
	return l.e.Load().Close()
}

// live puts, moves and deletes jobs with small and large bodies over several segments
// and checkpoints, before and after the engine is closed and opened again.
func (l *faultyLife) live() error {
	if err := l.open(); err != nil {
		return err
	}
	l.work("a")
	if err := l.close(); err != nil {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	l.work("b")
	return l.close()
}

// work fills two and a half segments of the log, in a few large batches.
func (l *faultyLife) work(name string) {
	e := l.e.Load()
	for range 4 {
		var orders []order
		for range 7 {
			l.puts++
			orders = append(orders, l.put(fmt.Sprintf("%s%d", name, l.puts), name, 55<<10),
				l.put(fmt.Sprintf("%s%d-small", name, l.puts), name, 100))
		}
		l.do(e, orders...)
		have := l.tags(name, ready)
		l.do(e, l.move(tube.Delete, 1, have[0]), l.move(tube.Delete, 1, have[1]))
		l.do(e, l.move(tube.ReserveJob, 1, have[2]))
		l.do(e, l.move(tube.Bury, 1, have[2]), l.move(tube.Delete, 1, have[len(have)-1]))
		e.Tick()
	}
	l.do(e, l.put(name+"-heavy", name, heavyCommit+1)) // other commits are written while it is synced
	l.do(e, l.put(name+"-last", name, 100))
}

// run runs the life until it ends or the engine calls Fatal. Then it compares the disk with the
// ledger.
func (l *faultyLife) run() {
	defer l.fs.set(blockForever) // an engine that has called Fatal would go on trying
	go func() { l.ended <- l.live() }()
	select {
	case err := <-l.ended:
		if err != nil {
			l.checkCause("Open or Close", err)
		}
		if !l.fault.hasStruck() && err == nil && len(l.tags("b", ready)) == 0 {
			l.t.Error("a life without a fault has done nothing")
		}
	case err := <-l.fatal:
		l.checkCause("Fatal", err)
		l.tryBatch()
	}
	if refused := l.copy().refused; refused != nil && !l.cannotRead(refused) {
		l.t.Errorf("%s: refused: %v", l.fault, refused)
	}
	// The case without unsynced data comes last: by then the ledger has a batch that was ended
	// too early.
	for _, percent := range [...][]int{{100, 0}, {50, 0}}[l.fault.nth%2] {
		l.checkLeft(percent)
	}
}

// cannotRead reports whether an operation was refused because a body is only in a table that
// cannot be opened: the only case in which an engine may go on after an operation has failed.
func (l *faultyLife) cannotRead(refused error) bool {
	return errors.Is(refused, storage.ErrUnavailable) && errors.Is(refused, errDisk) && l.fault.ofTableOpen()
}

// blockForever is a hook for engines that are no longer needed, but cannot be closed.
func blockForever(errorfs.Op) error { select {} }

// checkCause fails unless an error wraps the error of the disk and names a file or the
// directory.
func (l *faultyLife) checkCause(of string, err error) {
	if !errors.Is(err, errDisk) {
		l.t.Errorf("%s: the error of %s does not wrap the disk's: %v", l.fault, of, err)
	}
	if !strings.Contains(err.Error(), "jobs") {
		l.t.Errorf("%s: the error of %s names no file nor directory: %v", l.fault, of, err)
	}
}

// tryBatch passes a batch to an engine that has called Fatal. The batch may be done if the log
// has not failed. It may also never be done.
func (l *faultyLife) tryBatch() {
	e := l.e.Load()
	if e == nil {
		return // it was not even open
	}
	go e.Do(l.batch(nil, l.put("late", "late", 10)))
}

// checkLeft opens what a power cut at this moment leaves.
func (l *faultyLife) checkLeft(percent int) {
	l.t.Helper()
	before, ledger := l.t.Failed(), l.copy()
	d := &disk{fs: clone(l.disk.fs, percent), clock: l.disk.clock, segment: crashSegment} // small segments are created faster
	e, err := Open(d.options(l.t))
	if err != nil {
		l.t.Errorf("%s: after a power cut with %d percent of what was not synced: %v", l.fault, percent, err)
		return
	}
	ledger.compare(l.t, e)
	if err := e.Close(); err != nil {
		l.t.Error(err)
	}
	if !before && l.t.Failed() {
		l.t.Fatalf("with %s and %d percent of what was not synced", l.fault, percent)
	}
}

// TestFaults makes every operation on a file fail in turn. Then the engine goes on as if
// nothing had happened, or Open or Close returns an error, or the engine calls Fatal. In any
// case nothing is lost that was acknowledged, and no job comes back whose deletion was
// acknowledged.
func TestFaults(t *testing.T) {
	done := opsOfALife(t)
	places := map[string]func(errorfs.Op) bool{"log": ofLog, "tables": inTables}
	kinds := map[string]func(errorfs.Op) bool{
		"write": isWrite, "sync": isSync, "create": isCreate, "rename": isRename, "remove": isRemove, "open": isOpen, "link": isLink,
	}
	for where, in := range places {
		for what, got := range kinds {
			if what == "link" && where == "log" {
				continue // there is none
			}
			t.Run(what+" of "+where, func(t *testing.T) {
				if what != "write" && what != "sync" {
					atLength(t)
				}
				t.Parallel()
				eachFault(t, done, func(op errorfs.Op) bool { return in(op) && got(op) })
			})
		}
	}
}

// opsOfALife returns all operations on files in a life without faults.
func opsOfALife(t *testing.T) (done []errorfs.Op) {
	well := &fault{nth: math.MaxInt}
	well.meets = func(op errorfs.Op) bool {
		done = append(done, op)
		return true
	}
	newFaultyLife(t, well).run()
	well.mu.Lock() // Pebble may still be at work in the background
	defer well.mu.Unlock()
	return slices.Clone(done)
}

// eachFault counts the operations of a kind in done, the operations of a life without faults.
// Then it runs that many lives. In each of them one of the operations fails: alternately once,
// or from then on.
func eachFault(t *testing.T, done []errorfs.Op, meets func(errorfs.Op) bool) {
	met := 0
	for _, op := range done {
		if meets(op) {
			met++
		}
	}
	step := 1
	if *faults > 0 {
		step = max(1, (met+*faults-1) / *faults)
	}
	tried := 0
	for n := 1 + rand.IntN(step); n <= met; n += step {
		for _, lasts := range []bool{n/step%2 == 0, n/step%2 != 0} {
			newFaultyLife(t, &fault{meets: meets, nth: n, lasts: lasts}).run()
			if tried++; *faults > 0 {
				break
			}
		}
	}
	t.Logf("%d faults for %d operations", tried, met)
	if tried == 0 {
		t.Error("no fault at all")
	}
}

// TestSyncOfTheTablesDirectory: if the directory of Pebble's files cannot be synced,
// Open fails or Fatal is called. There is no panic.
func TestSyncOfTheTablesDirectory(t *testing.T) {
	for nth := 1; nth <= 4; nth++ {
		d := newDisk()
		o := d.options(t)
		fs, fatal, ended := newHookFS(d.fs), make(chan error, 10), make(chan error, 1)
		f := &fault{meets: isTablesDirSync, nth: nth, ofDir: true}
		fs.set(f.hook)
		o.fs, o.Fatal = fs, func(err error) { fatal <- err; select {} }
		go func() { ended <- openRecovering(o) }()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, errDisk) {
				t.Errorf("sync %d: %v", nth, err)
			}
		case err := <-fatal:
			if !errors.Is(err, errDisk) {
				t.Errorf("sync %d: %v", nth, err)
			}
		}
		fs.set(blockForever)
	}
}

// openRecovering opens an engine and closes it. It returns a panic as an error.
func openRecovering(o Options) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	e, err := Open(o)
	if err != nil {
		return err
	}
	return e.Close()
}
