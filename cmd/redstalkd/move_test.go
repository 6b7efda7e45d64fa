package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	raw "redstalk/protocol/client"
	"redstalk/tools/conformance/compile"
)

// How many jobs are moved, and how often the process that moves them is killed meanwhile.
var (
	moveJobs  = flag.Int("move-jobs", 900, "jobs that TestMoveKilled and TestBehindKilled move")
	moveKills = flag.Int("move-kills", 3, "how often the mover is killed")
)

// deliveredJobs records the jobs that workers have deleted, and those with an unknown outcome,
// because a server was killed before it answered.
type deliveredJobs struct {
	mu      sync.Mutex
	had     map[string]int
	unknown map[string]bool
}

func newCensus() *deliveredJobs {
	return &deliveredJobs{had: make(map[string]int), unknown: make(map[string]bool)}
}

func (n *deliveredJobs) note(body string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.unknown[body] = true
	} else {
		n.had[body]++
	}
}

// done is how many jobs workers are through with.
func (n *deliveredJobs) done() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.had)
}

// check compares with the jobs that there were.
func (n *deliveredJobs) check(t *testing.T, jobs int) {
	t.Helper()
	lost, twice := 0, 0
	for i := range jobs {
		body := jobBody(i)
		switch had := n.had[body]; {
		case had > 1:
			twice++
		case had == 0 && !n.unknown[body]:
			lost++
		}
	}
	t.Logf("%d jobs: %d were deleted, of %d it is not known", jobs, len(n.had), len(n.unknown))
	if lost > 0 || twice > 0 {
		t.Errorf("lost %d jobs, and %d were had twice", lost, twice)
	}
}

func jobBody(i int) string { return fmt.Sprintf("job %07d", i) }

// work deletes what it gets from a server, until quit is closed and nothing comes any more. The server
// may be killed and come again at the same address.
func (n *deliveredJobs) work(t *testing.T, addr string, slowly time.Duration, quit <-chan struct{}) {
	for began := time.Now(); time.Since(began) < 10*patience; {
		c, err := raw.Dial(addr, patience)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c.Timeout = patience
		ended := n.workOn(c, slowly, quit)
		c.Close()
		if ended {
			return
		}
	}
	t.Errorf("a worker at %s goes on", addr)
}

// workOn is work on a connection. It returns false if that is broken.
func (n *deliveredJobs) workOn(c *raw.Conn, slowly time.Duration, quit <-chan struct{}) (ended bool) {
	if c.Ask([]byte("watch tube0\r\nwatch tube1\r\n"), 2, raw.Expect(raw.Watching)) != nil {
		return false
	}
	for {
		id, body := uint64(0), ""
		err := c.Ask([]byte("reserve-with-timeout 1\r\n"), 1, func(r *raw.Reply) error { id, body = r.ID, string(r.Body); return nil })
		switch {
		case err != nil:
			return false
		case id == 0:
			select {
			case <-quit:
				return true
			default:
				continue
			}
		}
		err = c.Ask(raw.AppendDelete(nil, id), 1, raw.Expect(raw.Deleted))
		n.note(body, err)
		if err != nil {
			return false
		}
		time.Sleep(slowly)
	}
}

// fillOld puts jobs into an old server: most are ready, some delayed for a moment, and some buried.
func fillOld(t *testing.T, addr string, jobs int) {
	t.Helper()
	c := dialOld(t, addr)
	for i := range jobs {
		delay := 0
		if i%10 == 1 {
			delay = 2
		}
		body, id := jobBody(i), uint64(0)
		out := fmt.Appendf(nil, "use tube%d\r\nput %d %d 600 %d\r\n%s\r\n", i%2, i%5, delay, len(body), body)
		err := c.Ask(out, 2, func(r *raw.Reply) error { id = r.ID; return nil })
		if err == nil && i%10 == 2 {
			err = c.Ask(fmt.Appendf(nil, "reserve-job %d\r\nbury %d 0\r\n", id, id), 2, func(*raw.Reply) error { return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// kickAll kicks the tubes of a server, so that workers get what was buried.
func kickAll(t *testing.T, addr string) {
	t.Helper()
	c := dialOld(t, addr)
	for _, name := range []string{"tube0", "tube1"} {
		c.Ask(fmt.Appendf(nil, "use %s\r\nkick 1000000\r\n", name), 2, func(*raw.Reply) error { return nil })
	}
}

// jobsAt is how many jobs a server has in some states.
func jobsAt(t *testing.T, addr string, states ...string) (n int) {
	t.Helper()
	page, err := dialOld(t, addr).Page("stats")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		value, _ := page.Value("current-jobs-" + state)
		jobs, _ := strconv.Atoi(value)
		n += jobs
	}
	return n
}

// commandLine builds the program redstalk.
var commandLineProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "redstalk")
	return path, compile.Program(path, "../redstalk")
})

// TestMoveKilled: a move-from that is killed repeatedly, while workers use both servers, loses no
// job and duplicates none.
func TestMoveKilled(t *testing.T) {
	atLength(t)
	t.Parallel()
	mover, err := commandLineProgram()
	if err != nil {
		t.Fatal(err)
	}
	from := trueServer(t)
	_, to := serve(t, "-p0", "-b", filepath.Join(t.TempDir(), "new"))
	fillOld(t, from, *moveJobs)
	n, quit := newCensus(), make(chan struct{})
	var workers sync.WaitGroup
	workers.Go(func() { n.work(t, from, 5*time.Millisecond, quit) })
	workers.Go(func() { n.work(t, to, 0, quit) })
	workers.Go(func() { n.work(t, to, 0, quit) })
	move := func() *process {
		cmd := exec.Command(mover, "move-from", from, "--to", to, "--wait", "--rate", "0")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		return start(t, cmd)
	}
	for kill := range *moveKills {
		p := move()
		for began := time.Now(); n.done() < (kill+1)**moveJobs/(2**moveKills) && time.Since(began) < patience; {
			time.Sleep(time.Millisecond)
		}
		p.Cmd.Process.Kill()
		<-p.Ended
	}
	p := move()
	if code := p.codeWithin(t, 10*patience); code != 0 {
		t.Errorf("code %d: %s%s", code, p.stdout, p.stderr)
	}
	if left := jobsAt(t, from, "ready", "delayed", "buried"); left > 0 {
		t.Errorf("%d jobs are left there", left)
	}
	kickAll(t, to)
	close(quit)
	workers.Wait()
	n.check(t, *moveJobs)
	if left := jobsAt(t, to, "ready", "delayed", "buried", "reserved"); left > 0 {
		t.Errorf("%d jobs are left here", left)
	}
}

// TestUpstreamKilled: workers at a server with --upstream get the jobs of the old server, each
// once, though the new server is killed repeatedly.
func TestUpstreamKilled(t *testing.T) {
	atLength(t)
	t.Parallel()
	from := trueServer(t)
	fillOld(t, from, *moveJobs)
	dir, err := os.MkdirTemp("", "front") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := "unix:" + filepath.Join(dir, "s")
	front := func() *process {
		p, _ := serve(t, "-l", to, "-b", filepath.Join(dir, "jobs"), "--upstream", from, "--upstream-rate", strconv.Itoa(*moveJobs/3))
		return p
	}
	n, quit := newCensus(), make(chan struct{})
	p := front()
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() { n.work(t, to, 0, quit) })
	}
	for kill := range *moveKills {
		for began := time.Now(); n.done() < (kill+1)**moveJobs/(2**moveKills) && time.Since(began) < patience; {
			time.Sleep(time.Millisecond)
		}
		p.Cmd.Process.Kill()
		<-p.Ended
		p = front()
	}
	for began := time.Now(); jobsAt(t, from, "ready", "delayed", "buried", "reserved") > 0; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 10*patience {
			t.Fatal("the jobs of the old server do not come over")
		}
	}
	p.stderr.await(t, `(the old server has no jobs left)`)
	kickAll(t, to)
	close(quit)
	workers.Wait()
	n.check(t, *moveJobs)
	if left := jobsAt(t, to, "ready", "delayed", "buried"); left > 0 {
		t.Errorf("%d jobs are left", left)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 || strings.Contains(p.stderr.String(), "level=ERROR") {
		t.Errorf("code %d: %s", code, p.stderr)
	}
}

// TestUpstreamUnreachable: a server whose upstream is not running serves its own jobs, and starts to
// migrate those of the upstream when that runs.
func TestUpstreamUnreachable(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "front")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	from := "unix:" + filepath.Join(dir, "old")
	p, addr := serve(t, "-p0", "--upstream", from)
	c := dialOld(t, addr)
	if err := c.Ask([]byte("put 0 0 60 3\r\nown\r\n"), 1, raw.Expect(raw.Inserted)); err != nil {
		t.Fatal(err)
	}
	p.stderr.await(t, `(cannot be brought over now)`)
	old := start(t, exec.Command("beanstalkd", "-l", from))
	if old.Cmd.Process == nil {
		t.Skip("there is no beanstalkd")
	}
	p.stderr.await(t, `(bringing over the jobs)`)
	other := dialOld(t, from)
	if err := other.Ask([]byte("put 5 0 60 3\r\nold\r\n"), 1, raw.Expect(raw.Inserted)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"own", "old"} {
		body := ""
		c.Ask([]byte("reserve\r\n"), 1, func(r *raw.Reply) error { body = string(r.Body); return nil })
		if body != want {
			t.Errorf("reserved %q, want %q", body, want)
		}
	}
}

// TestUpstreamEndsClean: a server that was stopped, and started without --upstream, has no tube of the bookkeeping.
func TestUpstreamEndsClean(t *testing.T) {
	t.Parallel()
	_, from := serve(t, "-p0")
	dir := t.TempDir()
	p, _ := serve(t, "-p0", "-b", dir, "--upstream", from)
	p.stderr.await(t, `(the old server has no jobs left)`)
	p.end(t)
	_, addr := serve(t, "-p0", "-b", dir)
	if list := askPage(t, dialOld(t, addr), "list-tubes"); strings.TrimSpace(list) != "---\n- default" {
		t.Errorf("%q", list)
	}
}

// TestUpstreamTags: jobs of a redstalk behind this one come with their tags, in every state; a job whose
// key another one has here comes without it, which the log says.
func TestUpstreamTags(t *testing.T) {
	t.Parallel()
	_, from := serve(t, "-p0")
	old := dialOld(t, from)
	const tags = `retry:exp(1s,1h,5) jitter:20 max:7 dead:graves expire:2401h on-expire:park meta:a="x 1" reason:"was it" failed-at:1000`
	for _, command := range []string{
		"use ready", "put 5 0 60 1 key:k " + tags + "\r\nx", "use delayed", "put 5 9000 60 1 key:k " + tags + "\r\nx",
		"use buried", "put 5 0 60 1 key:k " + tags + "\r\nx", "reserve-job 3", "bury 3 5",
	} {
		askLine(t, old, command)
	}
	p, addr := serve(t, "-p0", "--upstream", from)
	now := dialOld(t, addr)
	askLine(t, now, "use taken")
	askLine(t, now, "put 1 0 60 1 key:k\r\ny")
	askLine(t, old, "use taken")
	askLine(t, old, "put 5 0 60 1 key:k\r\nx")
	p.stderr.await(t, `(have lost their key)`)
	for _, state := range []string{"ready", "delayed", "buried"} {
		found := askPage(t, now, fmt.Sprintf("list-jobs %s %s", state, state))
		_, rest, _ := strings.Cut(found, "{id: ")
		id, _, _ := strings.Cut(rest, ",")
		page := askPage(t, now, "stats-job "+id)
		for _, line := range []string{
			`key: "k"`, "retry: exp(1s,1h,5)", "jitter: 20", "max: 7", "dead: graves", "expires-ms: 86", "on-expire: park", `meta: {a: "x 1"}`, `reason: "was it"`, "failed-ms: 1000",
		} {
			if !strings.Contains(page, "\n"+line) {
				t.Errorf("the %s job has no %q:\n%s", state, line, page)
			}
		}
	}
}
