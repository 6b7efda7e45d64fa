package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
)

// twoInstances starts two instances on one Redis.
func twoInstances(t *testing.T) (a, b *process, addrA, addrB string) {
	t.Helper()
	redis := redistest.Start(t)
	a, addrA = serve(t, "-p0", "--store", redis.URL())
	b, addrB = serve(t, "-p0", "--store", redis.URL())
	return a, b, addrA, addrB
}

// TestTwoInstances: clients of two instances on one Redis see one server.
func TestTwoInstances(t *testing.T) {
	_, _, addrA, addrB := twoInstances(t)
	a, b := dial(t, addrA), dial(t, addrB)
	a.ask("use both\r\n", "USING both")
	b.ask("watch both\r\nignore default\r\n", "WATCHING 2", "WATCHING 1")
	a.ask("put 9 0 60 2\r\na1\r\n", "INSERTED 1")
	b.ask("reserve\r\n", "RESERVED 1 2", "a1")
	a.ask("release 1 0 0\r\n", "NOT_FOUND")
	a.ask("delete 1\r\n", "NOT_FOUND")
	b.ask("bury 1 5\r\n", "BURIED")
	a.ask("peek-buried\r\n", "FOUND 1 2", "a1")
	a.ask("kick 1\r\n", "KICKED 1")
	b.ask("reserve\r\n", "RESERVED 1 2", "a1")
	a.ask("pause-tube both 100\r\n", "PAUSED")
	a.ask("put 1 0 60 2\r\na2\r\n", "INSERTED 2")
	b.ask("reserve-with-timeout 0\r\n", "TIMED_OUT")
	b.ask("pause-tube both 0\r\n", "PAUSED")
	b.ask("reserve\r\n", "RESERVED 2 2", "a2")
	b.send("reserve\r\n")
	for key, want := range map[string]string{"current-using": "1", "current-watching": "1", "current-waiting": "1", "current-jobs-reserved": "2"} {
		watch := startWatch()
		a.awaitFigure("stats-tube both", key, want)
		if took := watch.took(); took > 2*time.Second {
			t.Errorf("%s was known after %v", key, took)
		}
	}
	b.conn.Close()
	a.awaitFigure("stats-tube both", "current-watching", "0")
	a.awaitFigure("stats-tube both", "current-jobs-ready", "2")
}

// TestWakeAcrossInstances: a put on one instance wakes a reserve that waits on
// another, immediately rather than by the poll for lost wake-ups.
func TestWakeAcrossInstances(t *testing.T) {
	_, _, addrA, addrB := twoInstances(t)
	a, b := dial(t, addrA), dial(t, addrB)
	watcher := dial(t, addrB)
	var took []time.Duration
	for i := range 200 {
		b.send("reserve\r\n")
		watcher.awaitFigure("stats", "current-waiting", "1")
		begun := time.Now()
		a.ask("put 0 0 60 1\r\nx\r\n", fmt.Sprint("INSERTED ", i+1))
		if line := b.line(); !strings.HasPrefix(line, "RESERVED ") {
			t.Fatal(line)
		}
		took = append(took, time.Since(begun))
		b.line()
	}
	wantSoon(t, took)
}

// wantSoon checks the times from a put on one instance until another
// delivered the job.
func wantSoon(t *testing.T, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	t.Logf("from put on one instance to the job on another: p50 %v, p99 %v", p50, p99)
	if p50 > busy.Times(100*time.Millisecond) {
		t.Errorf("half of the wake-ups took %v", p50)
	}
}

// TestWaitersOnTwoInstances: connections wait on two instances, jobs come in
// through both; each gets one, soon.
func TestWaitersOnTwoInstances(t *testing.T) {
	_, _, addrA, addrB := twoInstances(t)
	const n = 200
	var waiters []*client
	for i := range n {
		c := dial(t, []string{addrA, addrB}[i%2])
		c.send("reserve\r\n")
		waiters = append(waiters, c)
	}
	a, b := dial(t, addrA), dial(t, addrB)
	a.awaitFigure("stats", "current-waiting", fmt.Sprint(n/2))
	b.awaitFigure("stats", "current-waiting", fmt.Sprint(n/2))
	begun := time.Now()
	for i := range n {
		[]*client{a, b}[i/2%2].ask("put 0 0 60 1\r\nx\r\n", fmt.Sprint("INSERTED ", i+1))
	}
	seen := make(map[string]bool)
	for _, c := range waiters {
		line := c.line()
		if seen[line] || !strings.HasPrefix(line, "RESERVED ") {
			t.Fatalf("%q, perhaps again", line)
		}
		seen[line] = true
	}
	took := time.Since(begun)
	t.Logf("%d waiters on two instances were served in %v", n, took)
	if took > busy.Times(time.Second) {
		t.Errorf("it took %v, as if wake-ups were lost", took)
	}
}

// TestInstanceKilled: what an instance held is ready again soon after it was
// killed, long before the TTR, and a waiter elsewhere gets it.
func TestInstanceKilled(t *testing.T) {
	_, killed, addrA, addrB := twoInstances(t)
	a, b := dial(t, addrA), dial(t, addrB)
	a.ask("put 0 0 600 1\r\nx\r\n", "INSERTED 1")
	b.ask("watch gone\r\nuse gone\r\nreserve\r\n", "WATCHING 2", "USING gone", "RESERVED 1 1", "x")
	b.send("reserve\r\n")
	a.awaitFigure("stats-tube gone", "current-waiting", "1")
	a.send("reserve\r\n")
	begun, watch := time.Now(), startWatch()
	killed.signal(t, syscall.SIGKILL)
	if line := a.line(); line != "RESERVED 1 1" {
		t.Fatal(line)
	}
	a.line()
	t.Logf("the job was handed out again %v after its instance was killed", time.Since(begun))
	if took := watch.took(); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
	if line := a.figure("stats-tube gone", "name"); line != "NOT_FOUND" {
		t.Errorf("the tube of the killed instance is there: %s", line)
	}
}

// TestReserveJobOfKilled: a reserve-job of a job that an instance held which was killed waits until that is certain. If the instance lives, the
// reply comes with its next sign of life; replies to what was sent behind it come after it.
func TestReserveJobOfKilled(t *testing.T) {
	t.Parallel()
	_, killed, addrA, addrB := twoInstances(t)
	a, b := dial(t, addrA), dial(t, addrB)
	b.ask("put 0 0 600 1\r\nx\r\nreserve-job 1\r\n", "INSERTED 1", "RESERVED 1 1", "x")
	a.ask("reserve-job 1\r\nlist-tube-used\r\nreserve-job 9\r\n", "NOT_FOUND", "USING default", "NOT_FOUND")
	alive := startWatch()
	a.ask(strings.Repeat("reserve-job 1\r\n", 100), slices.Repeat([]string{"NOT_FOUND"}, 100)...)
	if took := alive.took(); took > 5*time.Second {
		t.Errorf("100 of a job that is held elsewhere took %v", took)
	}
	killed.signal(t, syscall.SIGKILL)
	watch := startWatch()
	dial(t, addrA).ask("reserve-job 1\r\nbury 1 0\r\nlist-tube-used\r\n", "RESERVED 1 1", "x", "BURIED", "USING default")
	if took := watch.took(); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestHowManyInstances: stats of every instance shows how many instances there are, whichever
// is asked; one that is started counts at once, one that is killed soon does not.
func TestHowManyInstances(t *testing.T) {
	atLength(t)
	t.Parallel()
	const key = "redstalk-instances"
	for name, flags := range map[string][]string{"one partition": nil, "partitions": {"--partitions", "16"}} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"-p0", "--store", redistest.Start(t).URL()}, flags...)
			_, addr := serve(t, args...)
			first := dial(t, addr)
			if got := first.figure("stats", key); got != "1" {
				t.Errorf("%s instances, want 1", got)
			}
			_, addr = serve(t, args...)
			clients := []*client{first, dial(t, addr)}
			killed, _ := serve(t, args...)
			for _, c := range clients {
				if got := c.figure("stats", key); got != "3" {
					t.Errorf("%s instances, want 3", got)
				}
			}
			watch := startWatch()
			killed.signal(t, syscall.SIGKILL)
			for _, c := range clients {
				c.awaitFigure("stats", key, "2")
			}
			if took := watch.took(); took > 5*time.Second {
				t.Errorf("the killed one counted for %v", took)
			}
			if page := first.page("stats"); !strings.Contains(page, "\n"+key+": 2\nredstalk-version: "+Version+"\nredstalk-time-zones: ") {
				t.Errorf("%s, the version and the time zones are not the last keys of\n%s", key, page)
			}
		})
	}
	for _, store := range []string{"memory:", "embedded:" + t.TempDir()} {
		_, addr := serve(t, "-p0", "--store", store)
		page, _, _ := strings.Cut(dial(t, addr).page("stats"), "\nredstalk-version: "+Version+"\n")
		if !strings.HasPrefix(page[strings.LastIndex(page, "\n"):], "\nplatform: ") {
			t.Errorf("with %s something else than the version follows beanstalkd's last key:\n%s", store, page)
		}
	}
}

// TestAllStoodStill stops Redis and both instances for longer than an instance may be without
// a heartbeat, like a suspended machine. Neither instance declares
// the other dead for that.
func TestAllStoodStill(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var instances []*process
	var clients []*client
	for i := range 2 {
		p, addr := serve(t, "-p0", "--store", redis.URL())
		c := dial(t, addr)
		c.ask("put 0 0 600 1\r\nx\r\nreserve\r\n", fmt.Sprint("INSERTED ", i+1), fmt.Sprintf("RESERVED %d 1", i+1), "x")
		instances, clients = append(instances, p), append(clients, c)
	}
	redis.Stop()
	for _, p := range instances {
		p.freeze(t)
	}
	time.Sleep(5 * time.Second) // there is no event to wait for
	redis.Continue()
	for _, p := range instances {
		p.signal(t, syscall.SIGCONT)
	}
	for range 2 * time.Second / (50 * time.Millisecond) { // while both send heartbeats
		time.Sleep(50 * time.Millisecond)
		if got := clients[0].figure("stats", "current-jobs-reserved"); got != "2" {
			t.Fatalf("%s jobs are reserved, want 2", got)
		}
	}
	for i, c := range clients {
		c.ask(fmt.Sprintf("delete %d\r\n", i+1), "DELETED")
	}
}
