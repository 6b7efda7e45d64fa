package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
)

// serveHTTP starts the binary with these arguments and an HTTP API, and returns its URL.
func serveHTTP(t *testing.T, args ...string) (p *process, url string) {
	t.Helper()
	p, _ = serve(t, append([]string{"-p0", "--http", "127.0.0.1:0"}, args...)...)
	return p, "http://" + p.stderr.await(t, `msg=listening listener=http addr=(\S+)`)
}

// TestHTTPHost: every listener that speaks HTTP answers for names of this machine and --http-host only.
func TestHTTPHost(t *testing.T) {
	t.Parallel()
	p, api := serveHTTP(t, "--http-host", "queue.example.org", "--gateway", "ouqiang=127.0.0.1:0")
	gateway := "http://" + p.stderr.await(t, `msg=listening listener=ouqiang addr=(\S+)`)
	p.stderr.await(t, `msg=serving (addr)=`)
	for _, url := range []string{api + "/v1/tubes", api + "/metrics", api + "/readyz", gateway + "/"} {
		for host, misdirected := range map[string]bool{"evil.example": true, "queue.example.org": false, "localhost": false} {
			request, err := http.NewRequest("GET", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			reply, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
			if (reply.StatusCode == http.StatusMisdirectedRequest) != misdirected {
				t.Errorf("%s with Host: %s is answered %d", url, host, reply.StatusCode)
			}
		}
	}
}

// changing are numbers that differ from run to run.
var changing = regexp.MustCompile(`"(lease|time_left_ms|due_ms|put_ms|age)":"?\d+"?`)

// TestHTTPPage runs the commands of docs/http.md, one after the other, and compares
// their output.
func TestHTTPPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	_, url := serveHTTP(t)
	steps := regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```json\n(.*?)```)?").FindAllSubmatch(page, -1)
	if len(steps) < 5 {
		t.Fatalf("the page has %d examples", len(steps))
	}
	for _, step := range steps {
		script := strings.ReplaceAll(string(step[1]), "http://127.0.0.1:11380", url)
		script = strings.ReplaceAll(script, "curl ", "curl -sS --max-time 60 -w '\\n' ")
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		got, want := lines(string(out)), lines(string(step[2]))
		if want != "" && got != want {
			t.Errorf("%s\nprints\n%s\nand not\n%s", step[1], got, want)
		}
	}
}

// lines returns the lines that are not empty, without changing values.
func lines(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, changing.ReplaceAllString(line, `"$1":0`))
		}
	}
	return strings.Join(all, "\n")
}

// ask sends a request and returns the status and the body of the answer.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(bytes.TrimSpace(text))
}

// leased is a job as a reserve returns it.
type leased struct {
	ID    uint64
	Lease string
	Body  string
}

// TestHTTPOnTwoInstances: a job that was leased through one instance is finished through the
// other; the lease holds though the first one is killed, and other jobs continue.
func TestHTTPOnTwoInstances(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	killed, a := serveHTTP(t, "--store", redis.URL())
	_, b := serveHTTP(t, "--store", redis.URL())
	if status, text := ask(t, "POST", a+"/v1/tubes/both/jobs/batch", `[{"body":"1"},{"body":"2"}]`); status != 200 {
		t.Fatal(status, text)
	}
	var jobs []leased
	for len(jobs) < 2 {
		status, text := ask(t, "POST", a+"/v1/reserve?tube=both&wait=60s", "")
		var some []leased
		if err := json.Unmarshal([]byte(text), &some); err != nil || status != 200 {
			t.Fatal(status, text, err)
		}
		jobs = append(jobs, some...)
	}
	wrong := fmt.Sprintf("%s/v1/jobs/%d?lease=%s", b, jobs[0].ID, "12345")
	if status, text := ask(t, "DELETE", wrong, ""); status != 404 || !strings.Contains(text, `"NOT_FOUND"`) {
		t.Errorf("with another lease: %d %s", status, text)
	}
	killed.signal(t, syscall.SIGKILL)
	killed.code(t)
	for _, job := range jobs {
		url := fmt.Sprintf("%s/v1/jobs/%d", b, job.ID)
		if status, text := ask(t, "GET", url, ""); status != 200 || !strings.Contains(text, `"state":"reserved"`) {
			t.Errorf("the lease does not hold: %d %s", status, text)
		}
		if status, text := ask(t, "DELETE", url+"?lease="+job.Lease, ""); status != 204 {
			t.Errorf("the job is not finished: %d %s", status, text)
		}
	}
	if status, text := ask(t, "GET", b+"/v1/tubes/both", ""); status == 200 && !strings.Contains(text, `"reserved":0`) {
		t.Error(text)
	}
}

// TestHTTPStoreAway: while Redis is unreachable, all operations report that, and when to retry.
func TestHTTPStoreAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	_, url := serveHTTP(t, "--store", redis.URL(), "--store-timeout", busy.Times(time.Second).String())
	redis.Kill()
	var all sync.WaitGroup
	for _, request := range [][2]string{
		{"POST", "/v1/tubes/t/jobs"}, {"POST", "/v1/reserve"}, {"POST", "/v1/reserve?wait=1s&n=5"}, {"DELETE", "/v1/jobs/1"}, {"GET", "/v1/jobs/1"},
		{"GET", "/v1/tubes"}, {"GET", "/v1/tubes/t"}, {"GET", "/v1/tubes/t/jobs?state=ready"}, {"GET", "/v1/tubes/t/policy"}, {"GET", "/v1/server"},
		{"DELETE", "/v1/tubes/t/jobs"}, {"POST", "/v1/tubes/t/kick"}, {"POST", "/v1/jobs/1/release?lease=1"},
	} {
		all.Go(func() {
			asked, err := http.NewRequest(request[0], url+request[1], strings.NewReader(`{"body":""}`))
			if err != nil {
				t.Error(err)
				return
			}
			asked.Header.Set("Content-Type", "application/json")
			reply, err := http.DefaultClient.Do(asked)
			if err != nil {
				t.Error(err)
				return
			}
			text, _ := io.ReadAll(reply.Body)
			reply.Body.Close()
			if reply.StatusCode != 503 || !strings.Contains(string(text), `"INTERNAL_ERROR"`) || reply.Header.Get("Retry-After") == "" {
				t.Errorf("%v: %d %v %s", request, reply.StatusCode, reply.Header, text)
			}
		})
	}
	all.Wait()
}

// TestHTTPWaitsCount: a waiting HTTP request counts as watching and waiting, on all instances, until
// the end of the wait, and the tube exists that long.
func TestHTTPWaitsCount(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	_, url := serveHTTP(t, "--store", redis.URL())
	_, addr := serve(t, "-p0", "--store", redis.URL())
	c := dial(t, addr)
	waited := make(chan int, 1)
	go func() {
		reply, err := http.Post(url+"/v1/reserve?tube=polled&wait=1m", "application/json", nil)
		if err != nil {
			t.Error(err)
			waited <- 0
			return
		}
		reply.Body.Close()
		waited <- reply.StatusCode
	}()
	c.awaitFigure("stats-tube polled", "current-watching", "1")
	c.awaitFigure("stats-tube polled", "current-waiting", "1")
	c.ask("use polled\r\nput 0 0 60 1\r\nx\r\n", "USING polled", "INSERTED 1")
	if status := <-waited; status != 200 {
		t.Errorf("the wait is answered %d", status)
	}
	c.awaitFigure("stats-tube polled", "current-watching", "0")
	c.awaitFigure("stats-tube polled", "current-waiting", "0")
}

// TestHTTPDiskFull: puts are refused while there is no room, and all else continues. Whoever asks is told why.
func TestHTTPDiskFull(t *testing.T) {
	t.Parallel()
	p, url := serveHTTP(t, "--store", "embedded:"+t.TempDir(), "--disk-reserve", "1000000000000000000")
	for path, want := range map[string]string{"": `"OUT_OF_MEMORY"`, "/batch": `"status":507`} {
		body := map[string]string{"": `{"body":"x"}`, "/batch": `[{"body":"x"}]`}[path]
		status, text := ask(t, "POST", url+"/v1/tubes/t/jobs"+path, body)
		if path == "" && status != 507 || !strings.Contains(text, want) {
			t.Errorf("a put%s without room is answered %d %s", path, status, text)
		}
	}
	if status, text := ask(t, "POST", url+"/v1/reserve?tube=t", ""); status != 204 {
		t.Errorf("a reserve without room: %d %s", status, text)
	}
	if status, text := ask(t, "GET", url+"/v1/server", ""); status != 200 || !strings.Contains(text, `"jobs":0`) {
		t.Errorf("the server without room: %d %s", status, text)
	}
	p.stderr.await(t, `(--disk-reserve) is free on the disk: puts are refused`)
	for _, path := range []string{"/readyz", "/v1/store"} {
		if status, text := ask(t, "GET", url+path, ""); status != 200 || !strings.Contains(text, "--disk-reserve") {
			t.Errorf("%s without room: %d %s", path, status, text)
		}
	}
}

// TestConnectionsOfAllListeners: the limit of connections is one for all listeners together, but that HTTP has 32 more.
func TestConnectionsOfAllListeners(t *testing.T) {
	t.Parallel()
	p, addr := serve(t, "-p0", "--store", "memory:", "--http", "127.0.0.1:0", "--gateway", "ouqiang=127.0.0.1:0", "--max-connections", "3")
	web, gate := p.stderr.await(t, `listener=http addr=(\S+)`), p.stderr.await(t, `listener=ouqiang addr=(\S+)`)
	get := func(addr string) (net.Conn, error) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err = c.Read(make([]byte, 1))
		return c, err
	}
	first := dial(t, addr)
	first.ask("use t\r\n", "USING t")
	second, err := get(web)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(gate); err != nil {
		t.Fatal(err)
	}
	for range 32 { // beyond the limit, for probes and scrapes
		if _, err := get(web); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range []string{addr, web, gate} {
		if _, err := get(addr); err == nil {
			t.Errorf("one more connection is served at %s", addr)
		}
	}
	second.Close()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := get(gate); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("a connection that has ended makes no room for one at another listener")
		}
	}
	first.ask("use u\r\n", "USING u")
}
