package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

func TestLife(t *testing.T) {
	onEngines(t, func(t *testing.T, store func() []string) { life(t, store()...) })
}

// life leads a job through all states and moves, with a third-party client, on the
// binary with these arguments.
func life(t *testing.T, args ...string) {
	p, addr := serve(t, append([]string{"-p0"}, args...)...)
	c, err := beanstalk.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j := &living{T: t, conn: c, tube: beanstalk.NewTube(c, "life"), tubes: beanstalk.NewTubeSet(c, "life", "default")}
	j.put(0)
	j.everyState()
	j.deleted()

	// A job that comes due while a client waits for it.
	j.put(time.Second)
	j.state("delayed")
	j.reserve()
	j.do(c.Delete(j.id))

	if s := must(c.Stats())(t); strings.Trim(s["version"], `"`) != "1.13" || s["redstalk-version"] != Version {
		t.Fatal(s)
	}
	if _, err := j.tube.Put(make([]byte, defaultMaxJobSize+1), 7, 0, 0); !errors.Is(err, beanstalk.ErrJobTooBig) {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Fatalf("%d\n%s", code, p.stderr)
	}
}

// living is a job and the connection that uses it.
type living struct {
	*testing.T
	conn  *beanstalk.Conn
	tube  *beanstalk.Tube
	tubes *beanstalk.TubeSet
	id    uint64
}

const livingBody = "birth\r\nand death"

func (j *living) put(delay time.Duration) {
	j.Helper()
	j.id = must(j.tube.Put([]byte(livingBody), 7, delay, time.Minute))(j.T)
}

func (j *living) reserve() {
	j.Helper()
	got, body, err := j.tubes.Reserve(5 * time.Second)
	if got != j.id || string(body) != livingBody || err != nil {
		j.Fatal(got, string(body), err)
	}
}

func (j *living) state(want string) {
	j.Helper()
	if s := must(j.conn.StatsJob(j.id))(j.T); s["state"] != want || s["tube"] != "life" {
		j.Fatalf("%v, want %s", s, want)
	}
}

func (j *living) do(err error) {
	j.Helper()
	if err != nil {
		j.Fatal(err)
	}
}

// everyState leads the job, which is ready, through all states and ends with a
// reservation.
func (j *living) everyState() {
	c := j.conn
	j.state("ready")
	j.reserve()
	j.state("reserved")
	j.do(c.Touch(j.id))
	j.do(c.Release(j.id, 8, 0))
	j.state("ready")
	j.reserve()
	j.do(c.Release(j.id, 8, time.Hour))
	j.state("delayed")
	j.do(c.KickJob(j.id))
	j.reserve()
	j.do(c.Bury(j.id, 9))
	j.state("buried")
	if got, _, err := j.tube.PeekBuried(); got != j.id || err != nil {
		j.Fatal(got, err)
	}
	if n := must(j.tube.Kick(5))(j.T); n != 1 {
		j.Fatal(n)
	}
	if body := must(c.Peek(j.id))(j.T); string(body) != livingBody {
		j.Fatal(string(body))
	}
	must(c.ReserveJob(j.id))(j.T)
	j.state("reserved")
	if s := must(c.StatsJob(j.id))(j.T); s["reserves"] != "4" || s["releases"] != "2" || s["buries"] != "1" || s["kicks"] != "2" {
		j.Fatal(s)
	}
}

// deleted deletes the job, and checks that it does not exist any more.
func (j *living) deleted() {
	j.do(j.conn.Delete(j.id))
	if _, err := j.conn.StatsJob(j.id); !errors.Is(err, beanstalk.ErrNotFound) {
		j.Fatal(err)
	}
	if _, _, err := j.tubes.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		j.Fatal(err)
	}
}

// must returns v if there is no error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestServerFlags(t *testing.T) {
	_, addr := serve(t, "-p0", "-z", "3", "--quote-stats")
	c := dial(t, addr)
	c.ask("put 0 0 9 3\r\nabc\r\n", "INSERTED 1")
	c.ask("put 0 0 9 4\r\nabcd\r\n", "JOB_TOO_BIG")
	if stats := c.page("stats"); !strings.Contains(stats, "\nmax-job-size: 3\n") || !strings.Contains(stats, "\nhostname: \"") {
		t.Error(stats)
	}

	_, addr = serve(t, "-p0", "-z", "0")
	c = dial(t, addr)
	c.ask("put 0 0 9 0\r\n\r\n", "INSERTED 1")
	c.ask("put 0 0 9 1\r\na\r\n", "JOB_TOO_BIG")
	if stats := c.page("stats"); !strings.Contains(stats, "\nmax-job-size: 0\n") {
		t.Error(stats)
	}
}
