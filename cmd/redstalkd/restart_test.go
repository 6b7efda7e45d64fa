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

// TestRestart leads jobs into every state and restarts the program
// then, in good order and by a kill. Everything is as before, except that reserved
// jobs are ready and time has passed.
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
	overdue = 3 * time.Second
	pending = 5 * time.Second
)

// lifetime is the life of a directory through several processes, and its expected
// contents.
type lifetime struct {
	*testing.T
	args []string
	*process
	conn  *beanstalk.Conn
	raw   *client
	begun time.Time // before the first put
	due   time.Time // when a delay is over
	ready time.Time // when all had been prepared

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
	l.process, l.raw = p, dial(l.T, addr)
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

// put puts a job whose body is its name, and records its expected page
// at the end.
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

// reserve reserves this job on a connection.
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
	l.put("work", "overdue", 70, overdue, ttr, "state=ready pri=70 delay=3")
	l.due = time.Now().Add(overdue)
	l.put("soon", "pending", 80, pending, ttr, "pri=80 delay=5")
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
	l.put("work", "held", 90, 0, ttr, "state=ready pri=90 reserves=0 timeouts=0 releases=0")
	l.put("work", "touched", 91, 0, ttr, "state=ready pri=91 reserves=0 timeouts=0 releases=0")
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
	l.ready = time.Now()
}

// expire lets a reservation end, while another connection waits for the
// job.
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
	for name, delay := range map[string]time.Duration{"delayed": time.Hour, "put off": 2 * time.Hour} {
		l.verifyTime("time-left", delay, func() (map[string]string, error) { return l.conn.StatsJob(l.id[name]) })
	}
	if _, err := l.conn.Peek(l.id["deleted"]); !errors.Is(err, beanstalk.ErrNotFound) {
		l.Errorf("the deleted job: %v", err)
	}
	if page := must(beanstalk.NewTube(l.conn, "still").Stats())(l.T); page["pause"] != "3600" {
		l.Errorf("the pause: %v", page)
	}
	l.verifyTime("pause-time-left", time.Hour, beanstalk.NewTube(l.conn, "still").Stats)
	l.verifyTube("work", "ready=8 delayed=2 buried=3 reserved=0")
}

// verifyTime checks on a page that the remaining time of something that began between begun and ready
// agrees with the passed time, and that the job's age, if it is a job,
// does too. Pages have whole seconds, rounded down.
func (l *lifetime) verifyTime(left string, of time.Duration, stats func() (map[string]string, error)) {
	l.Helper()
	least := time.Since(l.ready)
	page := must(stats())(l.T)
	most := time.Since(l.begun)
	if got := seconds(l.T, page, left); got > of-least || got <= of-most-time.Second {
		l.Errorf("%s of %v is %v, between %v and %v after it began", left, of, got, least, most)
	}
	if page["age"] == "" {
		return
	}
	if got := seconds(l.T, page, "age"); got > most || got <= least-time.Second {
		l.Errorf("age is %v, between %v and %v after the put", got, least, most)
	}
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

// finish takes the jobs out, and checks that their order and the next id are
// kept, too.
func (l *lifetime) finish() {
	l.Helper()
	work, all := beanstalk.NewTube(l.conn, "work"), beanstalk.NewTubeSet(l.conn, "work", "still", "soon")
	for _, name := range []string{"released", "kicked", "plain", "big", "empty", "overdue"} {
		l.takePending(all, name)
	}
	for _, name := range []string{"held", "touched"} {
		l.do(l.conn.Delete(l.reserve(l.conn, name)))
	}
	l.takePending(all, "pending")
	if took := time.Since(l.begun); took < pending {
		l.Errorf("the job with a delay of %v came after %v", pending, took)
	}
	for _, name := range []string{"buried a", "buried b", "buried c"} {
		if id, _, err := work.PeekBuried(); id != l.id[name] || err != nil {
			l.Errorf("job %d is the first buried one, want %s (%d): %v", id, name, l.id[name], err)
		}
		must(work.Kick(1))(l.T)
		l.takePending(all, name)
	}
	if id, _, err := all.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		l.Errorf("job %d: %v", id, err)
	}
	must(work.Kick(9))(l.T)
	l.takePending(all, "put off")
	l.takePending(all, "delayed")
	l.put("work", "new", 0, 0, time.Minute, "")
	l.takePending(all, "new")
}

func (l *lifetime) takePending(from *beanstalk.TubeSet, name string) {
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
