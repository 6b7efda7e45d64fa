package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// fsckOf returns what Fsck finds.
func fsckOf(t testing.TB, o Options, repair bool) (jobs, left int, faults []string) {
	t.Helper()
	jobs, left, err := Fsck(t.Context(), o, repair, FsckReport{
		Found: func(what string) { faults = append(faults, what) }, Skipped: func(string) {}, Progress: func(string, int) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return jobs, left, faults
}

// row is a row of the tables.
type row struct{ key, value []byte }

// rowsOf are the rows of closed tables, to be damaged.
type rowsOf struct {
	t  *testing.T
	db *pebble.DB
}

// damage calls do with the rows of a closed disk.
func (d *disk) damage(t *testing.T, do func(rowsOf)) {
	t.Helper()
	db, err := pebble.Open(d.fs.PathJoin("jobs", tables.DirName), &pebble.Options{FS: d.fs, DisableWAL: true, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	do(rowsOf{t, db})
	if err := errors.Join(db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// of returns the rows of a kind. There must be some.
func (r rowsOf) of(kind byte) (rows []row) {
	r.t.Helper()
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		r.t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		rows = append(rows, row{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	if err := it.Close(); err != nil || len(rows) == 0 {
		r.t.Fatalf("%d rows %c: %v", len(rows), kind, err)
	}
	return rows
}

func (r rowsOf) first(kind byte) row { return r.of(kind)[0] }

func (r rowsOf) set(key, value []byte) {
	if err := r.db.Set(key, value, pebble.NoSync); err != nil {
		r.t.Fatal(err)
	}
}

func (r rowsOf) remove(key []byte) {
	if err := r.db.Delete(key, pebble.NoSync); err != nil {
		r.t.Fatal(err)
	}
}

// damageAt returns a damage that replaces the value of the first row of a kind.
func damageAt(kind byte, change func(value []byte) []byte) func(rowsOf) {
	return func(r rowsOf) {
		at := r.first(kind)
		r.set(at.key, change(at.value))
	}
}

// removal returns a damage that removes all rows of a kind, or the first.
func removal(kind byte, all bool) func(rowsOf) {
	return func(r rowsOf) {
		for i, at := range r.of(kind) {
			if i == 0 || all {
				r.remove(at.key)
			}
		}
	}
}

// addition returns a damage that adds a row.
func addition(key string, value ...byte) func(rowsOf) {
	return func(r rowsOf) { r.set([]byte(key), value) }
}

func cut(value []byte) []byte { return value[:len(value)-1] }
func empty([]byte) []byte     { return nil }
func keyOf(kind string, id byte) string {
	return kind + "\x00\x00\x00\x00\x00\x00" + string(rune(id)) + "\x00"
}

const (
	jobsOfFsck = 40 // how many cold jobs fsckDisk has, and how many others
	largeSize  = 2000
)

func fsckBody(name string, i int) []byte {
	body := fmt.Append(nil, name, " ", i)
	if i%4 == 0 {
		body = append(body, make([]byte, largeSize)...)
	}
	return body
}

// newFsckDisk returns the disk of a closed engine with cold jobs and others, with small and large bodies, a checkpoint, changes, and
// records of ended jobs, some of members of a batch.
func newFsckDisk(t *testing.T) *disk {
	d := coldDisk()
	s := d.open(t)
	defer s.Close()
	setKeep(t, s, "ended", time.Hour, 1<<20)
	endJobs(t, s, "ended", 5, 100)
	member := &storage.Args{Tags: &tube.Tags{Batch: "batch"}}
	id := do(t, s, storage.Op{Kind: storage.Put, Tube: "ended", TTR: 60, Body: []byte("b"), Args: member})[0].Answer.ID
	do(t, s, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"ended"}}, storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: 1, ID: id})
	for i := range jobsOfFsck {
		do(t, s, storage.Op{Kind: storage.Put, Tube: "cold", Delay: uint32(1000 + i*7%jobsOfFsck), TTR: 100, Body: fsckBody("cold", i)})
		id = do(t, s, storage.Op{Kind: storage.Put, Tube: "warm", TTR: 100, Body: fsckBody("warm", i)})[0].Answer.ID
	}
	endWindows(t, s.(waitingEngine).Engine)
	do(t, s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id},
		storage.Op{Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: 1, ID: id, Args: &storage.Args{Data: []byte("so far")}})
	endWindows(t, s.(waitingEngine).Engine)
	deleteAll(t, s.(waitingEngine).Engine, "filler")
	if cold, _ := coldJobsOf(s); cold != jobsOfFsck {
		t.Fatalf("%d jobs are cold", cold)
	}
	return d
}

// deliver delivers all jobs, each of which must be there exactly once.
func (d *disk) deliver(t *testing.T, what string) {
	t.Helper()
	s := d.open(t)
	defer s.Close()
	d.clock.advance(2 * time.Hour)
	s.Tick()
	got, want := make(map[string]int), make(map[string]int)
	for _, name := range []string{"cold", "warm"} {
		for i := range jobsOfFsck {
			want[string(fsckBody(name, i))] = 1
		}
		for {
			took := []storage.Op{{Kind: storage.Take, Tubes: []string{name}, Holder: 1}}
			if storage.DoWait(s, took); took[0].Answer.ID == 0 {
				break
			}
			got[string(took[0].Answer.Body)]++
			do(t, s, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: took[0].Answer.ID})
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: %d jobs were delivered, not each of %d once", what, len(got), len(want))
	}
	if n := totals(t, s.(waitingEngine).Engine); n.Ready+n.Delayed+n.Buried > 0 {
		t.Errorf("%s: jobs are left: %+v", what, n)
	}
}

// contents returns the files below a directory.
func contents(t *testing.T, fs vfs.FS, dir string, files map[string]string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		at := fs.PathJoin(dir, name)
		if info, err := fs.Stat(at); err != nil {
			t.Fatal(err)
		} else if info.IsDir() {
			contents(t, fs, at, files)
		} else {
			files[at] = string(readAll(t, fs, at))
		}
	}
	return files
}

// fsckCase is a damage, and parts of the lines that Fsck says about it.
type fsckCase struct {
	name   string
	damage func(rowsOf)
	says   []string
}

// repairable are damages that a repair mends.
var repairable = []fsckCase{
	{"an entry of the index is missing", removal('x', false), []string{`in the index of tube "cold" is missing`}},
	{"the index is missing", removal('x', true), []string{`in the index of tube "cold" is missing`}},
	{"an entry is elsewhere", func(r rowsOf) {
		at := r.first('x')
		r.remove(at.key)
		binary.BigEndian.PutUint64(at.key[len(at.key)-16:], 77)
		r.set(at.key, nil)
	}, []string{"belongs to no record", "is missing"}},
	{"an entry is of another tube", func(r rowsOf) {
		at := r.first('x')
		r.remove(at.key)
		r.set(bytes.Replace(at.key, []byte("cold"), []byte("other"), 1), nil)
	}, []string{`in the index of tube "other" belongs to no record`, `in the index of tube "cold" is missing`}},
	{"an entry has no job", func(r rowsOf) {
		at := r.first('x')
		at.key[len(at.key)-2] = 0xee
		r.set(at.key, nil)
	}, []string{"belongs to no record"}},
	{"an entry is none", addition("x\x03cold\x00abc"), []string{"belongs to no record"}},
	{"a count of urgent jobs is wrong", damageAt('y', func(v []byte) []byte { v[23]++; return v }), []string{"40 with 20270 bytes, 1 of them urgent were counted"}},
	{"a count is wrong", damageAt('y', func(v []byte) []byte { v[7]++; return v }), []string{`tube "cold", cold jobs that are delayed: there are 40 with`}},
	{"a count of bytes is wrong", damageAt('y', func(v []byte) []byte { v[15]++; return v }), []string{`tube "cold", cold jobs that are delayed: there are 40 with`}},
	{"a count cannot be read", damageAt('y', cut), []string{`reading the number of cold jobs at "y\x03cold"`}},
	{"a count is missing", removal('y', true), []string{"and 0 with 0 bytes were counted"}},
	{"a count is of no tube", addition("y\x03other", make([]byte, 24)...), nil},
	{"a count of a tube without jobs", addition("y\x03other", append(make([]byte, 23), 1)...), []string{`tube "other", cold jobs that are delayed: there are 0 with`}},
	{"a job is there twice", func(r rowsOf) {
		at := r.first('J')
		r.set(append([]byte{'j'}, at.key[1:]...), at.value)
	}, []string{"is there twice, also as a cold one", "there are 39 with 18264 bytes, and 40 with"}},
	{"a body has no job", addition(keyOf("b", 0x7f), 1, 2), []string{"the body of job 32512: there is no such job"}},
	{"a checkpoint has no job", addition(keyOf("C", 0x7f), 1, 2), []string{"the checkpoint 0000000000007f00 is one of no job"}},
	{"the last id is too low", damageAt('n', func(v []byte) []byte { return append(make([]byte, 7), 3) }), []string{"the last id is 3, and there is job"}},
	{"the place of a record is missing", removal('i', false), []string{"is missing"}},
	{"the place of a record is wrong", damageAt('i', func(v []byte) []byte { v[7]++; return v }), []string{"belongs to no record", "is missing"}},
	{"a place has no record", addition(keyOf("i", 0x7f), append(make([]byte, 8), "ended"...)...), []string{"belongs to no record"}},
	{"a member of a batch has no record", addition("fbatch\x00\x00\x00\x00\x00\x00\x00\x00\x09", []byte("ended")...), []string{"belongs to no record"}},
	{"a member of a batch is missing", removal('f', true), []string{"is missing"}},
	{"a count of records is wrong", damageAt('g', func(v []byte) []byte { v[0]++; return v }), []string{`tube "ended", records of ended jobs: there are 6 with`}},
	{"a count of records cannot be read", damageAt('g', empty), []string{`reading the number of ended jobs of tube "ended"`}},
}

// beyondRepair are damages that are only named.
var beyondRepair = []fsckCase{
	{"a cold job is damaged", damageAt('J', func(v []byte) []byte { return v[:3] }), []string{"reading the record of job"}},
	{"a cold job is not delayed", damageAt('J', func(v []byte) []byte { v[0] = byte(tube.Buried); return v }), []string{"it is cold, and buried"}},
	{"a cold job lacks a byte of its body", func(r rowsOf) {
		at := r.of('J')[1]
		r.set(at.key, cut(at.value))
	}, []string{"its body has 5 bytes, not 6"}},
	{"a job is damaged", damageAt('j', func(v []byte) []byte { return v[:3] }), []string{"reading the record of job"}},
	{"a change is damaged", damageAt('c', empty), []string{"reading the record of job"}},
	{"a change has no job", func(r rowsOf) { r.set(append([]byte{'c'}, r.first('J').key[1:]...), r.first('c').value) }, []string{"there is a change of it, and no job"}},
	{"a body is missing", removal('b', false), []string{"its body is missing"}},
	{"a body is cut", damageAt('b', cut), []string{"its body has 2005 bytes, not 2006"}},
	{"a checkpoint is missing", removal('C', true), []string{"its checkpoint is missing"}},
	{"a checkpoint is cut", damageAt('C', cut), []string{"its checkpoint is missing"}},
	{"a record of an ended job is damaged", damageAt('e', cut), []string{`reading the record of an ended job of tube "ended"`}},
	{"a record of an ended job is elsewhere", func(r rowsOf) {
		at := r.first('e')
		at.key[len(at.key)-1] = 0xee
		r.set(at.key, at.value)
	}, []string{"it is that of another place"}},
	{"an unknown row", addition("Zebra", 1), []string{"the row 5a65627261 is of an unknown kind"}},
	{"a row behind all", addition("\xff\xff", 1), []string{"the row ffff is of an unknown kind"}},
	{"a row with a long key", addition("sx", 1), []string{"the row 7378 is of an unknown kind"}},
	{"a key of a job is cut", addition("J\x00\x01", 1), []string{"the row 4a0001 is one of no job"}},
	{"a pause is damaged", addition("pa", 1), []string{`reading the pause of tube "a"`}},
	{"a policy is damaged", addition("ra", 9), []string{`reading the policy of tube "a"`}},
	{"a tombstone is damaged", addition("ka\x00b", 9), []string{"reading the tombstone"}},
	{"a group is damaged", addition("la\x00b", 9), []string{"reading what is set for the group"}},
	{"a schedule is damaged", addition("oa", 9), []string{`reading the schedule "a"`}},
	{"a batch is damaged", addition("qa", 9), []string{`reading the batch "a"`}},
	{"an import is damaged", addition("ma", 9), []string{`reading the import "a"`}},
	{"a tally is damaged", addition("H\x01a", 9), []string{"reading the tally"}},
}

// expect checks that each fault is one that was expected, and that all of those are there.
func (c *fsckCase) expect(t *testing.T, faults []string) {
	t.Helper()
	for _, says := range c.says {
		if !slices.ContainsFunc(faults, func(fault string) bool { return strings.Contains(fault, says) }) {
			t.Errorf("%s: nothing says %q: %.300q", c.name, says, faults)
		}
	}
	for _, fault := range faults {
		if !slices.ContainsFunc(c.says, func(says string) bool { return strings.Contains(fault, says) }) {
			t.Errorf("%s: unexpected: %.300s", c.name, fault)
		}
	}
}

// TestFsck: each damage of the tables is found, without a change of any file, and repaired; then every job is delivered once.
func TestFsck(t *testing.T) {
	t.Parallel()
	whole := newFsckDisk(t)
	whole.fsck(t)
	for _, c := range repairable {
		d := &disk{fs: clone(whole.fs, 100), clock: newFakeClock(), segment: crashSegment, coldAfter: 1, opened: 1}
		d.damage(t, c.damage)
		before := contents(t, d.fs, "jobs", make(map[string]string))
		_, left, faults := fsckOf(t, d.options(t), false)
		c.expect(t, faults)
		if left != len(faults) {
			t.Errorf("%s: %d of %d faults are left", c.name, left, len(faults))
		}
		if !maps.Equal(before, contents(t, d.fs, "jobs", make(map[string]string))) {
			t.Errorf("%s: files have changed", c.name)
		}
		jobs, left, faults := fsckOf(t, d.options(t), true)
		c.expect(t, faults)
		if left != 0 || jobs != 2*jobsOfFsck {
			t.Errorf("%s: %d jobs, %d faults are left", c.name, jobs, left)
		}
		d.deliver(t, c.name)
	}
}

// TestFsckDamagedTwin: a cold job that cannot be read goes, with all that followed from it, if the job is there otherwise.
func TestFsckDamagedTwin(t *testing.T) {
	t.Parallel()
	d := newFsckDisk(t)
	d.damage(t, func(r rowsOf) {
		at := r.first('J')
		r.set(append([]byte{'j'}, at.key[1:]...), at.value)
		r.set(at.key, at.value[:3])
	})
	if _, left, faults := fsckOf(t, d.options(t), true); left > 0 || len(faults) != 3 {
		t.Errorf("%d are left of %q", left, faults)
	}
	d.deliver(t, "after the repair")
}

// TestFsckBeyondRepair: damages that cannot be repaired are named, and a repair leaves them as they are.
func TestFsckBeyondRepair(t *testing.T) {
	atLength(t)
	t.Parallel()
	whole := newFsckDisk(t)
	for _, c := range beyondRepair {
		d := &disk{fs: clone(whole.fs, 100), clock: newFakeClock(), segment: crashSegment, coldAfter: 1}
		d.damage(t, c.damage)
		before := contents(t, d.fs, "jobs", make(map[string]string))
		for _, repair := range []bool{false, true} {
			_, left, faults := fsckOf(t, d.options(t), repair)
			if c.expect(t, faults); left != len(faults) || left == 0 {
				t.Errorf("%s: %d of %d faults are left", c.name, left, len(faults))
			}
		}
		if !maps.Equal(before, contents(t, d.fs, "jobs", make(map[string]string))) {
			t.Errorf("%s: files have changed", c.name)
		}
	}
}

// TestFsckDamagedFiles: files that cannot be read are faults, and nothing is repaired then.
func TestFsckDamagedFiles(t *testing.T) {
	atLength(t)
	t.Parallel()
	whole := newFsckDisk(t)
	whole.damage(t, func(r rowsOf) {
		removal('x', false)(r)
		if err := errors.Join(r.db.Flush(), r.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false)); err != nil {
			t.Fatal(err)
		}
	})
	names, err := whole.fs.List("jobs")
	inTables, errTables := whole.fs.List("jobs/tables")
	if err := errors.Join(err, errTables); err != nil {
		t.Fatal(err)
	}
	for _, name := range inTables {
		names = append(names, "tables/"+name)
	}
	damages := map[string]func(t *testing.T, fs *memFS, name string){
		"flipped": func(t *testing.T, fs *memFS, name string) { flip(t, fs, name, 70) },
		"missing": func(t *testing.T, fs *memFS, name string) { fs.Remove(name) },
	}
	checked := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") && !strings.HasPrefix(name, "log.") && !strings.HasPrefix(name, "tables/MANIFEST") {
			continue
		}
		for what, damage := range damages {
			d := &disk{fs: clone(whole.fs, 100), clock: newFakeClock(), segment: crashSegment, coldAfter: 1}
			damage(t, d.fs, "jobs/"+name)
			before := contents(t, d.fs, "jobs", make(map[string]string))
			fsckOf(t, d.options(t), false)
			if !maps.Equal(before, contents(t, d.fs, "jobs", make(map[string]string))) {
				t.Errorf("%s is %s, and files have changed", name, what)
			}
			_, left, faults := fsckOf(t, d.options(t), true)
			if e, err := Open(d.options(t)); err == nil {
				e.Close()
				if !strings.HasSuffix(name, ".sst") {
					continue // it is an old file
				}
			}
			if checked++; left == 0 {
				t.Errorf("%s is %s, and these are all faults: %q", name, what, faults)
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d damages", checked)
	}
}

// TestFsckRefuses: directories that are in use, or none of a store.
func TestFsckRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refused := func(what, dir string, want error) {
		t.Helper()
		before, _ := os.ReadDir(dir)
		for _, repair := range []bool{false, true} {
			if _, _, err := Fsck(t.Context(), Options{Dir: dir}, repair, FsckReport{}); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%s: there are new files", what)
		}
	}
	refused("an empty directory", dir, ErrForeign)
	refused("a directory that does not exist", filepath.Join(dir, "none"), os.ErrNotExist)
	e := mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), segment: crashSegment})
	refused("a directory in use", filepath.Join(dir, "jobs"), ErrLocked)
	if _, err := e.Backup(t.Context(), filepath.Join(dir, "backup")); err != nil {
		t.Fatal(err)
	}
	refused("a backup", filepath.Join(dir, "backup"), ErrForeign)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, left, faults := fsckOf(t, Options{Dir: filepath.Join(dir, "jobs")}, false); left > 0 {
		t.Errorf("%q", faults)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Fsck(ctx, Options{Dir: filepath.Join(dir, "jobs")}, false, FsckReport{}); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is canceled: %v", err)
	}
}
