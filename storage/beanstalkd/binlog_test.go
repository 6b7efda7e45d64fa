package beanstalkd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"redstalk/tube"
)

// recordBytes encodes a record of a version. A name of "" makes it a short one.
func recordBytes(version int32, name string, f fields, body string) []byte {
	format, _ := formatOf(version)
	b := make([]byte, format.nameLength, 512)
	binary.LittleEndian.PutUint32(b, uint32(len(name)))
	b = append(b, name...)
	f.body = int32(len(body))
	s := f.encode(nil)
	if version == oldest {
		for _, at := range []int{delayAt, ttrAt, createdAt, deadlineAt} {
			binary.LittleEndian.PutUint64(s[at:], binary.LittleEndian.Uint64(s[at:])/1000)
		}
		s = s[:oldStructSize]
	}
	for _, pad := range []int{12, 36, 77} { // garbage
		if pad < len(s) {
			s[pad] = 0xa5
		}
	}
	b = append(append(b, s...), body...)
	if format.checked {
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// write writes a file of a binlog.
func write(t testing.TB, dir string, number int, version int32, records ...[]byte) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, uint32(version))
	b = append(b, bytes.Join(records, nil)...)
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("binlog.%d", number)), b, 0o400); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir string) (*Binlog, []Job) {
	t.Helper()
	l, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var jobs []Job
	if err := l.Each(0, func(j Job) error { jobs = append(jobs, j); return nil }); err != nil {
		t.Fatal(err)
	}
	return l, jobs
}

// describe returns a short description of jobs.
func describe(jobs []Job) string {
	var s []string
	for _, j := range jobs {
		s = append(s, fmt.Sprintf("%d:%s:%v:%d:%s", j.ID, j.Tube, j.State, j.Pri, j.Body))
	}
	return strings.Join(s, " ")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	job := func(id uint64, state uint8, pri uint32) fields {
		return fields{id: id, state: state, pri: pri, ttr: 1}
	}
	for _, version := range []int32{5, 7, 8} {
		dir := t.TempDir()
		put := func(name string, f fields, body string) []byte { return recordBytes(version, name, f, body+"\r\n") }
		short := func(f fields) []byte { return recordBytes(version, "", f, "") }
		write(t, dir, 2, version,
			short(job(9, buried, 1)), // its first record was in a file that is gone
			put("a", job(4, ready, 4), "four"),
			put("b", job(2, ready, 2), ""),
			put("a", job(7, reserved, 7), "seven"),
			put("a", job(8, ready, 8), "eight"),
			short(job(2, buried, 22)),
			put("other", job(4, delayed, 44), "4444"), // a copy: the tube stays
			short(job(8, deleted, 0)),
			make([]byte, 100))
		write(t, dir, 11, version, // after 2, and with a gap
			put("c", job(3, ready, 3), "three"),
			short(job(11, ready, 1)),
			short(job(3, deleted, 0)),
			put("c", job(3, ready, 33), "again"))
		l, jobs := read(t, dir)
		const want = "4:a:delayed:44:4444 2:b:buried:22: 7:a:ready:7:seven 3:c:ready:33:again"
		if got := describe(jobs); got != want || l.LastID != 11 || len(l.Damage) > 0 || l.Files != 2 || l.Len() != 4 || l.Bytes() != 14 {
			t.Errorf("version %d: %s, want %s; %+v", version, got, want, l)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	f := fields{
		id: 1 << 52, pri: 1<<32 - 1, delay: 1<<32 - 1, ttr: 77, created: 1_700_000_000_123_456_000, due: 1_800_000_000_123_456_000,
		counters: tube.Counters{1, 2, 3, 4, 1<<32 - 1}, state: delayed,
	}
	want := Job{
		ID: f.id, Tube: "t", State: tube.Delayed, Pri: f.pri, Delay: f.delay, TTR: f.ttr, Created: tube.Instant(f.created),
		Due: tube.Instant(f.due), Counters: f.counters, Body: []byte("\r\n"), Size: 2,
	}
	for _, version := range []int32{5, 7, 8} {
		dir := t.TempDir()
		write(t, dir, 1, version, recordBytes(version, "t", f, "\r\n\r\n"))
		if _, jobs := read(t, dir); len(jobs) != 1 || !reflect.DeepEqual(jobs[0], want) {
			t.Errorf("version %d: %+v", version, jobs)
		}
		far := f
		far.due = math.MaxInt64
		write(t, dir, 1, version, recordBytes(version, "t", far, "\r\n\r\n"))
		if _, jobs := read(t, dir); len(jobs) != 1 || jobs[0].Due > tube.Latest || jobs[0].Due < tube.Latest-tube.Instant(time.Millisecond) {
			t.Errorf("version %d, due after the latest time: %+v", version, jobs)
		}
	}
}

// TestDamage checks that an unreadable record ends its file, is reported with its offset, and costs no other file.
func TestDamage(t *testing.T) {
	t.Parallel()
	good := recordBytes(7, "t", fields{id: 1, state: ready, ttr: 1}, "one\r\n")
	behind := recordBytes(7, "t", fields{id: 3, state: ready, ttr: 1}, "three\r\n")
	bad := func(change func(b []byte) []byte) []byte {
		return change(recordBytes(7, "t", fields{id: 2, state: ready, ttr: 1}, "two\r\n"))
	}
	const start = 4 + 1 // of the struct
	for what, b := range map[string][]byte{
		"name is -1":        bad(func(b []byte) []byte { binary.LittleEndian.PutUint32(b, 1<<32-1); return b }),
		"name is 201":       bad(func(b []byte) []byte { binary.LittleEndian.PutUint32(b, 201); return b }),
		"unknown state 5":   bad(func(b []byte) []byte { b[start+stateAt] = 5; return b }),
		"largest valid id":  bad(func(b []byte) []byte { b[start+7] = 1; return b }),
		"1 bytes with":      bad(func(b []byte) []byte { b[start+bodyAt] = 1; return b }),
		"-1 bytes with":     bad(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[start+bodyAt:], 1<<32-1); return b }),
		"should have 200":   bad(func(b []byte) []byte { b[start+bodyAt] = 200; return b }),
		"end in CR LF":      bad(func(b []byte) []byte { b[len(b)-1] = 'x'; return b }),
		"invalid tube name": bad(func(b []byte) []byte { b[4] = ' '; return b }),
		"record of job 0":   bad(func(b []byte) []byte { clear(b); return b }), // a hole: unlike zeros at the end
		"middle of a reco":  bad(func(b []byte) []byte { return b[:40] }),
		"of a record; 3 b":  bad(func(b []byte) []byte { return b[:3] }),
	} {
		dir := t.TempDir()
		records := [][]byte{good, b, behind}
		if strings.Contains(what, "of a reco") {
			records = records[:2]
		}
		write(t, dir, 1, 7, records...)
		write(t, dir, 2, 7, recordBytes(7, "t", fields{id: 4, state: ready, ttr: 1}, "four\r\n"))
		l, jobs := read(t, dir)
		if got := describe(jobs); got != "1:t:ready:0:one 4:t:ready:0:four" {
			t.Errorf("%s: %s", what, got)
		}
		if len(l.Damage) != 1 || l.Damage[0].Offset != int64(4+len(good)) || !strings.Contains(l.Damage[0].String(), what) ||
			!strings.HasPrefix(l.Damage[0].String(), filepath.Join(dir, "binlog.1")+", byte ") {
			t.Errorf("%s: %v", what, l.Damage)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := recordBytes(8, "t", fields{id: 1, state: ready, ttr: 1}, "one\r\n")
	b[len(b)-7] ^= 1 // in the body
	write(t, dir, 1, 8, b)
	if l, jobs := read(t, dir); len(jobs) > 0 || len(l.Damage) != 1 || !strings.Contains(l.Damage[0].What, "checksum") {
		t.Errorf("%v, %v", describe(jobs), l.Damage)
	}
}

// TestUnwrittenEnds checks that zeros that a killed beanstalkd leaves at the end of a file are no damage.
func TestUnwrittenEnds(t *testing.T) {
	t.Parallel()
	good := recordBytes(7, "t", fields{id: 1, state: ready, ttr: 1}, "one\r\n")
	for _, zeros := range []int{0, 1, 3, 4, 40, 83, 84, 85, 5000} {
		dir := t.TempDir()
		write(t, dir, 1, 7, good, make([]byte, zeros))
		write(t, dir, 2, 0, make([]byte, zeros))
		if l, jobs := read(t, dir); len(jobs) != 1 || len(l.Damage) > 0 {
			t.Errorf("%d zeros: %v, %v", zeros, describe(jobs), l.Damage)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Open(dir, nil); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	write(t, dir, 1, 6, make([]byte, 100))
	if _, err := Open(dir, nil); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "binlog.1") {
		t.Error(err)
	}
	zeros := t.TempDir()
	write(t, zeros, 1, 0, []byte("\x00\x00and more"))
	if _, err := Open(zeros, nil); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if has, err := HasBinlog(filepath.Join(dir, "nowhere")); has || err != nil {
		t.Error(has, err)
	}
}

// TestLock checks that a directory that a beanstalkd uses is refused, and that no beanstalkd can start while
// a Binlog is open.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	judge, c := beanstalkd(t, dir)
	ask(t, c, "put 0 0 1 1\r\nx")
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("the directory of a running beanstalkd: %v", err)
	}
	judge.Kill()
	l, jobs := read(t, dir)
	if len(jobs) != 1 {
		t.Errorf("%v", jobs)
	}
	late := exec.Command("beanstalkd", "-l", "unix:"+filepath.Join(t.TempDir(), "s"), "-b", dir)
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(timeout, func() { late.Process.Kill() })
	defer watchdog.Stop()
	if err := late.Wait(); err == nil || late.ProcessState.ExitCode() != 10 {
		t.Errorf("a beanstalkd can start while the binlog is open: %v", err)
	}
	l.Close()
}

// seqOf returns jobs as an iterator for Write.
func seqOf(jobs []Job) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}
}

// TestWrite checks that this package and the real beanstalkd read what Write has written, over several files.
func TestWrite(t *testing.T) {
	t.Parallel()
	var jobs []Job
	now := tube.Instant(1_790_000_000_000_000_000)
	for i := range uint64(600) {
		j := Job{
			ID: 1000 - i, Tube: fmt.Sprint("t", i%3), Pri: uint32(i), TTR: 60, Created: now, Size: int(i%7) * 10_000,
			State: []tube.State{tube.Ready, tube.Buried, tube.Delayed}[i%3], Counters: tube.Counters{1, 2, 3, 4, 5},
		}
		if j.State == tube.Delayed {
			j.Delay, j.Due = 1_000_000_000, now+1_000_000_000_000_000_000
		}
		j.Body = bytes.Repeat([]byte{'x'}, j.Size)
		jobs = append(jobs, j)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if n, err := Write(dir, seqOf(jobs), 1234); n != len(jobs) || err != nil {
		t.Fatal(n, err)
	}
	l := compare(t, dir)
	var got []Job
	l.Each(0, func(j Job) error { got = append(got, j); return nil })
	if !reflect.DeepEqual(got, jobs) || l.LastID != 1234 || l.Files < 2 {
		t.Errorf("%d jobs were read, in %d files, and the last id is %d", len(got), l.Files, l.LastID)
	}
	if _, err := Write(dir, seqOf(nil), 0); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	failing := filepath.Join(t.TempDir(), "failing")
	if _, err := Write(failing, seqOf([]Job{{ID: 1, Tube: "t"}, {ID: 2, Tube: "no name"}}), 0); err == nil {
		t.Error("an invalid tube name was written")
	}
	if has, _ := HasBinlog(failing); has {
		t.Error("a write that failed has left files")
	}
}

// TestLargestBody checks that a body of the largest size is read, though beanstalkd loses it with all after it.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	judge, c := beanstalkd(t, dir)
	ask(t, c, "put 0 0 1 65535\r\n%s", strings.Repeat("x", 65535))
	ask(t, c, "put 0 0 1 1\r\ny")
	judge.Kill()
	if _, jobs := read(t, dir); len(jobs) != 2 || jobs[0].Size != 65535 || string(jobs[1].Body) != "y" {
		t.Errorf("%d jobs were read", len(jobs))
	}
}

// TestTornID checks that the id of a job whose record is torn is not used again.
func TestTornID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	torn := recordBytes(7, "t", fields{id: 9, state: ready, ttr: 1}, "nine\r\n")
	write(t, dir, 1, 7, recordBytes(7, "t", fields{id: 1, state: ready, ttr: 1}, "one\r\n"), torn[:len(torn)-3])
	if l, jobs := read(t, dir); l.LastID != 9 || len(jobs) != 1 || len(l.Damage) != 1 {
		t.Errorf("the last id is %d; %v, %v", l.LastID, describe(jobs), l.Damage)
	}
}

// TestReusedIDs checks the case that beanstalkd has lost jobs because it could not read a file to its end, and has
// used their ids again. Both jobs must be read: the later one unchanged, in its tube, the lost one with a new id.
func TestReusedIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	judge, c := beanstalkd(t, dir)
	ask(t, c, "use old")
	ask(t, c, "put 1 0 1 4\r\nkept")
	ask(t, c, "put 1 0 1 65535\r\n%s", strings.Repeat("x", 65535)) // beanstalkd cannot read it again
	ask(t, c, "put 1 0 1 4\r\nlost")
	ask(t, c, "put 1 0 1 4\r\nlast")
	judge.Kill()
	judge, c = beanstalkd(t, dir)
	ask(t, c, "use new")
	if line := ask(t, c, "put 2 0 1 3\r\ntwo"); line != "INSERTED 2" {
		t.Fatal(line)
	}
	ask(t, c, "put 3 0 1 5\r\nthree")
	ask(t, c, "reserve-job 2")
	ask(t, c, "bury 2 22")
	judge.Kill()
	l, jobs := read(t, dir)
	if len(jobs) > 1 && jobs[1].Size == 65535 {
		jobs[1].Body = jobs[1].Body[:1]
	}
	const want = "1:old:ready:1:kept 5:old:ready:1:x 6:old:ready:1:lost 4:old:ready:1:last 2:new:buried:22:two 3:new:ready:3:three"
	if got := describe(jobs); got != want || l.LastID != 6 {
		t.Errorf("%s, want %s; the last id is %d", got, want, l.LastID)
	}
	if len(l.Damage) != 2 || !strings.HasPrefix(l.Damage[0].String(), filepath.Join(dir, "binlog.2")+", byte 4: the id 2 was used again") {
		t.Errorf("%v", l.Damage)
	}
}

func FuzzScan(f *testing.F) {
	full := fields{id: 1, state: ready, ttr: 1}
	for _, version := range []int32{5, 7, 8} {
		f.Add(version, append(recordBytes(version, "t", full, "one\r\n"), recordBytes(version, "", fields{id: 1, state: buried}, "")...))
		f.Add(version, recordBytes(version, strings.Repeat("n", 200), full, "\r\n")[:90])
	}
	f.Fuzz(func(t *testing.T, version int32, b []byte) {
		b = append(binary.LittleEndian.AppendUint32(nil, uint32(version)), b...)
		l := &Binlog{files: []string{"fuzz"}, alive: make(map[uint64]int), names: make(map[string]string)}
		damage, err := scan(bytes.NewReader(b), int64(len(b)), func(e *entry) { l.apply(0, e) })
		if err != nil && !errors.Is(err, ErrVersion) || damage != nil && (damage.Offset < headSize || damage.Offset+damage.Lost != int64(len(b))) {
			t.Errorf("%v, %v", damage, err)
		}
		l.finish()
		for _, k := range l.jobs {
			end := k.at + int64(k.body)
			if k.id == 0 || k.id > l.LastID || !validName([]byte(k.tube)) || k.body < crlf || k.at < headSize || end > int64(len(b)) || string(b[end-crlf:end]) != "\r\n" {
				t.Errorf("an invalid job: %+v", k)
			}
		}
	})
}
