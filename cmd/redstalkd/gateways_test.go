//go:build !nogateways

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// furtherTags are the build tags of the binary beside those of every test.
const furtherTags = ""

// TestGatewayFlags: which gateways are wanted, and where.
func TestGatewayFlags(t *testing.T) {
	wanted := func(s *settings) any { return fmt.Sprint(s.gateways.wanted) }
	for _, c := range []configured{
		{"", "", wanted, "[]"},
		{"--gateway ouqiang=:9277 --gateway=ruffianjiang=unix:/x", "", wanted, "[{ouqiang :9277} {ruffianjiang unix:/x}]"},
		{"", "GATEWAY=ouqiang=h:1,ruffianjiang=[::1]:2", wanted, "[{ouqiang h:1} {ruffianjiang [::1]:2}]"},
		{"--gateway ouqiang=:1", "GATEWAY=ouqiang=:2", wanted, "[{ouqiang :1}]"},
		{"--gateway-wait 20s", "", func(s *settings) any { return s.gateways.wait }, 20 * time.Second},
		{"--gateway-wait 0", "", func(s *settings) any { return s.gateways.wait }, time.Duration(-1)},
		{"--gateway-strict", "", func(s *settings) any { return s.gateways.strict }, true},
		{"--gateway-zone GMT-8", "", func(s *settings) any { return s.gateways.zone.String() }, "GMT-8"},
		{"--gateway-origin https://a.example,*", "", func(s *settings) any { return s.gateways.sites != nil }, true},
	} {
		if s, err := read(c.args, c.env); err != nil || c.get(s) != c.want {
			t.Errorf("%q %q: %v, want %v", c.args, c.env, err, c.want)
		}
	}
	for _, args := range []string{"--gateway ouqiang", "--gateway nobody=:1", "--gateway ouqiang=1", "--gateway ouqiang=:1,", "--gateway-wait -1s", "--gateway-wait 5", "--gateway-zone Mars", "--gateway-origin a.example"} {
		if _, err := read(args, ""); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestOldProgramArguments: what stands behind ouqiang.
func TestOldProgramArguments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delay-queue.conf")
	text := "bind_address = 127.0.0.1:1\nredis.host = h:2\nredis.db = 3\nqueue_block_timeout = 4\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, rest string }{
		{"ouqiang -c " + path + " -V", "-V"}, {"ouqiang -V -c=" + path, "-V"}, {"ouqiang --c " + path, ""},
	} {
		rest, takeOver, err := readOldProgram(strings.Fields(c.args))
		if err != nil || strings.Join(rest, " ") != c.rest {
			t.Fatalf("%q: %q (%v)", c.args, rest, err)
		}
		for args, want := range map[string]string{
			"": "[{ouqiang 127.0.0.1:1}] 4s redis://h:2/3 0 16777216",
			"--gateway ruffianjiang=:5 --gateway-wait 6s --store memory: -p 7 -z 8": "[{ruffianjiang :5} {ouqiang 127.0.0.1:1}] 6s memory: 7 8",
		} {
			s, err := read(args, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := takeOver(s); err != nil {
				t.Error(err)
			}
			if got := fmt.Sprintf("%v %v %s %d %d", s.gateways.wanted, s.gateways.wait, s.engine.url, s.port, s.maxJobSize); got != want {
				t.Errorf("%q: %s, want %s", args, got, want)
			}
		}
	}
	for _, args := range []string{"ouqiang -c", "ouqiang -c=", "ouqiang -c /nowhere/at/all"} {
		if rest, _, err := readOldProgram(strings.Fields(args)); err == nil {
			t.Errorf("%q: %q", args, rest)
		}
	}
	if rest, _, err := readOldProgram([]string{"-p", "1"}); err != nil || len(rest) != 2 {
		t.Errorf("%q (%v)", rest, err)
	}
}

// gateURL is where the process serves a gateway.
func (p *process) gateURL(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSuffix(p.stderr.await(t, `msg=serving listener=`+name+` url=(\S+)`), "/")
}

// ouqiangReply is an answer of the gateway ouqiang.
type ouqiangReply struct {
	Code    int
	Message string
	Data    *struct{ Topic, ID, Body, Lease string }
}

// askOuqiang sends a request to the gateway; it is an error if nobody answers, or the code is not 0.
func askOuqiang(url, path string, fields map[string]any) (r ouqiangReply, err error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return r, err
	}
	answer, err := http.Post(url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && (answer.StatusCode != http.StatusOK || r.Code != 0) {
		err = fmt.Errorf("%s answers %d %s", path, answer.StatusCode, text)
	}
	return r, err
}

// TestInPlaceOfOuqiang: the program runs by the configuration file of the old one, on its
// Redis, whose other data is left alone. A job goes through a second instance.
func TestInPlaceOfOuqiang(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "delay-queue.conf")
	text := "bind_address = 127.0.0.1:0\nbucket_size = 3\nqueue_block_timeout = 20\nredis.host = " + redis.Addr + "\nredis.db = 3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for range 2 {
		cmd := command("ouqiang", "-c", path, "-V")
		cmd.Env = cmd.Env[:1] // without REDSTALK_STORE
		p := start(t, cmd)
		urls = append(urls, p.gateURL(t, "ouqiang"))
		p.stderr.await(t, `bucket_size means nothing any more`)
	}
	foreign, err := http.NewRequest(http.MethodGet, urls[0]+"/pop", nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if answer, err := http.DefaultClient.Do(foreign); err != nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site is answered %+v (%v)", answer, err)
	}
	body := strings.Repeat("b", 1<<20) // the old program took bodies of any size
	for _, step := range []struct {
		path   string
		fields map[string]any
		id     string
	}{
		{"/push", map[string]any{"topic": "order", "id": "7", "delay": 1, "ttr": 60, "body": body}, ""},
		{"/get", map[string]any{"id": "7"}, "7"},
		{"/pop", map[string]any{"topic": "none,order"}, "7"},
		{"/finish", map[string]any{"id": "7"}, ""},
		{"/get", map[string]any{"id": "7"}, ""},
	} {
		r, err := askOuqiang(urls[0], step.path, step.fields)
		urls[0], urls[1] = urls[1], urls[0]
		switch {
		case err != nil:
			t.Fatal(err)
		case step.id == "" && r.Data != nil, step.id != "" && (r.Data == nil || r.Data.ID != step.id || r.Data.Body != body):
			t.Errorf("%s answers %.200v with %.200v", step.path, r, r.Data)
		}
	}
}

// deliveries are what consumers have got.
type deliveries struct {
	mu       sync.Mutex
	leases   map[string][]uint64 // by id, in their order
	finished map[string]bool
	some     chan struct{} // closed when some jobs are finished
	all      chan struct{} // closed when all are
}

func (d *deliveries) finish(id string, some, all int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.finished[id] {
		return
	}
	d.finished[id] = true
	for n, reached := range map[int]chan struct{}{some: d.some, all: d.all} {
		if len(d.finished) == n {
			close(reached)
		}
	}
}

const (
	gatewayJobs = 300 // of each of two topics
	gatewayTTR  = 3   // seconds
)

// consume pops from a topic and finishes what comes, through one instance and then the
// other, until all jobs are finished.
func (d *deliveries) consume(urls []string, topic string) {
	for turn := 0; ; turn++ {
		select {
		case <-d.all:
			return
		default:
		}
		r, err := askOuqiang(urls[turn%2], "/pop", map[string]any{"topic": topic})
		if err != nil || r.Data == nil {
			continue // that instance is gone, or there is no job now
		}
		lease, _ := strconv.ParseUint(r.Data.Lease, 10, 64)
		d.mu.Lock()
		d.leases[r.Data.ID] = append(d.leases[r.Data.ID], lease)
		d.mu.Unlock()
		for range 2 {
			done, err := askOuqiang(urls[turn%2], "/finish", map[string]any{"id": r.Data.ID, "lease": r.Data.Lease})
			if err == nil {
				d.finish(r.Data.ID, gatewayJobs/2, 2*gatewayJobs)
			}
			if err == nil || done.Code != 0 {
				break // refused: its TTR was over
			}
			turn++
		}
	}
}

// TestGatewayInstances: two instances on one Redis, consumers of each topic at each, and one
// instance is killed meanwhile. No job is lost, and none is delivered twice within its TTR,
// by the store's clock, which is in the lease.
func TestGatewayInstances(t *testing.T) {
	atLength(t)
	t.Parallel()
	redis := redistest.Start(t)
	args := []string{"-p0", "--store", redis.URL(), "--gateway", "ouqiang=127.0.0.1:0", "--gateway-strict", "--gateway-wait", "1s"}
	a, _ := serve(t, args...)
	b, _ := serve(t, args...)
	urls := []string{a.gateURL(t, "ouqiang"), b.gateURL(t, "ouqiang")}
	d := &deliveries{
		leases: make(map[string][]uint64), finished: make(map[string]bool), some: make(chan struct{}), all: make(chan struct{}),
	}
	var consumers sync.WaitGroup
	for i := range 4 {
		consumers.Go(func() { d.consume([]string{urls[i%2], urls[1-i%2]}, fmt.Sprint("topic", i/2)) })
	}
	for i := range 2 * gatewayJobs {
		fields := map[string]any{"topic": fmt.Sprint("topic", i%2), "id": fmt.Sprint(i), "delay": 1 + i%2, "ttr": gatewayTTR, "body": "b"}
		if _, err := askOuqiang(urls[i/2%2], "/push", fields); err != nil {
			t.Fatal(err)
		}
	}
	receive(t, d.some)
	a.Cmd.Process.Kill()
	receive(t, d.all)
	consumers.Wait()
	again := 0
	for id, leases := range d.leases {
		for i := 1; i < len(leases); i++ {
			again++
			if apart := time.Duration(leases[i]-leases[i-1]) * time.Microsecond; apart < gatewayTTR*time.Second-time.Millisecond {
				t.Errorf("job %s was delivered again after %v", id, apart)
			}
		}
	}
	t.Logf("%d jobs were delivered, %d times one of them again", len(d.leases), again)
}

// TestGatewaysPage carries out the commands of docs/gateways.md that talk to gateways, one
// after the other, and compares what they print.
func TestGatewaysPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	p, _ := serve(t, "-p0", "--gateway", "ouqiang=127.0.0.1:0,ruffianjiang=127.0.0.1:0")
	here := strings.NewReplacer(
		"http://127.0.0.1:9277", p.gateURL(t, "ouqiang"), "http://127.0.0.1:18080", p.gateURL(t, "ruffianjiang"),
		"curl ", `curl -sS --max-time 60 -w '\n' `)
	steps := regexp.MustCompile("(?s)```sh\n(curl .*?)```\n\n```json\n(.*?)```").FindAllSubmatch(page, -1)
	if len(steps) < 2 {
		t.Fatalf("the page has %d examples", len(steps))
	}
	for _, step := range steps {
		out, err := exec.Command("sh", "-euc", here.Replace(string(step[1]))).CombinedOutput()
		if err != nil || string(out) != string(step[2]) {
			t.Errorf("%s\nprints (%v)\n%s\nand not\n%s", step[1], err, out, step[2])
		}
	}
}

// TestInPlaceOfZywaited: one instance takes tasks and another calls them, by the
// configuration file of the old program. The first one is killed before they are due.
func TestInPlaceOfZywaited(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := func(role int) string {
		path := filepath.Join(t.TempDir(), "config.toml")
		text := fmt.Sprintf("base_level = \"second\"\nrole = %d\n[redis]\naddr = %q\ndb = 2\n"+
			"[services.http]\naddr = \"127.0.0.1:0\"\n[services.grpc]\naddr = \"127.0.0.1:0\"\n[log]\nlevel = \"info\"\n", role, redis.Addr)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	begin := func(args ...string) *process {
		cmd := command(append(args, "-V")...)
		cmd.Env = cmd.Env[:1] // without REDSTALK_STORE
		return start(t, cmd)
	}
	timer := begin("zywaited", "-f", config(1))
	timer.stderr.await(t, "log.level means nothing any more")
	timer.stderr.await(t, "msg=serving listener=zywaited-grpc")
	url := timer.gateURL(t, "zywaited")
	calls := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- r.URL.Path + string(body)
	}))
	defer receiver.Close()
	task := fmt.Sprintf(`{"name":"n","time":{"duration":2,"relative":true},"callback":{"schema":"http","address":%q,"path":"/due"}}`,
		strings.TrimPrefix(receiver.URL, "http://"))
	answer, err := http.Post(url+"/task/add", "application/json", strings.NewReader(task))
	if err != nil {
		t.Fatal(err)
	}
	var added struct{ UID string }
	err = json.NewDecoder(answer.Body).Decode(&added)
	if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %s (%v)", answer.Status, err)
	}
	timer.Cmd.Process.Kill()
	worker := begin("zywaited", "-f", config(2), "--push-allow", "localhost")
	if got := receive(t, calls); !strings.HasPrefix(got, `/due{"uid":"`+added.UID+`","name":"n",`) {
		t.Errorf("called with %s", got)
	}
	if strings.Contains(worker.stderr.String(), "listener=zywaited") {
		t.Error("a worker serves")
	}
	code, _, text := run(t, command("zywaited", "-f", config(3)))
	if code != exitUsage || !strings.Contains(text, "--push-allow") {
		t.Errorf("role 3 without --push-allow ends with %d and %s", code, text)
	}
}
