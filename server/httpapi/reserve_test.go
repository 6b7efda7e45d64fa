package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/server/queue"
	"redstalk/tube"
)

// TestLongPoll: a waiting reserve gets the next job of any of its tubes. If the wait ends first, it gets none.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	got := make(chan answer, 1)
	go func() { got <- a.call("POST", "/v1/reserve?tube=a&tube=b%2Fc&wait=60s&n=5", "") }()
	a.awaitWaiting(1)
	a.want(201, "POST", "/v1/tubes/b%2Fc/jobs", "\xff\x00", "Content-Type: image/png")
	jobs := decode[[]leasedJob](t, <-got)
	if len(jobs) != 1 || jobs[0].Tube != "b/c" || jobs[0].Base64 != "/wA=" || jobs[0].Deliveries != 1 || jobs[0].TTR != 60 {
		t.Errorf("%+v", jobs)
	}
	if jobs := a.reserve("tube=a&wait=20ms"); jobs != nil {
		t.Errorf("%+v", jobs)
	}
}

// TestReserveMany: a reserve gets as many jobs as it asks for.
func TestReserveMany(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	var batch []string
	for i := range 1000 {
		batch = append(batch, fmt.Sprintf(`{"body":%d}`, i))
	}
	a.want(200, "POST", "/v1/tubes/many/jobs/batch", "["+strings.Join(batch, ",")+"]")
	if jobs := a.reserve("tube=many&n=300"); len(jobs) != 300 || jobs[299].Body != "299" {
		t.Errorf("%d jobs", len(jobs))
	}
	jobs := a.reserve("tube=many&n=1000&wait=60s")
	if len(jobs) != 700 {
		t.Errorf("%d jobs", len(jobs))
	}
	var done []string
	for _, j := range jobs {
		done = append(done, fmt.Sprintf(`{"id":%d,"lease":%q}`, j.ID, j.Lease))
	}
	for _, one := range decode[[]batchAnswer](t, a.want(200, "POST", "/v1/jobs/finish", "["+strings.Join(done, ",")+"]")) {
		if one.Status != http.StatusNoContent {
			t.Errorf("%+v", one)
		}
	}
	if info := decode[tubeInfo](t, a.want(200, "GET", "/v1/tubes/many", "")); info.Reserved != 300 || info.Deletes != 700 {
		t.Errorf("%+v", info)
	}
}

// TestGoneWhileWaiting: a client that disconnects while it waits takes no job, whether or not it has sent a body.
func TestGoneWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{}"} {
		a := start(t, Config{})
		ctx, leave := context.WithCancel(context.Background())
		gone := make(chan error)
		go func() {
			_, err := a.try(ctx, "POST", "/v1/reserve?tube=t&wait=60s", body)
			gone <- err
		}()
		a.awaitWaiting(1)
		leave()
		if err := <-gone; err == nil {
			t.Error("the request was answered")
		}
		a.awaitWaiting(0)
		a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"x","max":2,"retry":["1h"]}`)
		if jobs := a.reserve("tube=t"); len(jobs) != 1 || jobs[0].Deliveries != 1 {
			t.Errorf("%+v", jobs)
		}
	}
}

// TestUnreadBodyOfReserve: a reserve reads and ignores a body of up to 64 KiB.
func TestUnreadBodyOfReserve(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "POST", "/v1/reserve?wait=1ms", strings.Repeat("x", 64<<10))
	a.want(413, "POST", "/v1/reserve?wait=1m", strings.Repeat("x", 64<<10+1))
}

// TestGoneAtTheSameMoment: clients disconnect just as their job arrives. Each job is either in a written answer,
// or ready again without a failure.
func TestGoneAtTheSameMoment(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	const attempts = 300
	written, held := 0, 0
	for i := range attempts {
		ctx, leave := context.WithCancel(context.Background())
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/reserve?tube=t&wait=60s&n=3", nil)
		r.Header.Set(changeHeader, "1")
		reply, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			a.api.ServeHTTP(reply, r)
			close(ended)
		}()
		a.awaitWaiting(1)
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := a.queue.Put(context.Background(), queue.NewJob{Tube: "t", TTR: 1000, Body: []byte("x")}); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			for range i { // so that it is not always before the put reaches the store
				runtime.Gosched()
			}
			leave()
		})
		both.Wait()
		<-ended
		if reply.Code == http.StatusOK && reply.Body.Len() > 0 {
			written, held = written+1, held+1
		}
		for held <= i { // it was given back, or will be
			some := a.reserve("tube=t&wait=60s")
			if held += len(some); len(some) != 1 || some[0].Failures != 0 {
				t.Fatalf("attempt %d: %+v instead of the job of the client that disconnected", i, some)
			}
		}
	}
	if info := decode[tubeInfo](t, a.want(200, "GET", "/v1/tubes/t", "")); info.Ready != 0 || info.Reserved != attempts {
		t.Errorf("%+v", info)
	}
	t.Logf("%d of %d clients were answered before they disconnected", written, attempts)
}

// TestMaxWaiting: beyond the limit, reserves that would wait are refused, and others are not.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	a := start(t, Config{MaxWaiting: 1})
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	go a.try(ctx, "POST", "/v1/reserve?wait=60s", "")
	a.awaitWaiting(1)
	if got := a.want(429, "POST", "/v1/reserve?wait=60s", ""); got.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	a.want(204, "POST", "/v1/reserve", "")
	leave()
	a.awaitWaiting(0)
	a.want(204, "POST", "/v1/reserve?wait=1ms", "")
}

// TestEndingWhileWaiting: at shutdown, waiting reserves are answered without a job, and do not delay it.
func TestEndingWhileWaiting(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	got := make(chan answer, 1)
	go func() { got <- a.call("POST", "/v1/reserve?wait=1h", "") }()
	a.awaitWaiting(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if reply := <-got; reply.status != http.StatusNoContent {
		t.Errorf("%+v", reply)
	}
}

// TestLeases: only the current lease of a job can move it.
func TestLeases(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(201, "POST", "/v1/tubes/default/jobs", `{"body":"x","priority":5}`)
	old := a.reserve("")[0]
	a.want(404, "DELETE", "/v1/jobs/1", "") // a reserved job cannot be deleted without its lease
	a.want(204, "POST", "/v1/jobs/1/release?lease="+old.Lease, "")
	present := a.reserve("")[0]
	for _, move := range []string{"/release", "/bury", "/touch"} {
		a.want(404, "POST", "/v1/jobs/1"+move+"?lease="+old.Lease, "")
	}
	a.want(404, "DELETE", "/v1/jobs/1?lease="+old.Lease, "")
	a.want(204, "POST", "/v1/jobs/1/bury?lease="+present.Lease, "")
	info := decode[JobInfo](t, a.want(200, "GET", "/v1/jobs/1", ""))
	if info.State != tube.Buried.String() || info.Priority != 5 || info.Failures != 1 || info.Deliveries != 2 {
		t.Errorf("%+v", info)
	}
	a.want(204, "DELETE", "/v1/jobs/1", "")
}

// TestNotes: meta, trace and reasons, in JSON and in queries, and what is wrong with them.
func TestNotes(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	a := start(t, Config{})
	a.want(201, "POST", "/v1/tubes/default/jobs", `{"body":"x","meta":{"b":"ä\n","a":""},"trace":"`+trace+`","retry":["0s","1h"]}`)
	job := a.reserve("")[0]
	if len(job.Lease) != 20 || job.Meta["b"] != "ä\n" || job.Trace != trace || len(job.Retry) != 2 || job.Reason != "" {
		t.Errorf("%+v", job)
	}
	a.want(204, "POST", "/v1/jobs/1/release?reason=no+such+user&lease="+job.Lease, "")
	job = a.reserve("")[0]
	if job.Reason != "no such user" || job.FailedMs == 0 || job.Failures != 1 || job.Meta["b"] != "ä\n" {
		t.Errorf("%+v", job)
	}
	a.want(204, "POST", "/v1/jobs/1/release?failure=no&lease="+strings.TrimLeft(job.Lease, "0"), "")
	job = a.reserve("")[0]
	if job.Failures != 1 || job.Deliveries != 2 || job.Priority != 1024 {
		t.Errorf("after a release that is no failure: %+v", job)
	}
	a.want(204, "POST", "/v1/jobs/1/bury?reason=gone&lease="+job.Lease, "")
	info := decode[JobInfo](t, a.want(200, "GET", "/v1/jobs/1", ""))
	for i := range info.Attempts {
		if info.Attempts[i].Ended == 0 {
			t.Errorf("attempt %d has no time", i)
		}
		info.Attempts[i].Ended = 0
	}
	if want := []AttemptInfo{{How: "buried", Reason: "gone"}, {How: "released", Reason: "no such user"}}; !slices.Equal(info.Attempts, want) {
		t.Errorf("attempts: %+v", info.Attempts)
	}
	if info.Reason != "gone" || info.FailedMs == 0 || info.Trace != trace || len(info.Meta) != 2 {
		t.Errorf("%+v", info)
	}
	for path, field := range map[string]string{
		"/v1/jobs/1/release?lease=1&failure=yes": "failure", "/v1/jobs/1/release?lease=1&failure=no&reason=a": "failure", "/v1/jobs/1/bury?lease=1&reason=": "reason",
	} {
		if p := decode[problem](t, a.want(422, "POST", path, "")); !strings.Contains(p.Detail, field+":") {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for text, field := range map[string]string{`"meta":{"a.b":"c"}`: "meta", `"meta":{"a":"b","A":"c"}`: "meta", `"trace":"` + strings.ToUpper(trace) + `"`: "trace"} {
		if p := decode[problem](t, a.want(422, "POST", "/v1/tubes/default/jobs", `{"body":"x",`+text+"}")); !strings.Contains(p.Detail, field+":") {
			t.Errorf("%s: %+v", text, p)
		}
	}
}
