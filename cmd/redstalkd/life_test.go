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

// life leads a job through all that can happen to it, with a client that
// others wrote, on the binary with these arguments.
func life(t *testing.T, args ...string) {
	p, addr := serve(t, append([]string{"-p0"}, args...)...)
	c, err := beanstalk.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tube, tubes := beanstalk.NewTube(c, "life"), beanstalk.NewTubeSet(c, "life", "default")

	id := must(tube.Put([]byte("birth\r\nand death"), 7, 0, time.Minute))(t)
	reserve := func() {
		t.Helper()
		got, body, err := tubes.Reserve(5 * time.Second)
		if got != id || string(body) != "birth\r\nand death" || err != nil {
			t.Fatal(got, string(body), err)
		}
	}
	state := func(want string) {
		t.Helper()
		if s := must(c.StatsJob(id))(t); s["state"] != want || s["tube"] != "life" {
			t.Fatalf("%v, want %s", s, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	state("ready")
	reserve()
	state("reserved")
	do(c.Touch(id))
	do(c.Release(id, 8, 0))
	state("ready")
	reserve()
	do(c.Release(id, 8, time.Hour))
	state("delayed")
	do(c.KickJob(id))
	reserve()
	do(c.Bury(id, 9))
	state("buried")
	if got, _, err := tube.PeekBuried(); got != id || err != nil {
		t.Fatal(got, err)
	}
	if n := must(tube.Kick(5))(t); n != 1 {
		t.Fatal(n)
	}
	if body := must(c.Peek(id))(t); string(body) != "birth\r\nand death" {
		t.Fatal(string(body))
	}
	must(c.ReserveJob(id))(t)
	state("reserved")
	if s := must(c.StatsJob(id))(t); s["reserves"] != "4" || s["releases"] != "2" || s["buries"] != "1" || s["kicks"] != "2" {
		t.Fatal(s)
	}
	do(c.Delete(id))
	if _, err := c.StatsJob(id); !errors.Is(err, beanstalk.ErrNotFound) {
		t.Fatal(err)
	}
	if _, _, err := tubes.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		t.Fatal(err)
	}

	// A job that comes due while somebody waits for it.
	id = must(tube.Put([]byte("birth\r\nand death"), 7, time.Second, time.Minute))(t)
	state("delayed")
	reserve()
	do(c.Delete(id))

	if s := must(c.Stats())(t); strings.Trim(s["version"], `"`) != "1.13" || s["redstalk-version"] != Version {
		t.Fatal(s)
	}
	if _, err := tube.Put(make([]byte, defaultMaxJobSize+1), 7, 0, 0); !errors.Is(err, beanstalk.ErrJobTooBig) {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Fatalf("%d\n%s", code, p.stderr)
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
