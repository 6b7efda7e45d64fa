package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/server"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

const patience = time.Minute

// beanstalkd starts the true one, and returns its address.
func beanstalkd(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("there is no beanstalkd")
	}
	dir, err := os.MkdirTemp("", "carry") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	addr := "unix:" + filepath.Join(dir, "s")
	cmd := exec.Command(path, append([]string{"-l", addr}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	})
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		c, err := client.Dial(addr, patience)
		if err == nil {
			c.Close()
			return addr
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
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
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		s.Shutdown(ctx)
		q.Close(ctx)
		store.Close()
	})
	return l.Addr().String()
}

func dial(t testing.TB, addr string) *client.Conn {
	t.Helper()
	c, err := client.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	c.Patience = patience
	t.Cleanup(func() { c.Close() })
	return c
}

// say sends a command, and returns the first line of the reply.
func say(t testing.TB, c *client.Conn, format string, args ...any) (line string) {
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

// carrier makes a Carrier between two servers.
func carrier(t testing.TB, from, to string) *Carrier {
	t.Helper()
	here, err := NewRemote(dial(t, to))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(dial(t, from), from, here)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// move moves everything, with so many carriers.
func move(t testing.TB, from, to string, carriers int) (uint64, Left) {
	t.Helper()
	m := &Mover{Connect: func(context.Context) (*Carrier, error) { return carrier(t, from, to), nil }, Carriers: carriers}
	n, left, err := m.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n, left
}

// value is one of a page.
func value(t testing.TB, c *client.Conn, command, key string) string {
	t.Helper()
	page, err := c.Page(command)
	if err != nil {
		return ""
	}
	v, _ := page.Value(key)
	return strings.Trim(v, `"`)
}

// counts are how many jobs a server has in each state.
func counts(t testing.TB, c *client.Conn) (s string) {
	t.Helper()
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		s += value(t, c, "stats", "current-jobs-"+state) + " "
	}
	return strings.TrimSpace(s)
}

// All that can be had comes along as it is; what a worker has reserved stays.
func TestMove(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	old, now := dial(t, from), dial(t, to)
	for i := range 60 {
		say(t, old, "use tube%d", i%3)
		say(t, old, "put %d %d 77 6\r\nbody%02d", i, i%2*100_000, i)
	}
	for id := 1; id <= 9; id += 2 {
		say(t, old, "reserve-job %d", id)
		say(t, old, "bury %d %d", id, id+1000)
	}
	say(t, old, "pause-tube tube2 10000")
	say(t, old, "reserve-job 11")
	say(t, old, "use never")
	say(t, old, "put 5 4294967295 77 5\r\nnever")
	if n, left := move(t, from, to, 4); n != 60 || left.Reserved != 1 {
		t.Errorf("moved %d jobs, and left %+v", n, left)
	}
	if got := counts(t, old); got != "0 1 0 0" {
		t.Errorf("there: %s", got)
	}
	if got := counts(t, now); got != "24 0 31 5" {
		t.Errorf("here: %s", got)
	}
	say(t, now, "use tube0")
	for i, id := range []int{1, 7} {
		if got := say(t, now, "peek-buried"); !strings.HasPrefix(got, "FOUND") {
			t.Fatal(got)
		}
		var job uint64
		var body string
		now.Ask([]byte("peek-buried\r\n"), 1, func(r *client.Reply) error { job, body = r.ID, string(r.Body); return nil })
		if want := fmt.Sprintf("body%02d", id-1); body != want || value(t, now, fmt.Sprint("stats-job ", job), "pri") != fmt.Sprint(id+1000) {
			t.Errorf("buried job %d is %s, want %s", i, body, want)
		}
		say(t, now, "delete %d", job)
	}
	var id uint64
	now.Ask([]byte("peek-delayed\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
	left := value(t, now, fmt.Sprint("stats-job ", id), "time-left")
	if len(left) != 5 || left < "99000" || value(t, now, fmt.Sprint("stats-job ", id), "ttr") != "77" {
		t.Errorf("a delayed job is due in %s s", left)
	}
	say(t, now, "use never")
	now.Ask([]byte("peek-delayed\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
	if left := value(t, now, fmt.Sprint("stats-job ", id), "time-left"); len(left) != 10 || left < "4294960000" {
		t.Errorf("a job with the longest delay is due in %s s", left)
	}
	if n, _ := move(t, from, to, 1); n != 0 {
		t.Errorf("a second move moves %d jobs", n)
	}
}

// errDead ends a carrier as if it had been killed.
var errDead = errors.New("killed")

// dies has a carrier die at a step: its connections end, and nothing more is done.
func dies(c *Carrier, at step) {
	c.test = func(s step) {
		if s == at {
			c.there.Close()
			c.here.(*Remote).Conn.Close()
			panic(errDead)
		}
	}
}

// until runs a function until its carrier dies.
func until(t testing.TB, f func() error) {
	t.Helper()
	defer func() {
		if got := recover(); got != errDead {
			t.Errorf("the carrier has not died: %v", got)
		}
	}()
	t.Errorf("the carrier goes on: %v", f())
}

// worker deletes what it gets from a server, as long as there is anything.
func worker(t testing.TB, c *client.Conn) (n int) {
	say(t, c, "watch tube")
	for {
		line := say(t, c, "reserve-with-timeout 0")
		if !strings.HasPrefix(line, "RESERVED") {
			return n
		}
		say(t, c, "delete %s", strings.Fields(line)[1])
		n++
	}
}

// Whenever a carrier dies, and whether a worker comes by then or somebody kicks the tube, the next
// one sees to it that the job is had once, and as what it was.
func TestDeath(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	for _, state := range []State{Ready, Delayed, Buried} {
		for _, at := range []step{noted, marked, placed, deleted, revealed} {
			for _, meanwhile := range []string{"nothing", "worker", "kick"} {
				t.Run(fmt.Sprintf("%s, %s, %s", state, at, meanwhile), func(t *testing.T) { die(t, from, to, state, at, meanwhile) })
			}
		}
	}
}

func die(t *testing.T, from, to string, state State, at step, meanwhile string) {
	old, now := dial(t, from), dial(t, to)
	say(t, old, "use tube")
	say(t, now, "use tube")
	delay := 0
	if state == Delayed {
		delay = 5000
	}
	id := strings.Fields(say(t, old, "put 5 %d 60 4\r\nbody", delay))[1]
	if state == Buried {
		say(t, old, "reserve-job %s", id)
		say(t, old, "bury %s 5", id)
	}
	c := carrier(t, from, to)
	dies(c, at)
	until(t, func() (err error) {
		if state == Ready {
			_, err = c.Next(context.Background(), "tube")
		} else {
			_, err = c.Head(context.Background(), "tube", state)
		}
		return err
	})
	if meanwhile == "kick" {
		say(t, old, "kick 10")
	}
	done := 0
	if meanwhile != "nothing" {
		done = worker(t, old)
	}
	move(t, from, to, 1)
	if got := counts(t, old); got != "0 0 0 0" {
		t.Errorf("there are jobs there: %s", got)
	}
	want := state
	if meanwhile == "kick" && at == noted {
		want = Ready // that is what a kick does
	}
	got := value(t, now, "stats-tube tube", "current-jobs-"+string(want))
	if done == 0 && got != "1" {
		t.Errorf("%s %s jobs here, want 1; in all %s", got, want, counts(t, now))
	}
	say(t, now, "kick 10")
	most := 1
	if meanwhile == "kick" && at == placed {
		most = 2 // see doc.go: that cannot be told from a job that the carrier has deleted
	}
	if done += worker(t, now); done < 1 || done > most {
		t.Errorf("the job was had %d times", done)
	}
	say(t, now, "use %s", NotesTube)
	if line := say(t, now, "peek-delayed"); strings.HasPrefix(line, "FOUND") && !strings.HasSuffix(line, " 0") {
		t.Errorf("a note is left: %s", line)
	}
}

// A job that the new server does not want stays what it was.
func TestRefused(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{MaxJobSize: 500})
	old := dial(t, from)
	for _, state := range []State{Ready, Delayed, Buried} {
		delay := 0
		if state == Delayed {
			delay = 5000
		}
		say(t, old, "use tube")
		id := strings.Fields(say(t, old, "put 5 %d 60 600\r\n%s", delay, strings.Repeat("x", 600)))[1]
		if state == Buried {
			say(t, old, "reserve-job %s", id)
			say(t, old, "bury %s 5", id)
		}
		m := &Mover{Connect: func(context.Context) (*Carrier, error) { return carrier(t, from, to), nil }}
		_, _, err := m.Run(context.Background())
		if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Word != "JOB_TOO_BIG" || !strings.Contains(err.Error(), "stays where it was") {
			t.Errorf("%s: %v", state, err)
		}
		page := "stats-job " + id
		if s, pri := value(t, old, page, "state"), value(t, old, page, "pri"); s != string(state) || pri != "5" {
			t.Errorf("the %s job is %s with priority %s", state, s, pri)
		}
		say(t, old, "delete %s", id)
	}
}

// Two moves from one server do not go on at the same time.
func TestBusy(t *testing.T) {
	t.Parallel()
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	c := carrier(t, from, to)
	if err := c.here.Lock(context.Background(), from); err != nil {
		t.Fatal(err)
	}
	m := &Mover{Connect: func(context.Context) (*Carrier, error) { return carrier(t, from, to), nil }}
	if _, _, err := m.Run(context.Background()); !errors.Is(err, ErrBusy) {
		t.Errorf("a second move: %v", err)
	}
	c.Close()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) { // until the server has noticed
		_, _, err := m.Run(context.Background())
		if err == nil {
			return
		}
		if !errors.Is(err, ErrBusy) || time.Since(began) > patience {
			t.Fatal(err)
		}
		m = &Mover{Connect: m.Connect}
	}
}

// consume deletes what it gets, until moving is closed and nothing more comes.
func consume(t *testing.T, c *client.Conn, moving <-chan struct{}, pause time.Duration, note func(body string)) {
	say(t, c, "watch tube")
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
		say(t, c, "delete %d", id)
		time.Sleep(pause)
	}
}

// While workers work at both servers, and producers put at the old one, each job is had once.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	const jobs = 600
	from, to := beanstalkd(t), redstalk(t, queue.Config{})
	had := make(map[string]int)
	var mu sync.Mutex
	var producer, workers sync.WaitGroup
	producing, moving := make(chan struct{}), make(chan struct{})
	producer.Go(func() {
		defer close(producing)
		c := dial(t, from)
		say(t, c, "use tube")
		for i := range jobs {
			say(t, c, "put %d 0 60 5\r\n%05d", i%3, i)
		}
	})
	note := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		had[body]++
	}
	for _, addr := range []string{from, to, to} {
		pause := time.Duration(0)
		if addr == from {
			pause = time.Millisecond // so that something is left to be moved
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
		if n := had[fmt.Sprintf("%05d", i)]; n != 1 {
			t.Errorf("job %d was had %d times", i, n)
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
