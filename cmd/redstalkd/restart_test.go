package main

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

// TestRestart leads jobs into every state and restarts the program in the
// middle, in good order and by force: everything is as it was, but that what
// was reserved is ready, and time has gone on.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string][]syscall.Signal{
		"asked then killed": {syscall.SIGTERM, syscall.SIGKILL},
		"killed then asked": {syscall.SIGKILL, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLifetime(t)
			l.prepare()
			l.end(signals[0])
			<-time.After(time.Until(l.due)) // while nobody serves
			l.start()
			l.verify()
			l.end(signals[1])
			l.start()
			l.verify()
			l.finish()
		})
	}
}

// The delays of two jobs, from the beginning: one is over before the program
// is back, the other one comes due when it is.
const (
	overdue = 2 * time.Second
	pending = 6 * time.Second
)

// lifetime is the life of a directory through several processes, and what must
// be found in it.
type lifetime struct {
	*testing.T
	args []string
	*process
	conn  *beanstalk.Conn
	raw   *client
	begun time.Time // before the first put
	due   time.Time // when a delay is over
	back  time.Time // since when the present process serves

	last uint64            // the highest id
	id   map[string]uint64 // of the job with that name
	want map[string]string // its page
	big  []byte
}

func newLifetime(t *testing.T) *lifetime {
	l := &lifetime{
		T: t, args: []string{"-p0", "-b", t.TempDir()},
		id: make(map[string]uint64), want: make(map[string]string),
		big: bytes.Repeat([]byte("\r\n\x00\xff."), 12_000),
	}
	l.start()
	return l
}

func (l *lifetime) start() {
	l.Helper()
	p, addr := serve(l.T, l.args...)
	l.process, l.raw, l.back = p, dial(l.T, addr), time.Now()
	l.conn = must(beanstalk.Dial("tcp", addr))(l.T)
}

func (l *lifetime) end(sig syscall.Signal) {
	l.Helper()
	l.signal(l.T, sig)
	if code := l.code(l.T); sig == syscall.SIGTERM && code != 0 {
		l.Fatalf("%d\n%s", code, l.stderr)
	}
	l.conn.Close()
}

// put puts a job whose body is its name, and remembers what its page is to say
// in the end.
func (l *lifetime) put(tube, name string, pri uint32, delay, ttr time.Duration, want string) uint64 {
	l.Helper()
	body := []byte(name)
	switch name {
	case "big":
		body = l.big
	case "empty":
		body = []byte{}
	}
	id := must(beanstalk.NewTube(l.conn, tube).Put(body, pri, delay, ttr))(l.T)
	if id != l.last+1 {
		l.Fatalf("%s has id %d, want %d", name, id, l.last+1)
	}
	l.last, l.id[name], l.want[name] = id, id, want+" tube="+tube
	return id
}

func (l *lifetime) do(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// reserve takes this job on a connection.
func (l *lifetime) reserve(c *beanstalk.Conn, name string) uint64 {
	l.Helper()
	must(c.ReserveJob(l.id[name]))(l.T)
	return l.id[name]
}

// prepare leads jobs into all states, by all moves.
func (l *lifetime) prepare() {
	l.Helper()
	const ttr = time.Minute
	l.begun = time.Now()
	l.put("work", "overdue", 70, overdue, ttr, "state=ready pri=70 delay=2")
	l.due = time.Now().Add(overdue)
	l.put("work", "pending", 80, pending, ttr, "state=delayed pri=80 delay=6")
	l.put("short", "expired", 60, 0, time.Second, "state=ready pri=60 ttr=1 reserves=2 timeouts=1 releases=1")
	l.put("work", "plain", 50, 0, ttr, "state=ready pri=50 ttr=60 reserves=0 timeouts=0 releases=0 buries=0 kicks=0")
	l.put("work", "big", 51, 0, ttr, "state=ready pri=51")
	l.put("work", "empty", 52, 0, ttr, "state=ready pri=52")
	l.put("work", "delayed", 40, time.Hour, ttr, "state=delayed pri=40 delay=3600")
	l.put("work", "released", 100, 0, ttr, "state=ready pri=10 reserves=1 releases=1")
	l.put("work", "put off", 100, 0, ttr, "state=delayed pri=20 delay=7200 reserves=1 releases=1")
	l.put("work", "kicked", 30, 0, ttr, "state=ready pri=31 reserves=1 buries=1 kicks=1")
	for _, name := range []string{"buried b", "buried c", "buried a"} {
		l.put("work", name, 100, 0, ttr, "state=buried pri=7 reserves=1 buries=1 kicks=0")
	}
	l.put("work", "held", 90, 0, ttr, "state=ready pri=90 reserves=1 timeouts=0 releases=0")
	l.put("work", "touched", 91, 0, ttr, "state=ready pri=91 reserves=1 timeouts=0 releases=0")
	l.put("still", "paused", 1, 0, ttr, "state=ready pri=1")
	l.put("work", "deleted", 1, 0, ttr, "")

	l.expire()
	c, job := l.conn, l.reserve
	l.do(c.Release(job(c, "released"), 10, 0))
	l.do(c.Release(job(c, "put off"), 20, 2*time.Hour))
	l.do(c.Bury(job(c, "kicked"), 31))
	l.do(c.KickJob(l.id["kicked"]))
	for _, name := range []string{"buried a", "buried b", "buried c"} {
		l.do(c.Bury(job(c, name), 7))
	}
	job(c, "held")
	l.do(c.Touch(job(c, "touched")))
	l.do(c.Delete(job(c, "deleted")))
	delete(l.want, "deleted")
	l.do(beanstalk.NewTube(c, "still").Pause(time.Hour))
}

// expire lets a reservation run out, and has another connection wait for the
// job meanwhile.
func (l *lifetime) expire() {
	l.Helper()
	id := l.reserve(l.conn, "expired")
	l.raw.ask("watch short\r\nignore default\r\n", "WATCHING 2", "WATCHING 1")
	text := strconv.FormatUint(id, 10)
	l.raw.ask("reserve\r\n", "RESERVED "+text+" 7", "expired")
	l.raw.ask("release "+text+" 60 0\r\n", "RELEASED")
}

// verify compares everything that can be seen without changing it.
func (l *lifetime) verify() {
	l.Helper()
	for name, want := range l.want {
		l.verifyJob(name, want)
	}
	for _, name := range []string{"delayed", "put off", "pending"} {
		page := must(l.conn.StatsJob(l.id[name]))(l.T)
		delay, left := seconds(l.T, page, "delay"), seconds(l.T, page, "time-left")
		if since := time.Since(l.begun); left > delay || left < delay-since-time.Second {
			l.Errorf("%s: %v are left of %v after %v", name, left, delay, since)
		}
	}
	// By now it is more than a second old, and less than since the beginning;
	// the pages have whole seconds.
	page := must(l.conn.StatsJob(l.id["delayed"]))(l.T)
	if age := seconds(l.T, page, "age"); age < time.Second || age > time.Since(l.begun) ||
		seconds(l.T, page, "time-left") > time.Hour-time.Second {
		l.Errorf("time has not gone on: %v", page)
	}
	if _, err := l.conn.Peek(l.id["deleted"]); !errors.Is(err, beanstalk.ErrNotFound) {
		l.Errorf("the deleted job: %v", err)
	}
	page = must(beanstalk.NewTube(l.conn, "still").Stats())(l.T)
	if left := seconds(l.T, page, "pause-time-left"); page["pause"] != "3600" || left > time.Hour || left < time.Hour-time.Minute {
		l.Errorf("the pause: %v", page)
	}
	l.verifyTube("work", "ready=8 delayed=3 buried=3 reserved=0")
}

func (l *lifetime) verifyJob(name, want string) {
	l.Helper()
	body := must(l.conn.Peek(l.id[name]))(l.T)
	switch {
	case name == "big" && bytes.Equal(body, l.big), name == "empty" && len(body) == 0, name == string(body):
	default:
		l.Errorf("%s has the body %.40q", name, body)
	}
	page := must(l.conn.StatsJob(l.id[name]))(l.T)
	for _, pair := range strings.Fields(want) {
		if key, value, _ := strings.Cut(pair, "="); page[key] != value {
			l.Errorf("%s: %s is %s, want %s", name, key, page[key], value)
		}
	}
}

func (l *lifetime) verifyTube(name, want string) {
	l.Helper()
	page := must(beanstalk.NewTube(l.conn, name).Stats())(l.T)
	for _, pair := range strings.Fields(want) {
		if key, value, _ := strings.Cut(pair, "="); page["current-jobs-"+key] != value {
			l.Errorf("%s: %s are %s, want %s", name, page["current-jobs-"+key], key, value)
		}
	}
}

func seconds(t *testing.T, page map[string]string, key string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(page[key])
	if err != nil {
		t.Fatalf("%s: %v in %v", key, err, page)
	}
	return time.Duration(n) * time.Second
}

// finish takes the jobs out: their order has survived, too, and so has the
// next id.
func (l *lifetime) finish() {
	l.Helper()
	work, both := beanstalk.NewTube(l.conn, "work"), beanstalk.NewTubeSet(l.conn, "work", "still")
	for _, name := range []string{"released", "kicked", "plain", "big", "empty", "overdue"} {
		l.take(both, name)
	}
	for _, name := range []string{"held", "touched"} {
		l.do(l.conn.Delete(l.reserve(l.conn, name)))
	}
	l.take(both, "pending")
	if now := time.Now(); now.Before(l.begun.Add(pending)) || now.After(l.back.Add(pending)) {
		l.Errorf("the pending job came %v after the beginning and %v after the program was back", now.Sub(l.begun), now.Sub(l.back))
	}
	for _, name := range []string{"buried a", "buried b", "buried c"} {
		if id, _, err := work.PeekBuried(); id != l.id[name] || err != nil {
			l.Errorf("job %d is the first buried one, want %s (%d): %v", id, name, l.id[name], err)
		}
		must(work.Kick(1))(l.T)
		l.take(both, name)
	}
	if id, _, err := both.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		l.Errorf("job %d: %v", id, err)
	}
	must(work.Kick(9))(l.T)
	l.take(both, "put off")
	l.take(both, "delayed")
	l.put("work", "new", 0, 0, time.Minute, "")
	l.take(both, "new")
}

func (l *lifetime) take(from *beanstalk.TubeSet, name string) {
	l.Helper()
	id, _, err := from.Reserve(patience)
	if err != nil || id != l.id[name] {
		l.Fatalf("job %d comes, want %s (%d): %v", id, name, l.id[name], err)
	}
	l.do(l.conn.Delete(id))
}

// TestDirectoryInUse: the second process on a directory says so and ends; the
// first one does not notice.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, addr := serve(t, "-p0", "-b", dir)
	c := dial(t, addr)
	c.ask("put 0 0 60 1\r\na\r\n", "INSERTED 1")
	for _, args := range [][]string{{"-b", dir}, {"--store", "embedded:" + dir}} {
		code, out, text := run(t, command(append(args, "-p0")...))
		if code != 10 || out != "" || !strings.HasPrefix(text, "redstalkd: ") || strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, dir) || !strings.Contains(text, "another process") {
			t.Errorf("%q: %d, %q, %q", args, code, out, text)
		}
	}
	c.ask("put 0 0 60 1\r\nb\r\nreserve\r\n", "INSERTED 2", "RESERVED 1 1", "a")
}
