package binlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tube"
)

// The judge is the true beanstalkd: what it has written, it and this package read alike.

const patience = time.Minute

// beanstalkd starts the true one on a directory, and connects to it.
func beanstalkd(t *testing.T, dir string, args ...string) (*exec.Cmd, *client.Conn) {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("there is no beanstalkd")
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(path, append([]string{"-l", "unix:" + socket, "-b", dir}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		conn, err := client.Dial(socket, patience)
		if err == nil {
			conn.Patience = patience
			t.Cleanup(func() { conn.Close() })
			return cmd, conn
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

func end(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// say sends a command, with a body if it is a put, and returns the first line of the reply.
func say(t testing.TB, c *client.Conn, format string, args ...any) string {
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

// load plays commands at random, on a few tubes.
func load(t *testing.T, c *client.Conn, random *rand.Rand, commands int) {
	last := 0
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
			say(t, c, "use tube%d", random.IntN(4))
			body := bytes.Repeat([]byte{byte(random.IntN(256))}, []int{0, 5, 200, 3000, 65530}[random.IntN(5)*random.IntN(2)])
			line := say(t, c, "put %d %d %d %d\r\n%s", pri, delay, 1+random.IntN(100), len(body), body)
			last, _ = strconv.Atoi(strings.TrimPrefix(line, "INSERTED "))
		case n < 50:
			say(t, c, "delete %d", id)
		case n < 65:
			say(t, c, "reserve-job %d", id)
			say(t, c, "release %d %d %d", id, pri, delay)
		case n < 85:
			say(t, c, "reserve-job %d", id)
			say(t, c, "bury %d %d", id, pri)
		case n < 90:
			say(t, c, "kick-job %d", id)
		default:
			say(t, c, "reserve-job %d", id) // and it stays reserved
		}
	}
}

func TestAsBeanstalkdReads(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd, c := beanstalkd(t, dir, "-s", "200000", "-f", "0")
			load(t, c, rand.New(rand.NewPCG(seed, 23)), 1500)
			end(cmd)
			if seed == 3 {
				tear(t, dir)
			}
			compare(t, dir)
		})
	}
}

// tear cuts the last file off in the middle of its last record, or of the one before.
func tear(t *testing.T, dir string) {
	paths, _ := list(dir)
	last := paths[len(paths)-1]
	b, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	written := len(bytes.TrimRight(b, "\x00"))
	os.Chmod(last, 0o600)
	if err := os.Truncate(last, int64(written-20)); err != nil {
		t.Fatal(err)
	}
	os.Chmod(last, 0o400)
}

// compare has beanstalkd and this package read a directory, and compares what they have read. It
// lets beanstalkd change a copy.
func compare(t *testing.T, dir string) *Log {
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
	line := say(t, c, "put 0 0 1 0\r\n")
	if next, _ := strconv.ParseUint(strings.TrimPrefix(line, "INSERTED "), 10, 64); next > l.LastID+1 {
		t.Errorf("beanstalkd goes on with %d, and the last id that was read is %d", next, l.LastID)
	}
	t.Logf("%d jobs in %d files, %d records, damage: %v", l.Len(), l.Files, l.Records, l.Damage)
	return l
}

// compareJob compares what is known of a job.
func compareJob(t *testing.T, c *client.Conn, id uint64, ours map[uint64]Job) {
	t.Helper()
	j, have := ours[id]
	page, err := c.Page(fmt.Sprint("stats-job ", id))
	if err != nil || !have {
		if have != (err == nil) {
			t.Errorf("job %d: we have it: %v; beanstalkd: %v %s", id, have, err, page)
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

// wantNear compares a time with one in seconds, which beanstalkd has said on a busy machine.
func wantNear(t *testing.T, what string, d time.Duration, seconds uint64) {
	t.Helper()
	if off := d - time.Duration(seconds)*time.Second; off.Abs() > patience {
		t.Errorf("%s is %v, beanstalkd says %d s", what, d, seconds)
	}
}

// compareBuried compares the order in which jobs were buried. It deletes them at beanstalkd.
func compareBuried(t *testing.T, c *client.Conn, l *Log) {
	t.Helper()
	ours := make(map[string][]uint64)
	l.Headers(func(j Job) error {
		if j.State == tube.Buried {
			ours[j.Tube] = append(ours[j.Tube], j.ID)
		}
		return nil
	})
	for name, want := range ours {
		say(t, c, "use %s", name)
		var got []uint64
		for {
			id := uint64(0)
			c.Ask([]byte("peek-buried\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
			if id == 0 {
				break
			}
			got = append(got, id)
			say(t, c, "delete %d", id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("buried in %s: %v, beanstalkd says %v", name, want, got)
		}
	}
}
