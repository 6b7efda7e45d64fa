//go:build chromium

package console_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/storage/redis/redistest"
	"redstalk/tools/conformance/compile"
)

// This file has the servers whose consoles are tried, and what the tests do to them behind the
// console's back, over HTTP.

// patience bounds every wait in these tests; none is expected to come near. Who breaks the page to see
// tests fail has less.
var patience = time.Minute

func init() {
	flag.DurationVar(&patience, "patience", patience, "wait for anything so `long` at most")
}

// redstalkd is the program, built once.
var redstalkd string

// build builds the program into a directory.
func build(dir string) error {
	redstalkd = filepath.Join(dir, "redstalkd")
	return compile.Program(redstalkd, "redstalk/cmd/redstalkd")
}

// engines are those on which the console is tried, each with an empty store.
var engines = map[string]func(t *testing.T) (store string){
	"embedded": func(t *testing.T) string { return "embedded:" + t.TempDir() },
	"redis":    func(t *testing.T) string { return redistest.Start(t).URL() },
}

// onEach runs a test on each engine, at the same time.
func onEach(t *testing.T, test func(t *testing.T, s *site)) {
	t.Parallel()
	for name, store := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, serve(t, "--store", store(t)))
		})
	}
}

// site is a server with a console.
type site struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	url  string // of its HTTP door, without a slash at the end
	addr string // of its beanstalk door
	user *url.Userinfo
}

// serve starts a server. It ends with the test.
func serve(t *testing.T, args ...string) *site {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", args...)
}

// serveAt is serve with its HTTP door at an address.
func serveAt(t *testing.T, http string, args ...string) *site {
	t.Helper()
	s := &site{t: t, args: args}
	s.begin(http)
	t.Cleanup(s.end)
	return s
}

// lasting is an address that stays free while the server at it is away: outgoing connections, and
// servers that take any port, have ports from 32768 on.
func lasting(t *testing.T) string {
	t.Helper()
	for range 1000 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// begin starts the program with its HTTP door at an address.
func (s *site) begin(http string) {
	s.t.Helper()
	s.cmd = exec.Command(redstalkd, append([]string{"-V", "-p0", "--http", http}, s.args...)...)
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "REDSTALK_STORE=memory:"}
	log := newLines()
	s.cmd.Stderr = log
	dieWithTest(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.addr = log.await(s.t, regexp.MustCompile(`msg=serving addr=(\S+)`))
	s.url = "http://" + log.await(s.t, regexp.MustCompile(`msg=listening door=http addr=(\S+)`))
}

// end kills the program.
func (s *site) end() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// lines collects what a program writes.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func newLines() *lines { return new(lines) }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// await waits for a match and returns its group.
func (l *lines) await(t *testing.T, re *regexp.Regexp) string {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		if time.Now().After(limit) {
			t.Fatalf("no %q in:\n%s", re, text)
		}
	}
}

// call makes a request, whose answer has to be a good one, and reads it into a value unless
// that is nil.
func (s *site) call(method, path string, body, into any) {
	s.t.Helper()
	if err := s.try(method, path, body, into); err != nil {
		s.t.Fatal(err)
	}
}

// try is call for requests whose answer may be another one.
func (s *site) try(method, path string, body, into any) error {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, s.url+path, in)
	if err != nil {
		return err
	}
	request.Header.Set("X-Redstalk", "test")
	request.Header.Set("Content-Type", "application/json")
	if s.user != nil {
		secret, _ := s.user.Password()
		request.SetBasicAuth(s.user.Username(), secret)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode >= 300 {
		err = errors.New(reply.Status)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", method, path, err, text)
	}
	return nil
}

// terms are what a job is put with, by the names of the HTTP API.
type terms map[string]any

// put puts jobs and returns their ids.
func (s *site) put(tube string, jobs ...terms) (ids []uint64) {
	s.t.Helper()
	for _, job := range jobs {
		if job["body"] == nil && job["body_base64"] == nil {
			job["body"] = "a job"
		}
	}
	for len(jobs) > 0 {
		n := min(len(jobs), 1000)
		var answers []struct {
			Status int
			ID     uint64
			Detail string
		}
		s.call("POST", tubePath(tube)+"/jobs/batch", jobs[:n], &answers)
		for _, a := range answers {
			if a.Status != http.StatusCreated {
				s.t.Fatalf("put into %s: %d %s", tube, a.Status, a.Detail)
			}
			ids = append(ids, a.ID)
		}
		jobs = jobs[n:]
	}
	return ids
}

// many is so many jobs, alike but for their bodies.
func many(n int) (jobs []terms) {
	for i := range n {
		jobs = append(jobs, terms{"body": fmt.Sprintf("job %04d", i)})
	}
	return jobs
}

func tubePath(tube string) string {
	return "/v1/tubes/" + strings.ReplaceAll(url.PathEscape(tube), ".", "%2E")
}

// held is a job that is reserved by a lease.
type held struct {
	ID    uint64
	Lease string
}

// reserve reserves so many jobs of a tube.
func (s *site) reserve(tube string, n int) (all []held) {
	s.t.Helper()
	for len(all) < n {
		var some []held
		s.call("POST", fmt.Sprintf("/v1/reserve?wait=10s&n=%d&tube=%s", min(n-len(all), 1000), url.QueryEscape(tube)), nil, &some)
		all = append(all, some...)
	}
	return all
}

// with does something to jobs that are held: bury or release.
func (s *site) with(jobs []held, do string) {
	s.t.Helper()
	for _, job := range jobs {
		s.call("POST", fmt.Sprintf("/v1/jobs/%d/%s?lease=%s", job.ID, do, job.Lease), nil, nil)
	}
}

// jobInfo is what the API says of a job.
type jobInfo struct {
	ID                                           uint64
	Tube, State, Key, Dead, Body, Parked         string
	Base64                                       string `json:"body_base64"`
	Retry                                        []string
	Priority, Delay, TTR, Max, Deliveries, Kicks uint32
}

func (s *site) job(id uint64) (j jobInfo) {
	s.t.Helper()
	s.call("GET", fmt.Sprintf("/v1/jobs/%d", id), nil, &j)
	return j
}

// jobs returns the jobs of a tube in a state, at most 1,000, with their bodies left out.
func (s *site) jobs(tube, state string) []jobInfo {
	s.t.Helper()
	var page struct{ Jobs []jobInfo }
	s.call("GET", tubePath(tube)+"/jobs?limit=1000&state="+state, nil, &page)
	return page.Jobs
}

// tubeInfo is what the API says of a tube.
type tubeInfo struct{ Ready, Urgent, Reserved, Delayed, Buried, Total, Pause uint64 }

func (s *site) tube(name string) (info tubeInfo) {
	s.t.Helper()
	s.call("GET", tubePath(name), nil, &info)
	return info
}

// awaitTube waits until a tube has these counts: ready, reserved, delayed, buried.
func (s *site) awaitTube(name string, ready, reserved, delayed, buried uint64) {
	s.t.Helper()
	want := [4]uint64{ready, reserved, delayed, buried}
	var got [4]uint64
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		var i tubeInfo // zero as long as there is no such tube
		s.try("GET", tubePath(name), nil, &i)
		if got = [4]uint64{i.Ready, i.Reserved, i.Delayed, i.Buried}; got == want {
			return
		}
	}
	s.t.Fatalf("%s has %v jobs ready, reserved, delayed and buried, want %v", name, got, want)
}
