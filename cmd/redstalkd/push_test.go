package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// pushLedger is a receiver that records pushes. It refuses some,
// answers some late, and breaks some connections; finally it accepts each job.
type pushLedger struct {
	*httptest.Server
	mu    sync.Mutex
	taken map[uint64][]string    // the webhook-ids of the accepted calls, by job
	at    map[uint64][]time.Time // when these calls came
	calls int
}

func newPushLedger(t *testing.T) *pushLedger {
	l := &pushLedger{taken: make(map[uint64][]string), at: make(map[uint64][]time.Time)}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

func (l *pushLedger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id, bad := strconv.ParseUint(r.Header.Get("Redstalk-Job"), 10, 64)
	if err != nil || bad != nil || string(body) != fmt.Sprint("body ", id) {
		w.WriteHeader(http.StatusBadRequest) // and the job is missed in the end
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.calls++; {
	case l.calls%13 == 0:
		w.WriteHeader(http.StatusInternalServerError)
	case l.calls%17 == 0:
		panic(http.ErrAbortHandler)
	case l.calls%19 == 0:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		l.taken[id], l.at[id] = append(l.taken[id], r.Header.Get("Webhook-Id")), append(l.at[id], time.Now())
	}
}

// counts returns the number of accepted jobs, and of duplicate calls.
func (l *pushLedger) counts() (jobs, doubles int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ids := range l.taken {
		jobs++
		doubles += len(ids) - 1
	}
	return jobs, doubles
}

// awaitAll waits until n jobs were accepted, stops the receiver, and returns the number of
// duplicate accepted calls. After that nothing changes.
func (l *pushLedger) awaitAll(t *testing.T, n int) int {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(10 * time.Millisecond) {
		if jobs, _ := l.counts(); jobs == n {
			break
		}
	}
	l.Close()
	jobs, doubles := l.counts()
	t.Logf("%d jobs in %d calls, %d jobs taken again", jobs, l.calls, doubles)
	if jobs != n {
		t.Errorf("%d of %d jobs were taken", jobs, n)
	}
	return doubles
}

// awaitEmpty waits until tube t has no jobs at all.
func awaitEmpty(c *client) {
	c.t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		page := c.page("stats-tube t")
		if !slices.ContainsFunc([]string{"ready", "reserved", "delayed", "buried"}, func(state string) bool {
			return !strings.Contains(page, "\ncurrent-jobs-"+state+": 0\n")
		}) {
			return
		}
	}
	c.t.Fatalf("there still are jobs: %s", c.page("stats-tube t"))
}

// TestPushLedger: two instances push from one Redis to a receiver that fails now and then. One
// instance is killed and one is frozen. Every acknowledged job is accepted, and none
// twice except where a TTR has ended.
func TestPushLedger(t *testing.T) {
	atLength(t)
	t.Parallel()
	const n, ttr = 3000, 4
	redis, ledger := redistest.Start(t), newPushLedger(t)
	flags := []string{"-p0", "--store", redis.URL(), "--push-allow", "127.0.0.0/8"}
	a, addrA := serve(t, flags...)
	b, addrB := serve(t, flags...)
	ca, cb := dial(t, addrA), dial(t, addrB)
	ca.ask("set-policy t push:"+ledger.URL+"/ retry:"+strings.Repeat("0,", 30)+"1s push-concurrency:8 push-rate:2000\r\nuse t\r\n", "SET", "USING t")
	cb.ask("use t\r\n", "USING t")
	for id := 1; id <= n; id++ {
		c, delay := ca, 0
		if id%2 == 0 {
			c = cb
		}
		if id%3 == 0 {
			delay = 1 + id%2
		}
		body := fmt.Sprint("body ", id)
		c.ask(fmt.Sprintf("put 0 %d %d %d\r\n%s\r\n", delay, ttr, len(body), body), fmt.Sprint("INSERTED ", id))
		switch id {
		case n / 2:
			b.signal(t, syscall.SIGKILL)
			b.code(t)
			_, addrB = serve(t, flags...)
			cb = dial(t, addrB)
			cb.ask("use t\r\n", "USING t")
		case n * 3 / 4:
			ca = cb
			a.freeze(t)
		}
	}
	time.Sleep((ttr + 1) * time.Second)
	a.signal(t, syscall.SIGCONT)
	awaitEmpty(cb)
	doubles := ledger.awaitAll(t, n)
	if ran, err := strconv.Atoi(cb.figure("stats", "job-timeouts")); err != nil || doubles > ran {
		t.Errorf("%d jobs were taken again, though %d TTRs ran out (%v)", doubles, ran, err)
	}
	for id, ids := range ledger.taken {
		for i, tube := range ids {
			if !strings.HasPrefix(tube, fmt.Sprint(id, "-")) || i > 0 && tube == ids[i-1] {
				t.Errorf("job %d was called as %q", id, ids)
			}
		}
	}
}

// TestPushLedgerKilled: a server with the embedded engine pushes to a receiver that fails now and
// then, and is killed repeatedly. Every acknowledged job is accepted, and
// none twice except with a kill in between, or where a TTR has ended.
func TestPushLedgerKilled(t *testing.T) {
	atLength(t)
	t.Parallel()
	const n, kills, ttr = 2000, 3, 6
	ledger := newPushLedger(t)
	flags := []string{"-p0", "--store", "embedded:" + t.TempDir(), "--push-allow", "127.0.0.0/8"}
	p, addr := serve(t, flags...)
	c := dial(t, addr)
	c.ask("set-policy t push:"+ledger.URL+"/ retry:"+strings.Repeat("0,", 30)+"1s push-rate:2000\r\nuse t\r\n", "SET", "USING t")
	var killed [][2]time.Time
	timeouts := 0
	countTimeouts := func() {
		ran, err := strconv.Atoi(c.figure("stats", "job-timeouts"))
		if err != nil {
			t.Fatal(err)
		}
		timeouts += ran
	}
	for id := 1; id <= n; id++ {
		body := fmt.Sprint("body ", id)
		c.ask(fmt.Sprintf("put 0 %d %d %d\r\n%s\r\n", id%5/4, ttr, len(body), body), fmt.Sprint("INSERTED ", id))
		if id%(n/(kills+1)) == 0 && len(killed) < kills {
			countTimeouts()
			before := time.Now()
			p.signal(t, syscall.SIGKILL)
			p.code(t)
			killed = append(killed, [2]time.Time{before, time.Now()})
			p, addr = serve(t, flags...)
			c = dial(t, addr)
			c.ask("use t\r\n", "USING t")
		}
	}
	awaitEmpty(c)
	ledger.awaitAll(t, n)
	countTimeouts()
	for id, at := range ledger.at {
		for i := 1; i < len(at); i++ {
			between := func(k [2]time.Time) bool { return at[i-1].Before(k[1]) && at[i].After(k[0]) }
			if slices.ContainsFunc(killed, between) {
				continue
			}
			if timeouts--; timeouts < 0 {
				t.Errorf("job %d was taken at %v and %v, nothing was killed in between, and no TTR ran out", id, at[i-1], at[i])
			}
		}
	}
}

// TestPushProgram: the flags, what a server reports that does not push, and secrets that are read
// again.
func TestPushProgram(t *testing.T) {
	t.Parallel()
	signatures := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signatures <- r.Header.Get("Webhook-Signature")
	}))
	t.Cleanup(receiver.Close)
	secret := func(text string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(text, 24)))
	}
	file := filepath.Join(t.TempDir(), "secrets")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("* " + secret("a"))
	set := "set-policy t push:" + receiver.URL + "/\r\n"

	_, addr := serve(t, "-p0", "--store", "memory:")
	c := dial(t, addr)
	c.ask(set+"get-policy t\r\n", "FORBIDDEN", "NOT_FOUND")

	p, addr := serve(t, "-p0", "--store", "memory:", "--http", "127.0.0.1:0", "--push-allow", "localhost,example.org", "--push-secrets", file)
	c = dial(t, addr)
	c.ask("set-policy t push:http://10.0.0.1/\r\n"+set+"use t\r\n", "FORBIDDEN", "SET", "USING t")
	next := func() string {
		t.Helper()
		c.send("put 0 0 60 1\r\nx\r\n")
		c.line()
		return receive(t, signatures)
	}
	if tube := next(); strings.Count(tube, "v1,") != 1 {
		t.Errorf("signed by %q", tube)
	}
	write("* hidden")
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, `secrets of pushes stay as they are.*line (1)`)
	if tube := next(); strings.Count(tube, "v1,") != 1 || strings.Contains(p.stderr.String(), "hidden") {
		t.Errorf("signed by %q", tube)
	}
	write("* " + secret("b") + " " + secret("a"))
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, `secrets of pushes were read (again)`)
	if tube := next(); strings.Count(tube, "v1,") != 2 {
		t.Errorf("signed by %q", tube)
	}
	askPushPolicy(t, p.stderr.await(t, `listener=http url=(\S+)`))
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Errorf("code %d", code)
	}
	code, _, stderr := run(t, command("--push-allow", "*", "--push-secrets", "/nowhere"))
	if code != exitUsage || !strings.Contains(stderr, "--push-secrets") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// askPushPolicy sets a policy that pushes by HTTP, and reads it.
func askPushPolicy(t *testing.T, url string) {
	t.Helper()
	url += "v1/tubes/u/policy"
	const policy = `{"max":5,"push":"https://example.org/a?b","push_concurrency":3,"push_timeout":"90s","push_rate":"7/m"}`
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(policy))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	set, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	set.Body.Close()
	got, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil || set.StatusCode != http.StatusNoContent || strings.TrimSpace(string(text)) != policy {
		t.Errorf("%d, then %s, %v", set.StatusCode, text, err)
	}
}
