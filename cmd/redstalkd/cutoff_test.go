package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// TestGoneAndBack: an instance stands still, or its machine is silently cut off,
// and comes back later. Its reserved jobs are ready again soon, long
// before the TTR. Late commands of its clients are answered NOT_FOUND
// if another client has the job by then, and that client keeps it; a job
// that nobody has reserved can be deleted. Then the instance serves as before.
func TestGoneAndBack(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *process, *redistest.Proxy) (back func()){
		"frozen": func(t *testing.T, p *process, _ *redistest.Proxy) func() {
			p.freeze(t)
			return func() { p.signal(t, syscall.SIGCONT) }
		},
		"cut off": func(t *testing.T, p *process, before *redistest.Proxy) func() {
			part := before.Of(p.Pid())
			part.Swallow(true)
			return func() { part.Swallow(false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.StartWithProxy(t)
			_, stays := serve(t, "-p0", "--store", redis.URL())
			p, goes := serve(t, "-p0", "--store", redis.URL(), "--store-timeout", patience.String())
			testGoneAndBack(t, dial(t, stays), dial(t, goes), func() func() { return leave(t, p, redis.Front) })
		})
	}
}

func testGoneAndBack(t *testing.T, other, late *client, leave func() (back func())) {
	const jobs = 6
	for i := range jobs {
		late.ask("put 0 0 600 1\r\nx\r\nreserve\r\n", fmt.Sprint("INSERTED ", i+1), fmt.Sprintf("RESERVED %d 1", i+1), "x")
	}
	back, watch := leave(), startWatch()
	for i := range jobs - 1 {
		other.ask("reserve\r\n", fmt.Sprintf("RESERVED %d 1", i+1), "x")
	}
	if took := watch.took(); took > 6*time.Second { // 5 s, and one for a machine that is busy
		t.Errorf("what it held was handed out again after %v", took)
	}
	late.send("delete 1\r\nrelease 2 0 0\r\nbury 3 0\r\ntouch 4\r\ndelete 6\r\n")
	back()
	for _, command := range []string{"delete", "release", "bury", "touch"} {
		if got := late.line(); got != "NOT_FOUND" {
			t.Errorf("%s of a job that somebody else has: %s", command, got)
		}
	}
	if got := late.line(); got != "DELETED" {
		t.Errorf("delete of a job that nobody has: %s", got)
	}
	other.ask("touch 1\r\nrelease 2 0 0\r\nbury 3 0\r\ndelete 4\r\ndelete 5\r\n", "TOUCHED", "RELEASED", "BURIED", "DELETED", "DELETED")
	late.ask("reserve\r\ndelete 2\r\n", "RESERVED 2 1", "x", "DELETED")
	if page := other.page("stats"); !strings.Contains(page, "\nredstalk-instances: 2\n") {
		t.Errorf("there are not two instances:\n%s", page)
	}
}

// TestLostNotification: an instance notifies another one, where a client waits,
// of a job, and the notification is lost. The waiter is still served, since
// instances also poll for jobs.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	redis := redistest.StartWithProxy(t)
	_, putsHere := serve(t, "-p0", "--store", redis.URL())
	p, waitsHere := serve(t, "-p0", "--store", redis.URL())
	a, b := dial(t, putsHere), dial(t, waitsHere)
	var lost atomic.Int64
	redis.Front.Of(p.Pid()).Intercept(nil, func(piece []byte) redistest.Fate {
		if bytes.Contains(piece, []byte(":wakeups:")) {
			lost.Add(1)
			return redistest.Drop
		}
		return redistest.Pass
	})
	b.send("reserve\r\n")
	a.awaitFigure("stats-tube default", "current-waiting", "1")
	watch := startWatch()
	a.ask("put 0 0 60 1\r\nx\r\n", "INSERTED 1")
	for _, want := range []string{"RESERVED 1 1", "x"} {
		if got := b.line(); got != want {
			t.Fatal(got)
		}
	}
	took := watch.took()
	if lost.Load() == 0 {
		t.Errorf("nothing was lost, and the waiter was served after %v", took)
	}
	if took > 2*time.Second { // 1 s, and one for a machine that is busy
		t.Errorf("the waiter was served after %v", took)
	}
}
