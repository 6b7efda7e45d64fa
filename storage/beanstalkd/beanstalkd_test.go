package beanstalkd

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tools/conformance/child"
	"redstalk/tube"
)

// These tests compare this package with the real beanstalkd: both must read the same.

const timeout = time.Minute

// beanstalkd starts the real beanstalkd on a directory, and connects to it.
func beanstalkd(t *testing.T, dir string, args ...string) (*child.Process, *client.Conn) {
	t.Helper()
	p, addr := child.Beanstalkd(t, append(args, "-b", dir)...)
	conn, err := client.Dial(addr, timeout)
	if err != nil {
		t.Fatal(err)
	}
	conn.Timeout = timeout
	t.Cleanup(func() { conn.Close() })
	return p, conn
}

// ask sends a command, with a body if it is a put, and returns the first line of the reply.
func ask(t testing.TB, c *client.Conn, format string, args ...any) string {
	t.Helper()
	line := ""
	err := c.Ask(fmt.Appendf(nil, format+"\r\n", args...), 1, func(r *client.Reply) error {
		line = string(r.Line)
		return nil
	})
	if err != nil {
		t.Fatalf(format+": %v", append(args, err)...)
	}
	return line
}

// load sends random commands to a few tubes. last is the id of the last job before; load returns the id of
// the last job after.
func load(t *testing.T, c *client.Conn, random *rand.Rand, commands, last int) int {
	for range commands {
		id, pri := 1, random.IntN(3)*1000
		if last > 0 {
			id = last - min(random.IntN(60), last-1)
		}
		delay := max(random.IntN(2000)-1000, 0)
		if delay > 0 {
			delay += 5000
		}
		switch n := random.IntN(100); {
		case n < 35 || last == 0:
			ask(t, c, "use tube%d", random.IntN(4))
			body := bytes.Repeat([]byte{byte(random.IntN(256))}, []int{0, 5, 200, 3000, 65535}[random.IntN(5)*random.IntN(2)])
			line := ask(t, c, "put %d %d %d %d\r\n%s", pri, delay, 1+random.IntN(100), len(body), body)
			last, _ = strconv.Atoi(strings.TrimPrefix(line, "INSERTED "))
		case n < 50:
			ask(t, c, "delete %d", id)
		case n < 65:
			ask(t, c, "reserve-job %d", id)
			ask(t, c, "release %d %d %d", id, pri, delay)
		case n < 85:
			ask(t, c, "reserve-job %d", id)
			ask(t, c, "bury %d %d", id, pri)
		case n < 90:
			ask(t, c, "kick-job %d", id)
		default:
			ask(t, c, "reserve-job %d", id) // it stays reserved
		}
	}
	return last
}

// killUnderLoad kills a beanstalkd at a random moment while it processes many commands. last is as for load;
// it returns an id that is at least as large as all ids used.
func killUnderLoad(judge *child.Process, c *client.Conn, random *rand.Rand, last int) int {
	var out []byte
	const puts = 300
	for i := range puts {
		size := random.IntN(2000)
		out = fmt.Appendf(out, "put %d %d 60 %d\r\n%s\r\n", i, random.IntN(2)*5000, size, bytes.Repeat([]byte{'k'}, size))
		out = fmt.Appendf(out, "delete %d\r\nkick-job %d\r\n", 1+random.IntN(last+i+1), 1+random.IntN(last+i+1))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Ask(out, 3*puts, func(*client.Reply) error { return nil })
	}()
	time.Sleep(time.Duration(random.IntN(6000)) * time.Microsecond)
	judge.Kill()
	<-done
	return last + puts
}

var seeds = flag.Uint64("binlog-seeds", 3, "how many directories beanstalkd writes in TestAsBeanstalkdReads")

// TestAsBeanstalkdReads lets a beanstalkd write a directory under load, in one run or more, each ended by
// SIGKILL. Then its last file, or any file, is truncated, or one is removed. beanstalkd and this package must
// read the same jobs. A flipped bit must not cost more than what follows it in its file.
func TestAsBeanstalkdReads(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= *seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 23))
			dir := t.TempDir()
			args := []string{"-z", "100000", "-s", []string{"20000", "200000", "2000000"}[random.IntN(3)]}
			args = append(args, [][]string{{"-f0"}, {"-F"}, {"-f50"}}[random.IntN(3)]...)
			last, lives := 0, 1+random.IntN(3)
			for range lives {
				judge, c := beanstalkd(t, dir, args...)
				last = load(t, c, random, 1200/lives, last)
				last = killUnderLoad(judge, c, random, last)
				l, _ := read(t, dir)
				l.Close() // which unlocks the directory for the next life
				if incomparable(l) {
					break
				}
			}
			damageFiles(t, dir, random)
			compare(t, dir)
			_, whole := read(t, dir)
			for range 10 {
				flipBit(t, dir, whole, random)
			}
		})
	}
}

// damageFiles truncates a file of a binlog, or removes one, or changes nothing.
func damageFiles(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	paths, _ := list(dir)
	which, how := len(paths)-1, random.IntN(4)
	if how > 1 {
		which = random.IntN(len(paths))
	}
	b, err := os.ReadFile(paths[which])
	switch written := len(bytes.TrimRight(b, "\x00")); {
	case err != nil:
		t.Fatal(err)
	case how == 1 || how == 2:
		os.Chmod(paths[which], 0o600)
		err = os.Truncate(paths[which], int64(random.IntN(written+100)))
	case how == 3 && len(paths) > 2:
		err = os.Remove(paths[which])
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, damage %d: %s", len(paths), how, paths[which])
}

// flipBit flips a bit of a binlog that has the jobs whole, and flips it back. All jobs must be read that have
// no record after the bit in its file, except one, whose id a damaged record can have got.
func flipBit(t *testing.T, dir string, whole []Job, random *rand.Rand) {
	t.Helper()
	paths, _ := list(dir)
	path := paths[random.IntN(len(paths))]
	b, err := os.ReadFile(path)
	written := len(bytes.TrimRight(b, "\x00"))
	if err != nil || written <= headSize {
		return
	}
	at := headSize + random.IntN(written-headSize)
	behind := make(map[uint64]bool) // ids with records that perhaps cannot be read
	before := int64(0)
	var ids []uint64
	var from []int64
	scan(bytes.NewReader(b), int64(len(b)), func(e *entry) { ids, from = append(ids, e.id), append(from, e.from) })
	for _, f := range from {
		if f <= int64(at) {
			before = f
		}
	}
	for i, f := range from {
		behind[ids[i]] = behind[ids[i]] || f >= before
	}
	bit := byte(1) << random.IntN(8)
	setByte(t, path, int64(at), b[at]^bit)
	defer setByte(t, path, int64(at), b[at])
	l, jobs := read(t, dir)
	have := make(map[uint64]Job)
	for _, j := range jobs {
		have[j.ID] = j
	}
	wrong := 0
	for _, j := range whole {
		if !behind[j.ID] && !reflect.DeepEqual(j, have[j.ID]) {
			wrong++
		}
	}
	if wrong > 1 {
		t.Errorf("a bit of byte %d of %s costs %d jobs that have no record after it; damage: %v", at, path, wrong, l.Damage)
	}
}

// compare lets beanstalkd and this package read a directory, and compares the results. beanstalkd works on
// a copy.
func compare(t *testing.T, dir string) *Binlog {
	t.Helper()
	theirs := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(theirs, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if incomparable(l) {
		t.Logf("not compared: beanstalkd was killed while it wrote a body, and replies with whatever it finds there: %v", l.Damage)
		return l
	}
	_, c := beanstalkd(t, theirs, "-z", "10000000")
	ours := make(map[uint64]Job)
	if err := l.Each(0, func(j Job) error { ours[j.ID] = j; return nil }); err != nil {
		t.Fatal(err)
	}
	for id := uint64(1); id <= l.LastID+3; id++ {
		compareJob(t, c, id, ours)
	}
	if len(ours) == 0 || l.Len() != len(ours) {
		t.Errorf("%d jobs, %d of them different", l.Len(), len(ours))
	}
	compareBuried(t, c, l)
	line := ask(t, c, "put 0 0 1 0\r\n")
	if next, _ := strconv.ParseUint(strings.TrimPrefix(line, "INSERTED "), 10, 64); next > l.LastID+1 {
		t.Errorf("the next id of beanstalkd is %d, and the last id that was read is %d", next, l.LastID)
	}
	t.Logf("%d jobs in %d files, %d records, damage: %v", l.Len(), l.Files, l.Records, l.Damage)
	return l
}

// incomparable reports that beanstalkd left a body without its end in a directory. The end of its replies
// cannot be found then.
func incomparable(l *Binlog) bool {
	return slices.ContainsFunc(l.Damage, func(d Damage) bool { return strings.HasSuffix(d.What, endsInCRLF) })
}

// compareJob compares what both know of a job.
func compareJob(t *testing.T, c *client.Conn, id uint64, ours map[uint64]Job) {
	t.Helper()
	j, known := ours[id]
	page, err := c.Page(fmt.Sprint("stats-job ", id))
	if err != nil || !known {
		if known != (err == nil) {
			t.Errorf("job %d: we have it: %v; beanstalkd: %v %s", id, known, err, page)
		}
		return
	}
	want := fmt.Sprintf("%s %v %d %d", j.Tube, j.State, j.Pri, j.TTR)
	got := make([]string, 0, 4)
	number := make(map[string]uint64)
	for _, key := range []string{"tube", "state", "pri", "ttr", "reserves", "timeouts", "releases", "buries", "kicks", "age", "time-left"} {
		value, _ := page.Value(key)
		number[key], _ = strconv.ParseUint(value, 10, 64)
		if len(got) < 4 {
			got = append(got, value)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("job %d is %s, beanstalkd says %s", id, want, strings.Join(got, " "))
	}
	if j.State == tube.Buried {
		j.Counters[tube.Buries]++ // beanstalkd counts the burial again when it reads
	}
	for k, n := range j.Counters {
		if key := tube.Counter(k).String(); number[key] != uint64(n) {
			t.Errorf("job %d has %d %s, beanstalkd says %d", id, n, key, number[key])
		}
	}
	now := tube.Instant(time.Now().UnixNano())
	if j.State == tube.Delayed {
		wantNear(t, "time-left", j.Due.Until(now), number["time-left"])
	}
	wantNear(t, "age", j.Created.Until(now)*-1, number["age"])
	body := ""
	c.Ask(fmt.Appendf(nil, "peek %d\r\n", id), 1, func(r *client.Reply) error { body = string(r.Body); return nil })
	if body != string(j.Body) || len(body) != j.Size {
		t.Errorf("job %d has a body of %d bytes, beanstalkd one of %d", id, len(j.Body), len(body))
	}
}

// wantNear compares a time with one in seconds that beanstalkd on a busy machine has reported.
func wantNear(t *testing.T, what string, d time.Duration, seconds uint64) {
	t.Helper()
	if off := d - time.Duration(seconds)*time.Second; off.Abs() > timeout {
		t.Errorf("%s is %v, beanstalkd says %d s", what, d, seconds)
	}
}

// compareBuried compares the order in which jobs were buried. It deletes them in beanstalkd.
func compareBuried(t *testing.T, c *client.Conn, l *Binlog) {
	t.Helper()
	ours := make(map[string][]uint64)
	l.Headers(func(j Job) error {
		if j.State == tube.Buried {
			ours[j.Tube] = append(ours[j.Tube], j.ID)
		}
		return nil
	})
	for name, want := range ours {
		ask(t, c, "use %s", name)
		var got []uint64
		for {
			id := uint64(0)
			c.Ask([]byte("peek-buried\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
			if id == 0 {
				break
			}
			got = append(got, id)
			ask(t, c, "delete %d", id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("buried in %s: %v, beanstalkd says %v", name, want, got)
		}
	}
}

// setByte changes a byte of a file.
func setByte(t *testing.T, path string, at int64, to byte) {
	t.Helper()
	os.Chmod(path, 0o600)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{to}, at); err != nil {
		t.Fatal(err)
	}
}
