package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// cleanDir is a directory whose engine was closed: it has jobs with small and large bodies in
// the tables, in several files, and other jobs in the log only.
type cleanDir struct {
	fs     *memFS
	clock  *fakeClock
	ledger *ledger
}

// sharedCleanDir makes the directory once. After that it is only read and copied.
var cleanDirOnce struct {
	sync.Mutex
	*cleanDir
}

// sharedCleanDir returns the directory of which tests damage copies. All tests share it.
func sharedCleanDir(t *testing.T) *cleanDir {
	t.Helper()
	cleanDirOnce.Lock()
	defer cleanDirOnce.Unlock()
	if cleanDirOnce.cleanDir == nil {
		cleanDirOnce.cleanDir = newCleanDir(t)
	}
	return cleanDirOnce.cleanDir
}

func newCleanDir(t *testing.T) *cleanDir {
	t.Helper()
	d := newDisk()
	p := &cleanDir{fs: d.fs, clock: d.clock, ledger: newLedger()}
	e := mustOpen(t, d.options(t))
	for series := range 3 {
		for i := range 40 {
			tag := fmt.Sprintf("job-%d-%d", series, i)
			p.ledger.do(e, p.ledger.put(tag, "a", 300), p.ledger.put(tag+"-large", "a", 2000))
		}
		fillSegment(t, e)
		do(t, e, storage.Op{Kind: storage.Pause, Tube: "a", Delay: uint32(series)})
	}
	fillers := deleteAll(t, e, "filler")
	if fillers < 3 {
		t.Fatalf("only %d fillers", fillers)
	}
	eventually(t, "the tables to have all but the last segment", func() bool {
		oldest, current := segments(e)
		return oldest == current
	})
	for _, tag := range p.ledger.tags("a", ready)[:20] {
		p.ledger.do(e, p.ledger.move(tube.Delete, 1, tag))
	}
	p.ledger.do(e, p.ledger.put("last", "a", 700))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// deleteAll deletes all jobs of a tube and returns how many there were.
func deleteAll(t *testing.T, e *Engine, name string) (n int) {
	t.Helper()
	for ; ; n++ {
		ops := []storage.Op{{Kind: storage.PeekHead, Tube: name, State: tube.Ready}}
		if storage.DoWait(e, ops); ops[0].Answer.NotFound {
			return n
		}
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: ops[0].Answer.ID})
	}
}

// copied returns a copy of the directory, to be damaged.
func (p *cleanDir) copied() *memFS { return clone(p.fs, 100) }

// files returns the paths of the files whose names have a prefix and a suffix.
func (p *cleanDir) files(t *testing.T, in, prefix, suffix string) (paths []string) {
	t.Helper()
	names, err := p.fs.List(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			paths = append(paths, path.Join(in, name))
		}
	}
	if len(paths) == 0 {
		t.Fatalf("there is no file %s*%s in %s", prefix, suffix, in)
	}
	return paths
}

func readAll(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func rewrite(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// flip changes one bit of a file.
func flip(t *testing.T, fs vfs.FS, name string, at int) {
	t.Helper()
	data := readAll(t, fs, name)
	data[at] ^= 0x10
	rewrite(t, fs, name, data)
}

// outcome is the result of opening a damaged directory.
type outcome int

const (
	refused  outcome = iota // by Open
	harmless                // every job is there
	gaveUp                  // Fatal was called
	lazily                  // every job is there, and some bodies cannot be read
)

// open opens a damaged directory. Either it is refused, with an error that names one of the
// files or directories, or it has all the jobs. What Pebble finds in the background must not
// end the process: no other job could be reached then.
func (p *cleanDir) open(t *testing.T, fs *memFS, what string, names ...string) outcome {
	t.Helper()
	fatal, found := make(chan error, 10), make(chan outcome, 1)
	o := (&disk{fs: fs, clock: p.clock, segment: crashSegment}).options(t)
	o.Fatal = func(err error) { fatal <- err; select {} }
	go func() { found <- p.outcome(t, o, what, names) }()
	select {
	case err := <-fatal:
		t.Errorf("%s: the engine gives up: %.200v", what, err)
		return gaveUp
	case o := <-found:
		return o
	}
}

// outcome opens a damaged directory, as open does. It returns gaveUp if the engine calls Fatal.
func (p *cleanDir) outcome(t *testing.T, o Options, what string, names []string) (got outcome) {
	e, err := Open(o)
	if err != nil {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(err.Error(), name) }) {
			t.Errorf("%s: the error names none of %q: %.300v", what, names, err)
		}
		return refused
	}
	if p.missed(t, e, what) > 0 {
		got = lazily
		p.reserveAll(t, e, what)
	} else {
		got = harmless
	}
	if err := e.Close(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return got
}

// missed counts the jobs whose bodies cannot be read. All others must be unchanged, and there
// must be exactly as many jobs as before.
func (p *cleanDir) missed(t *testing.T, e *Engine, what string) (unreadable int) {
	t.Helper()
	for tag, a := range p.ledger.jobs {
		ops := []storage.Op{{Kind: storage.Peek, ID: a.id}, {Kind: storage.JobStats, ID: a.id}}
		storage.DoWait(e, ops)
		body, stats := &ops[0].Answer, &ops[1].Answer
		switch {
		case errors.Is(body.Err, storage.ErrUnavailable):
			unreadable++
		case a.now == missing && body.NotFound:
		case a.now == missing || body.NotFound || !bytes.Equal(body.Body, bodyOf(tag, a.size)):
			t.Errorf("%s: job %q, which is %s, is read as %d bytes, not found %t", what, tag, a.now, len(body.Body), body.NotFound)
		case stats.Job == nil || stats.Job.State != tube.Ready:
			t.Errorf("%s: job %q: %+v", what, tag, stats)
		}
	}
	return unreadable
}

// reserveAll reserves every job. A job whose body cannot be read must be buried: it must be
// neither reserved nor gone.
func (p *cleanDir) reserveAll(t *testing.T, e *Engine, what string) {
	t.Helper()
	for tag, a := range p.ledger.jobs {
		if a.now == missing {
			continue
		}
		ops := []storage.Op{{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: a.id}}
		storage.DoWait(e, ops)
		want := tube.Reserved
		if ops[0].Answer.Err != nil {
			want = tube.Buried
		}
		got := do(t, e, storage.Op{Kind: storage.JobStats, ID: a.id})[0].Answer.Job
		if got.State != want {
			t.Errorf("%s: job %q is %v after a reserve that said %v", what, tag, got.State, ops[0].Answer.Err)
		}
	}
}

// wantMendable puts back the file that was damaged. Then everything must be intact: a failed
// start must not make things worse.
func (p *cleanDir) wantMendable(t *testing.T, fs *memFS, what, name string) {
	t.Helper()
	rewrite(t, fs, name, readAll(t, p.fs, name))
	if o := p.open(t, fs, what+", but mended", "no error at all"); o != harmless {
		t.Errorf("%s: it is not intact with the file put back (%d)", what, o)
	}
}

// number returns the number that Pebble gave to a table file.
func number(name string) string { return strings.TrimSuffix(path.Base(name), ".sst") }

// TestDamagedTable flips bits in all of the tables' files.
func TestDamagedTable(t *testing.T) {
	atLength(t)
	t.Parallel()
	p := sharedCleanDir(t)
	outcomes := make(map[outcome]int)
	for _, name := range p.files(t, "jobs/tables", "", ".sst") {
		size := len(readAll(t, p.fs, name))
		for i := range 2 {
			fs, at := p.copied(), i*size/2
			flip(t, fs, name, at)
			outcomes[p.open(t, fs, fmt.Sprintf("%s, bit flipped at %d of %d", name, at, size), path.Base(name), "file "+number(name))]++
		}
	}
	t.Logf("refused %d times, found by reading %d times, harmless %d times", outcomes[refused], outcomes[lazily], outcomes[harmless])
	if outcomes[refused] == 0 || outcomes[lazily] == 0 {
		t.Error("not every kind of damage occurred")
	}
}

// TestCutOrRemoved truncates or removes files, one at a time. Each of them is needed.
func TestCutOrRemoved(t *testing.T) {
	atLength(t)
	t.Parallel()
	p := sharedCleanDir(t)
	names := append(p.files(t, "jobs/tables", "", ".sst"), p.files(t, "jobs/tables", "MANIFEST-", "")...)
	for _, name := range names {
		whole := readAll(t, p.fs, name)
		for _, left := range []int{0, len(whole) - 1} {
			fs, what := p.copied(), fmt.Sprintf("%s, cut to %d of %d", name, left, len(whole))
			rewrite(t, fs, name, whole[:left])
			if o := p.open(t, fs, what, path.Base(name), "jobs"); o != refused && !strings.Contains(name, "MANIFEST") {
				t.Errorf("%s: it was opened (%d)", what, o)
			}
		}
		fs, what := p.copied(), name+" removed"
		if err := fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		if o := p.open(t, fs, what, path.Base(name), "jobs"); o != refused {
			t.Errorf("%s: it was opened (%d)", what, o)
		}
		p.wantMendable(t, fs, what, name)
	}
}

// TestDamagedManifest flips bits of the file that lists the table files.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	p := sharedCleanDir(t)
	name := p.files(t, "jobs/tables", "MANIFEST-", "")[0]
	size := len(readAll(t, p.fs, name))
	for i := range 4 {
		fs, at := p.copied(), i*size/4
		flip(t, fs, name, at)
		what := fmt.Sprintf("%s, bit flipped at %d of %d", name, at, size)
		if p.open(t, fs, what, "jobs") == refused {
			p.wantMendable(t, fs, what, name)
		}
	}
}

// TestWithoutTheMarker removes the file that says which manifest is the current one. Pebble
// takes that for a directory without tables. The engine must neither take it for one without
// jobs, nor make it one.
func TestWithoutTheMarker(t *testing.T) {
	t.Parallel()
	p := sharedCleanDir(t)
	name := p.files(t, "jobs/tables", "marker.manifest.", "")[0]
	fs := p.copied()
	fs.Remove("jobs/log.1") // it was released, and may still exist
	if err := fs.Remove(name); err != nil {
		t.Fatal(err)
	}
	if o := p.open(t, fs, name+" removed", "jobs"); o != refused {
		t.Errorf("it was opened (%d)", o)
	}
	for _, table := range p.files(t, "jobs/tables", "", ".sst") {
		if _, err := fs.Stat(table); err != nil {
			t.Errorf("the failed start has made things worse: %v", err)
		}
	}
}

// TestWithoutTheTables removes all tables. The log exists, but its beginning was in the tables
// only.
func TestWithoutTheTables(t *testing.T) {
	t.Parallel()
	p := sharedCleanDir(t)
	fs := p.copied()
	fs.Remove("jobs/log.1") // it was released, and may still exist
	if err := fs.RemoveAll("jobs/tables"); err != nil {
		t.Fatal(err)
	}
	if o := p.open(t, fs, "tables removed", "jobs"); o != refused {
		t.Errorf("it was opened (%d)", o)
	}
}

// TestDamagedLog flips bits in the used part of the last segment, removes it, and truncates it.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	p := sharedCleanDir(t)
	name := p.lastSegment(t)
	whole := readAll(t, p.fs, name)
	used := int(binary.BigEndian.Uint64(whole[32:])) // where the header says that it was closed
	outcomes := make(map[outcome]int)
	for i := range 4 {
		fs, at := p.copied(), i*used/4
		flip(t, fs, name, at)
		what := fmt.Sprintf("%s, bit flipped at %d of %d", name, at, used)
		o := p.open(t, fs, what, name)
		if outcomes[o]++; o == refused {
			p.wantMendable(t, fs, what, name)
		}
	}
	for _, left := range []int{0, 63, 64, used - 9} {
		fs, what := p.copied(), fmt.Sprintf("%s, cut to %d of %d", name, left, used)
		rewrite(t, fs, name, whole[:left])
		if o := p.open(t, fs, what, name); o != refused {
			t.Errorf("%s: it was opened (%d)", what, o)
		}
	}
	fs := p.copied()
	fs.Remove(name)
	if o := p.open(t, fs, "last segment removed", name); o != refused {
		t.Errorf("the last segment removed: it was opened (%d)", o)
	}
	t.Logf("refused %d times, harmless %d times", outcomes[refused], outcomes[harmless])
	if outcomes[lazily] > 0 || outcomes[refused] < 2 { // only flips in the padding of a frame do no harm
		t.Errorf("opened with a damaged log: %v", outcomes)
	}
}

// TestCutShort truncates each segment of a log whose process was killed. Everything that was
// acknowledged was synced. So either nothing is missing, or the directory is refused; if it is
// the last segment, it is always refused.
func TestCutShort(t *testing.T) {
	t.Parallel()
	d := newDisk()
	d.segment = crashSegment
	e := mustOpen(t, d.options(t))
	p := &cleanDir{clock: d.clock, ledger: newLedger()}
	for i := range 30 {
		p.ledger.do(e, p.ledger.put(fmt.Sprint("job-", i), "a", 300))
	}
	fillSegment(t, e)
	for i := range 20 { // one of them makes the segment grow
		p.ledger.do(e, p.ledger.put(fmt.Sprint("later-", i), "a", 300+i/19*crashSegment))
	}
	p.fs = clone(d.fs, 100)
	_, current := segments(e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if o := p.open(t, p.copied(), "nothing cut"); o != harmless {
		t.Fatalf("it is not intact as it was left (%d)", o)
	}
	for _, name := range p.files(t, "jobs", "log.", "") {
		whole := readAll(t, p.fs, name)
		for _, left := range []int{0, 63, 64, 65, 1000, crashSegment / 2, len(whole) - crashSegment/2, len(whole) - 1} {
			if left < 0 || left >= len(whole) { // a segment that was begun just now is short
				continue
			}
			fs, what := p.copied(), fmt.Sprintf("%s, cut to %d of %d", name, left, len(whole))
			rewrite(t, fs, name, whole[:left])
			o := p.open(t, fs, what, name)
			if o != refused && (o != harmless || name == fmt.Sprint("jobs/log.", current)) {
				t.Errorf("%s: it was opened (%d)", what, o)
			}
			if o == refused {
				p.wantMendable(t, fs, what, name)
			}
		}
	}
}

// lastSegment returns the segment that was current when the engine was closed.
func (p *cleanDir) lastSegment(t *testing.T) string {
	t.Helper()
	last := ""
	for _, name := range p.files(t, "jobs", "log.", "") {
		if len(name) > len(last) || len(name) == len(last) && name > last {
			last = name
		}
	}
	return last
}

// TestSegmentRemoved removes each segment of a log. The power was cut before its jobs were in
// the tables.
func TestSegmentRemoved(t *testing.T) {
	t.Parallel()
	d := newDisk()
	fs := newHookFS(d.fs)
	o := d.options(t)
	o.fs = fs
	e := mustOpen(t, o)
	release := holdTables(fs)
	p := &cleanDir{clock: d.clock, ledger: newLedger()}
	for i := range 3 {
		p.ledger.do(e, p.ledger.put(fmt.Sprint("job-", i), "a", 300))
		fillSegment(t, e)
	}
	p.ledger.do(e, p.ledger.put("last", "a", 300))
	oldest, current := segments(e)
	p.fs = clone(d.fs, 0)
	close(release)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if current-oldest < 3 {
		t.Fatalf("only segments %d to %d", oldest, current)
	}
	for n := oldest; n < current; n++ {
		name := fmt.Sprintf("jobs/log.%d", n)
		fs := p.copied()
		if err := fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		if o := p.open(t, fs, name+" removed", name); o != refused {
			t.Errorf("%s removed: it was opened (%d)", name, o)
		}
		p.wantMendable(t, fs, name+" removed", name)
	}
}

// holdTables blocks the creation of tables until the channel is closed.
func holdTables(fs *hookFS) (release chan struct{}) {
	release = make(chan struct{})
	fs.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && isTable(op) {
			<-release
		}
		return nil
	})
	return release
}

// TestWrongLayout: tables of another layout are not touched.
func TestWrongLayout(t *testing.T) {
	t.Parallel()
	p := sharedCleanDir(t)
	for _, layout := range [][]byte{{tables.LayoutVersion + 1}, {0}, {}} {
		fs := p.copied()
		p.set(t, fs, layout)
		if o := p.open(t, fs, fmt.Sprintf("layout %x", layout), "jobs"); o != refused {
			t.Errorf("layout %x: it was opened (%d)", layout, o)
		}
		p.set(t, fs, []byte{tables.LayoutVersion})
		if o := p.open(t, fs, "the right layout again"); o != harmless {
			t.Errorf("it cannot be opened with the right layout again")
		}
	}
}

// set writes a layout to tables that no process has open.
func (p *cleanDir) set(t *testing.T, fs *memFS, layout []byte) {
	t.Helper()
	o := (&disk{fs: fs, clock: p.clock, segment: crashSegment}).options(t)
	db, err := pebble.Open(o.fs.PathJoin(o.Dir, tables.DirName), &pebble.Options{FS: o.fs, DisableWAL: true, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Set([]byte("v"), layout, pebble.NoSync)
	if err = errors.Join(err, db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}
