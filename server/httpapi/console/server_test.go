//go:build chromium

package console_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
	"redstalk/tools/redistest"
)

// This file starts the servers under test, and changes and reads their state over HTTP.

// timeout limits every wait in these tests. No wait should come near it. Use a shorter one when you break
// the page on purpose to see tests fail.
var timeout = time.Minute

func init() {
	flag.DurationVar(&timeout, "patience", timeout, "the timeout of each wait, a `duration`")
}

// redstalkd is the path of the program, which is built once.
var redstalkd string

// build builds the program into a directory.
func build(dir string) error {
	redstalkd = filepath.Join(dir, "redstalkd")
	return compile.Program(redstalkd, "redstalk/cmd/redstalkd")
}

// engines are the engines under test, each with an empty store.
var engines = map[string]func(t *testing.T) (store string){
	"embedded": func(t *testing.T) string { return "embedded:" + t.TempDir() },
	"redis":    func(t *testing.T) string { return redistest.Start(t).URL() },
}

var everyEngine = flag.Bool("every-engine", false, "run each test of an action on both engines, and not on one of them")

// onEngine runs a test on an engine. That both give the same answers over HTTP is tested elsewhere, so without
// -every-engine the tests are distributed to the engines by their names.
func onEngine(t *testing.T, test func(t *testing.T, s *testServer)) {
	t.Parallel()
	chosen := "embedded"
	if len(t.Name())%2 == 0 {
		chosen = "redis"
	}
	for name, store := range engines {
		if name != chosen && !*everyEngine {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startServer(t, "--store", store(t)))
		})
	}
}

// site is a server with a console.
type testServer struct {
	*child.Process
	t    *testing.T
	args []string
	url  string // of its HTTP API, without a slash at the end
	addr string // of its beanstalk port
	user *url.Userinfo
}

// startServer starts a server, which is stopped at the end of the test.
func startServer(t *testing.T, args ...string) *testServer {
	t.Helper()
	return startServerAt(t, "127.0.0.1:0", args...)
}

// startServerAt is startServer with an address for the HTTP API.
func startServerAt(t *testing.T, http string, args ...string) *testServer {
	t.Helper()
	s := &testServer{t: t, args: args}
	s.start(http)
	return s
}

// start starts the program with its HTTP API at an address.
func (s *testServer) start(http string) {
	s.t.Helper()
	cmd := exec.Command(redstalkd, append([]string{"-V", "-p0", "--http", http}, s.args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "REDSTALK_STORE=memory:"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // so it ends when the test is killed
	var err error
	if s.Process, err = child.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.Kill)
	s.addr = s.logged(`msg=serving addr=(\S+)`)
	s.url = "http://" + s.logged(`msg=listening \w+=http addr=(\S+)`)
}

// logged waits for a match in the program's log and returns its last group.
func (s *testServer) logged(pattern string) string {
	s.t.Helper()
	found, err := s.Stderr.Await(timeout, pattern)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// call makes a request that must succeed, and decodes the answer into a value unless that is nil.
func (s *testServer) call(method, path string, body, into any) {
	s.t.Helper()
	if err := s.try(method, path, body, into); err != nil {
		s.t.Fatal(err)
	}
}

// get returns the answer to a GET.
func get[T any](s *testServer, path string) (answer T) {
	s.t.Helper()
	s.call("GET", path, nil, &answer)
	return answer
}

// try is call for requests that can fail.
func (s *testServer) try(method, path string, body, into any) error {
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

// terms are the fields of a put, with the names of the HTTP API.
type terms map[string]any

// put puts jobs and returns their ids.
func (s *testServer) put(tube string, jobs ...terms) (ids []uint64) {
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

// manyJobs returns n jobs that differ only in their bodies.
func manyJobs(n int) (jobs []terms) {
	for i := range n {
		jobs = append(jobs, terms{"body": fmt.Sprintf("job %04d", i)})
	}
	return jobs
}

func tubePath(tube string) string {
	return "/v1/tubes/" + strings.ReplaceAll(url.PathEscape(tube), ".", "%2E")
}

// leasedJob is a job that is reserved with a lease.
type leasedJob struct {
	ID    uint64
	Lease string
}

// reserve reserves n jobs of a tube.
func (s *testServer) reserve(tube string, n int) (all []leasedJob) {
	s.t.Helper()
	for len(all) < n {
		var some []leasedJob
		s.call("POST", fmt.Sprintf("/v1/reserve?wait=10s&n=%d&tube=%s", min(n-len(all), 1000), url.QueryEscape(tube)), nil, &some)
		all = append(all, some...)
	}
	return all
}

// apply buries or releases leased jobs.
func (s *testServer) apply(jobs []leasedJob, do string) {
	s.t.Helper()
	for _, job := range jobs {
		s.call("POST", fmt.Sprintf("/v1/jobs/%d/%s?lease=%s", job.ID, do, job.Lease), nil, nil)
	}
}

// jobInfo is a job in the API.
type jobInfo struct {
	ID                                                 uint64
	Tube, State, Key, Group, Dead, Body, Parked, Trace string
	Base64                                             string `json:"body_base64"`
	Retry                                              []string
	Priority, Delay, TTR, Max, Deliveries, Kicks       uint32
	Jitter                                             uint8
	Meta                                               map[string]string
	Expires                                            int64  `json:"expires_ms"`
	OnExpire                                           string `json:"on_expire"`
	CheckpointBytes                                    int    `json:"checkpoint_bytes"`
}

func (s *testServer) job(id uint64) jobInfo {
	s.t.Helper()
	return get[jobInfo](s, fmt.Sprint("/v1/jobs/", id))
}

// jobs returns the jobs of a tube in a state, at most 1,000, without bodies.
func (s *testServer) jobs(tube, state string) []jobInfo {
	s.t.Helper()
	return get[struct{ Jobs []jobInfo }](s, tubePath(tube)+"/jobs?limit=1000&state="+state).Jobs
}

// tubeInfo is a tube in the API.
type tubeInfo struct{ Ready, Urgent, Reserved, Delayed, Buried, Total, Pause uint64 }

func (s *testServer) tube(name string) tubeInfo {
	s.t.Helper()
	return get[tubeInfo](s, tubePath(name))
}

// awaitTube waits until a tube has the given numbers of jobs.
func (s *testServer) awaitTube(name string, ready, reserved, delayed, buried uint64) {
	s.t.Helper()
	want := [4]uint64{ready, reserved, delayed, buried}
	var got [4]uint64
	for limit := time.Now().Add(timeout); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		var i tubeInfo // zero while there is no such tube
		s.try("GET", tubePath(name), nil, &i)
		if got = [4]uint64{i.Ready, i.Reserved, i.Delayed, i.Buried}; got == want {
			return
		}
	}
	s.t.Fatalf("%s has %v ready, reserved, delayed and buried jobs, want %v", name, got, want)
}
