package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// pushes are the attacks by jobs that are pushed to webhooks. The receiver is in this process.
var pushes = []attack{
	{"push-rate", "50,000 jobs that are ready are pushed, with a concurrency of 32 and of 128", "5,000/s in memory", pushRate},
	{"push-due", "100,000 jobs that are pushed are due in one second", "all within 40 s, none twice; others at most 20 ms more than without", pushDue},
}

// A receiver receives pushes, and counts how often it got each job.
type receiver struct {
	server *http.Server
	url    string

	mu      sync.Mutex
	calls   int
	doubles int
	got     map[string]bool
	last    time.Time // when a job came that had not come before
}

func newReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for pushes: %w", err)
	}
	v := &receiver{url: fmt.Sprintf("http://%s/", l.Addr()), got: make(map[string]bool)}
	v.server = &http.Server{Handler: v}
	go v.server.Serve(l)
	return v, nil
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	v.note(r.Header.Get("redstalk-job"))
	w.WriteHeader(http.StatusNoContent)
}

func (v *receiver) note(job string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.calls++; v.got[job] {
		v.doubles++
		return
	}
	v.got[job], v.last = true, time.Now()
}

// await waits until n jobs have arrived, and a second more for duplicates. It returns
// when the last one arrived, and the number of duplicates.
func (v *receiver) await(n int) (last time.Time, doubles int, err error) {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		v.mu.Lock()
		got := len(v.got)
		v.mu.Unlock()
		if got >= n {
			break
		}
		if time.Since(begun) > patience {
			return last, 0, fmt.Errorf("%d of %d jobs were pushed", got, n)
		}
	}
	time.Sleep(time.Second)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last, v.doubles, nil
}

// allowPush, as flags, let an instance push to the receiver.
var allowPush = []string{"--push-allow", "127.0.0.1"}

// pushTube is the tube whose jobs are pushed; its jobs have pushTTR.
const (
	pushTube = "pushed"
	pushTTR  = 60
)

// startPushes makes the server push the jobs of the tube. Each of the tags has a space before it.
func startPushes(c *client.Conn, to *receiver, tags string) error {
	return c.Ask(fmt.Appendf(nil, "set-policy %s push:%s%s\r\n", pushTube, to.url, tags), 1, func(r *client.Reply) error {
		if string(r.Line) != "SET" {
			return fmt.Errorf("set-policy: %s", r.Line)
		}
		return nil
	})
}

// checkEmpty fails if there are jobs left in the tube.
func checkEmpty(c *client.Conn) error {
	page, err := c.Page("stats-tube " + pushTube)
	if err != nil {
		return err
	}
	for _, key := range []string{"current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried"} {
		if n, ok := page.Value(key); ok && n != "0" {
			return fmt.Errorf("after all pushes %s is %s", key, n)
		}
	}
	return nil
}

func pushRate(r *run) error {
	const n = 50_000
	for _, e := range engines {
		for _, calls := range []int{32, 128} {
			err := r.on(e, 1, allowPush, func(s *cluster) error {
				took, doubles, err := pushReady(s.instances[0], n, calls)
				r.report("%s: %d calls at a time: %.0f/s, %d twice", e, calls, n/took.Seconds(), doubles)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", e, err)
			}
		}
	}
	return nil
}

// pushReady puts n jobs, and then starts to push them.
func pushReady(at *instance, n, calls int) (took time.Duration, doubles int, err error) {
	to, err := newReceiver()
	if err != nil {
		return 0, 0, err
	}
	defer to.server.Close()
	c, err := dial(at.addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if err := putMany(c, pushTube, n, 128, 0, pushTTR); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := startPushes(c, to, fmt.Sprint(" push-concurrency:", calls)); err != nil {
		return 0, 0, err
	}
	last, doubles, err := to.await(n)
	if err == nil {
		err = checkEmpty(c)
	}
	return last.Sub(begun), doubles, err
}

func pushDue(r *run) error {
	const n = 100_000
	return r.onEach(engines, allowPush, func(s *cluster) error {
		at := s.instances[0]
		to, err := newReceiver()
		if err != nil {
			return err
		}
		defer to.server.Close()
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		without, err := s.quiet(at, 5*time.Second)
		if err != nil {
			return err
		}
		due, err := putDue(c, to, n)
		if err != nil {
			return err
		}
		time.Sleep(time.Until(due) - 100*time.Millisecond)
		var last time.Time
		var doubles int
		t, err := s.during(at, func() (err error) { last, doubles, err = to.await(n); return err })
		if err == nil {
			err = checkEmpty(c)
		}
		r.report("%s: all after %s, %d twice; others: p99 %s, most %s (without %s, %s)", s.engine, format(last.Sub(due)), doubles,
			format(t.usual), format(t.waited), format(without.usual), format(without.waited))
		return err
	})
}

// putDue puts n jobs that are due within one second, a thousandth of them in each millisecond,
// and returns when that second begins.
func putDue(c *client.Conn, to *receiver, n int) (due time.Time, err error) {
	if err := startPushes(c, to, ""); err != nil {
		return due, err
	}
	if _, err := command(c, "use "+pushTube); err != nil {
		return due, err
	}
	due = time.Now().Add(5 * time.Second)
	err = bulk(c, n, client.Inserted, func(out []byte, i int) []byte {
		ms := due.UnixMilli() + int64(i%1000)
		return append(out, "put 1 0 "+strconv.Itoa(pushTTR)+" 4 at:"+strconv.FormatInt(ms, 10)+"\r\npush\r\n"...)
	})
	if err == nil && time.Now().After(due) {
		err = fmt.Errorf("the puts took until the jobs were due")
	}
	return due, err
}
