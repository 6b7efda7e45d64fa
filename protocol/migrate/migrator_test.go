package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/server"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
	"redstalk/tools/conformance/child"
)

const timeout = time.Minute

// beanstalkd starts the real beanstalkd, and returns its address.
func beanstalkd(t *testing.T, args ...string) string {
	t.Helper()
	_, addr := child.Beanstalkd(t, args...)
	return addr
}

// redstalk starts a server in this process, and returns its address.
func redstalk(t *testing.T, config queue.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := embedded.NewMemory()
	q := queue.New(store, config)
	s := server.New(q, server.Config{Log: slog.New(slog.DiscardHandler)})
	go s.Serve(l)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		s.Shutdown(ctx)
		q.Close(ctx)
		store.Close()
	})
	return l.Addr().String()
}

func dial(t testing.TB, addr string) *client.Conn {
	t.Helper()
	c, err := client.Dial(addr, timeout)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = timeout
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a command, and returns the first line of the reply.
func ask(t testing.TB, c *client.Conn, format string, args ...any) (line string) {
	t.Helper()
	err := c.Ask(fmt.Appendf(nil, format+"\r\n", args...), 1, func(r *client.Reply) error {
		line = string(r.Line)
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
	return line
}

// migrator creates a Migrator between two servers.
func migrator(t testing.TB, from, to string) *Migrator {
	t.Helper()
	target, err := NewRemote(dial(t, to))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(dial(t, from), from, target)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// move moves everything, with several Migrators.
func move(t testing.TB, from, to string, migrators int) (uint64, Left) {
	t.Helper()
	m := &Mover{Connect: func(context.Context) (*Migrator, error) { return migrator(t, from, to), nil }, Migrators: migrators}
	n, left, err := m.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n, left
}

// value returns a value of a page.
func value(t testing.TB, c *client.Conn, command, key string) string {
	t.Helper()
	page, err := c.Page(command)
	if err != nil {
		return ""
	}
	v, _ := page.Value(key)
	return strings.Trim(v, `"`)
}

// counts returns how many jobs a server has in each state.
func counts(t testing.TB, c *client.Conn) (s string) {
	t.Helper()
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		s += value(t, c, "stats", "current-jobs-"+state) + " "
	}
	return strings.TrimSpace(s)
}

// TestMove checks that all available jobs are moved unchanged, and that reserved jobs stay.
func TestMove(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	old, now := dial(t, from), dial(t, to)
	for i := range 60 {
		ask(t, old, "use tube%d", i%3)
		ask(t, old, "put %d %d 77 6\r\nbody%02d", i, i%2*100_000, i)
	}
	for id := 1; id <= 9; id += 2 {
		ask(t, old, "reserve-job %d", id)
		ask(t, old, "bury %d %d", id, id+1000)
	}
	ask(t, old, "pause-tube tube2 10000")
	ask(t, old, "reserve-job 11")
	ask(t, old, "use never")
	ask(t, old, "put 5 4294967295 77 5\r\nnever")
	if n, left := move(t, from, to, 4); n != 60 || left.Reserved != 1 {
		t.Errorf("moved %d jobs, and left %+v", n, left)
	}
	if got := counts(t, old); got != "0 1 0 0" {
		t.Errorf("old server: %s", got)
	}
	if got := counts(t, now); got != "24 0 31 5" {
		t.Errorf("new server: %s", got)
	}
	ask(t, now, "use tube0")
	for i, id := range []int{1, 7} {
		if got := ask(t, now, "peek-buried"); !strings.HasPrefix(got, "FOUND") {
			t.Fatal(got)
		}
		var job uint64
		var body string
		now.Ask([]byte("peek-buried\r\n"), 1, func(r *client.Reply) error { job, body = r.ID, string(r.Body); return nil })
		if want := fmt.Sprintf("body%02d", id-1); body != want || value(t, now, fmt.Sprint("stats-job ", job), "pri") != fmt.Sprint(id+1000) {
			t.Errorf("buried job %d is %s, want %s", i, body, want)
		}
		ask(t, now, "delete %d", job)
	}
	var id uint64
	now.Ask([]byte("peek-delayed\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
	left := value(t, now, fmt.Sprint("stats-job ", id), "time-left")
	if len(left) != 5 || left < "99000" || value(t, now, fmt.Sprint("stats-job ", id), "ttr") != "77" {
		t.Errorf("a delayed job is due in %s s", left)
	}
	ask(t, now, "use never")
	now.Ask([]byte("peek-delayed\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
	if left := value(t, now, fmt.Sprint("stats-job ", id), "time-left"); len(left) != 10 || left < "4294960000" {
		t.Errorf("a job with the longest delay is due in %s s", left)
	}
	if n, _ := move(t, from, to, 1); n != 0 {
		t.Errorf("a second move moves %d jobs", n)
	}
}

// errKilled ends a Migrator as if it had been killed.
var errKilled = errors.New("killed")

// killAt kills a Migrator after a step: its connections end, and it does nothing more.
func killAt(c *Migrator, at step) {
	c.onStep = func(s step) {
		if s == at {
			c.source.Close()
			c.target.(*Remote).Conn.Close()
			panic(errKilled)
		}
	}
}

// untilKilled runs a function until its Migrator is killed.
func untilKilled(t testing.TB, f func() error) {
	t.Helper()
	defer func() {
		if got := recover(); got != errKilled {
			t.Errorf("the migrator was not killed: %v", got)
		}
	}()
	t.Errorf("the migrator was not killed, and returned %v", f())
}

// worker deletes the jobs that it gets from a server, until there are none.
func worker(t testing.TB, c *client.Conn) (n int) {
	ask(t, c, "watch tube")
	for {
		line := ask(t, c, "reserve-with-timeout 0")
		if !strings.HasPrefix(line, "RESERVED") {
			return n
		}
		ask(t, c, "delete %s", strings.Fields(line)[1])
		n++
	}
}

// TestKilled checks that, whenever a Migrator is killed, and whether a worker takes jobs or somebody kicks
// the tube meanwhile, the next Migrator makes the job available exactly once, in its old state.
func TestKilled(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	for _, state := range []State{Ready, Delayed, Buried} {
		for _, at := range []step{noteWritten, marked, copyPlaced, deleted, revealed} {
			for _, meanwhile := range []string{"nothing", "worker", "kick"} {
				t.Run(fmt.Sprintf("%s, %s, %s", state, at, meanwhile), func(t *testing.T) { testKilled(t, from, to, state, at, meanwhile) })
			}
		}
	}
}

func testKilled(t *testing.T, from, to string, state State, at step, meanwhile string) {
	old, now := dial(t, from), dial(t, to)
	ask(t, old, "use tube")
	ask(t, now, "use tube")
	delay := 0
	if state == Delayed {
		delay = 5000
	}
	id := strings.Fields(ask(t, old, "put 5 %d 60 4\r\nbody", delay))[1]
	if state == Buried {
		ask(t, old, "reserve-job %s", id)
		ask(t, old, "bury %s 5", id)
	}
	c := migrator(t, from, to)
	killAt(c, at)
	untilKilled(t, func() (err error) {
		if state == Ready {
			_, err = c.Next(context.Background(), "tube")
		} else {
			_, err = c.Head(context.Background(), "tube", state)
		}
		return err
	})
	if meanwhile == "kick" {
		ask(t, old, "kick 10")
	}
	done := 0
	if meanwhile != "nothing" {
		done = worker(t, old)
	}
	move(t, from, to, 1)
	if got := counts(t, old); got != "0 0 0 0" {
		t.Errorf("the old server has jobs: %s", got)
	}
	want := state
	if meanwhile == "kick" && at == noteWritten {
		want = Ready // that is what a kick does
	}
	got := value(t, now, "stats-tube tube", "current-jobs-"+string(want))
	if done == 0 && got != "1" {
		t.Errorf("%s %s jobs on the new server, want 1; in all %s", got, want, counts(t, now))
	}
	ask(t, now, "kick 10")
	limit := 1
	if meanwhile == "kick" && at == copyPlaced {
		limit = 2 // see doc.go: indistinguishable from a job that the Migrator has deleted
	}
	if done += worker(t, now); done < 1 || done > limit {
		t.Errorf("the job was delivered %d times", done)
	}
	ask(t, now, "use %s", NotesTube)
	if line := ask(t, now, "peek-delayed"); strings.HasPrefix(line, "FOUND") && !strings.HasSuffix(line, " 0") {
		t.Errorf("a note is left: %s", line)
	}
}

// TestRefused checks that a job that the new server refuses stays unchanged.
func TestRefused(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{MaxJobSize: 500})
	old := dial(t, from)
	for _, state := range []State{Ready, Delayed, Buried} {
		delay := 0
		if state == Delayed {
			delay = 5000
		}
		ask(t, old, "use tube")
		id := strings.Fields(ask(t, old, "put 5 %d 60 600\r\n%s", delay, strings.Repeat("x", 600)))[1]
		if state == Buried {
			ask(t, old, "reserve-job %s", id)
			ask(t, old, "bury %s 5", id)
		}
		m := &Mover{Connect: func(context.Context) (*Migrator, error) { return migrator(t, from, to), nil }}
		_, _, err := m.Run(context.Background())
		if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Word != "JOB_TOO_BIG" || !strings.Contains(err.Error(), "stays on the old server") {
			t.Errorf("%s: %v", state, err)
		}
		page := "stats-job " + id
		if s, pri := value(t, old, page, "state"), value(t, old, page, "pri"); s != string(state) || pri != "5" {
			t.Errorf("the %s job is %s with priority %s", state, s, pri)
		}
		ask(t, old, "delete %s", id)
	}
}

// TestBusy checks that two moves from one server exclude each other.
func TestBusy(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	c := migrator(t, from, to)
	if err := c.target.Lock(context.Background(), from); err != nil {
		t.Fatal(err)
	}
	m := &Mover{Connect: func(context.Context) (*Migrator, error) { return migrator(t, from, to), nil }}
	if _, _, err := m.Run(context.Background()); !errors.Is(err, ErrBusy) {
		t.Errorf("a second move: %v", err)
	}
	c.Close()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) { // until the server has noticed the end
		_, _, err := m.Run(context.Background())
		if err == nil {
			return
		}
		if !errors.Is(err, ErrBusy) || time.Since(began) > timeout {
			t.Fatal(err)
		}
		m = &Mover{Connect: m.Connect}
	}
}

// consume deletes the jobs that it gets, until moving is closed and no more jobs arrive.
func consume(t *testing.T, c *client.Conn, moving <-chan struct{}, pause time.Duration, note func(body string)) {
	ask(t, c, "watch tube")
	for empty := 0; empty < 20; {
		id, body := uint64(0), ""
		c.Ask([]byte("reserve-with-timeout 0\r\n"), 1, func(r *client.Reply) error { id, body = r.ID, string(r.Body); return nil })
		if id == 0 {
			select {
			case <-moving:
				empty++
			default:
			}
			time.Sleep(20 * time.Millisecond)
			continue
		}
		note(body)
		ask(t, c, "delete %d", id)
		time.Sleep(pause)
	}
}

// TestUnderLoad checks that each job is delivered once while workers use both servers and producers put
// into the old one.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	const jobs = 600
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	delivered := make(map[string]int)
	var mu sync.Mutex
	var producer, workers sync.WaitGroup
	producing, moving := make(chan struct{}), make(chan struct{})
	producer.Go(func() {
		defer close(producing)
		c := dial(t, from)
		ask(t, c, "use tube")
		for i := range jobs {
			ask(t, c, "put %d 0 60 5\r\n%05d", i%3, i)
		}
	})
	note := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		delivered[body]++
	}
	for _, addr := range []string{from, to, to} {
		pause := time.Duration(0)
		if addr == from {
			pause = time.Millisecond // so that some jobs are left to be moved
		}
		workers.Go(func() { consume(t, dial(t, addr), moving, pause, note) })
	}
	moved := uint64(0)
	for going := true; going; {
		select {
		case <-producing:
			going = false
		default:
		}
		n, _ := move(t, from, to, 3)
		moved += n
	}
	close(moving)
	producer.Wait()
	workers.Wait()
	for i := range jobs {
		if n := delivered[fmt.Sprintf("%05d", i)]; n != 1 {
			t.Errorf("job %d was delivered %d times", i, n)
		}
	}
	t.Logf("%d of %d jobs were moved", moved, jobs)
}

func TestNotes(t *testing.T) {
	t.Parallel()
	n := Note{
		From: "h:1", Key: "k", Old: 1 << 52, Mark: 1<<32 - 1, Kick: 3,
		Job: Job{Tube: "t", State: Buried, Pri: 1<<32 - 1, TTR: 1<<32 - 1, Due: time.UnixMilli(1_790_000_000_123)},
	}
	if got, err := ParseNote(n.String()); err != nil || got.String() != n.String() {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "carry-1", "carry-2 " + n.String()[8:], n.String() + " x", strings.Replace(n.String(), "1", "x", 3)} {
		if _, err := ParseNote(text); !errors.Is(err, errNote) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
