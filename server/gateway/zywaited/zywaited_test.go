package zywaited

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/queue"
	"redstalk/server/webhook"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// harness is a service on a memory engine inside a synctest bubble, with virtual time. A
// dispatcher calls its tasks on a fake network.
type harness struct {
	*testing.T
	*Service
	http    http.Handler
	network fakeNetwork
	log     *slog.Logger // of the dispatcher
}

// fakeNetwork records calls and answers them.
type fakeNetwork struct {
	mu      sync.Mutex
	at      []time.Duration // since began
	bodies  []string
	began   time.Time
	answers func(n int) (status int, err error) // of the n-th call, from 1
	hold    bool                                // there is no answer

	dispatcher *webhook.Dispatcher // the last one that serve has started
}

func (c *fakeNetwork) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if c.hold {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Since(c.began))
	c.bodies = append(c.bodies, fmt.Sprint(r.Method, " ", r.URL, " ", string(body)))
	status, err := c.answers(len(c.at))
	return &http.Response{StatusCode: status}, err
}

func (c *fakeNetwork) Through(ctx context.Context, target string, call func(context.Context) error) error {
	return c.dispatcher.Through(ctx, target, call)
}

func (c *fakeNetwork) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// times returns the times of the calls.
func (c *fakeNetwork) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// texts returns the contents of the calls.
func (c *fakeNetwork) texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bodies)
}

func withHarness(t *testing.T, c Config, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, log := embedded.NewMemory(), slog.New(slog.DiscardHandler)
		q := queue.New(store, queue.Config{Log: log})
		c.Log = log
		w := &harness{T: t, Service: NewService(q, c), network: fakeNetwork{began: time.Now()}, log: log}
		w.http = NewHTTP(w.Service)
		w.network.answers = func(int) (int, error) { return http.StatusOK, nil }
		test(w)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := q.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		store.Close()
	})
}

// serve makes a dispatcher call the tasks, until end is called.
func (w *harness) serve() (end func()) {
	w.Helper()
	d := webhook.New(w.queue, webhook.Config{Log: w.log})
	w.network.dispatcher = d
	remove, err := (&caller{calls: w.config.Calls, network: &w.network}).register(d)
	if err != nil {
		w.Fatal(err)
	}
	return func() {
		remove()
		if err := d.Close(context.Background()); err != nil {
			w.Errorf("close: %v", err)
		}
	}
}

// send sends a request by HTTP.
func (w *harness) send(method, path, body string) *httptest.ResponseRecorder {
	w.Helper()
	answer := httptest.NewRecorder()
	w.http.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	return answer
}

// add adds a task by HTTP and returns its uid.
func (w *harness) add(body string) string {
	w.Helper()
	var added struct{ UID string }
	answer := w.send("POST", "/task/add", body)
	if err := json.Unmarshal(answer.Body.Bytes(), &added); err != nil || answer.Code != http.StatusOK || len(added.UID) != 32 {
		w.Fatalf("%s is answered %d %s", body, answer.Code, answer.Body)
	}
	return added.UID
}

func (w *harness) get(uid string) *pb.Task {
	w.Helper()
	task, err := w.Get(context.Background(), &pb.RetrieveReq{Uid: uid})
	if err != nil {
		w.Fatalf("get: %v", err)
	}
	return task
}

// TestText: which requests are refused, and how, and which are accepted.
func TestText(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{Allowed: func(u *url.URL) bool { return u.Host != "forbidden:1" }}, func(w *harness) {
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{"POST", "/task/add", `{"name":"n","callback":{"schema":"http","address":"h:1","path":"/p"},"args":"a","other":1}`, 200},
			{"POST", "/task/add", `{"name":"n","time":{"duration":5,"relative":true},"callback":{"schema":"Grpc","address":"h:1"}}`, 200},
			{"POST", "/task/add", `{"name":" ","callback":{"schema":"http","address":"h:1"}}`, 200},
			{"POST", "/task/add", `{"name":"behind","callback":{"schema":"http","address":"h:1"}} {`, 200},
			{"POST", "/task/add", `{"name":"n","args":"` + strings.Repeat(`\"`, 65_535) + `","callback":{"schema":"http","address":"h:1"}}`, 200},
			{"POST", "/task/add/", `{`, 307},
			{"GET", "/task/get/nobody/", ``, 301},
			{"DELETE", "/task/remove/nobody/", ``, 307},
			{"GET", "/task/get/", ``, 404},
			{"POST", "/task/add", `{`, 400},
			{"POST", "/task/add", `{"name":1}`, 400},
			{"POST", "/task/add", `{"callback":{"schema":"http","address":"h:1"}}`, 400},
			{"POST", "/task/add", `{"name":"n"}`, 400},
			{"POST", "/task/add", `{"name":"n","callback":{"address":"h:1"}}`, 400},
			{"POST", "/task/add", `{"name":"n","callback":{"schema":"http"}}`, 400},
			{"POST", "/task/add", `{"name":"n","callback":{"schema":"ftp","address":"h:1"}}`, 400},
			{"POST", "/task/add", `{"name":"n","callback":{"schema":"http","address":"h:port"}}`, 400},
			{"POST", "/task/add", `{"name":"n","callback":{"schema":"http","address":"forbidden:1"}}`, 400},
			{"POST", "/task/add", `{"name":"n","time":{"duration":9223372036854775807},"callback":{"schema":"http","address":"h:1"}}`, 400},
			{"POST", "/task/add", `{"name":"n","time":{"duration":9223372036854,"relative":true},"callback":{"schema":"http","address":"h:1"}}`, 400},
			{"POST", "/task/add", `{"name":"n","args":"` + strings.Repeat("x", 65_536) + `","callback":{"schema":"http","address":"h:1"}}`, 400},
			{"POST", "/task/add", `{"name":"` + strings.Repeat("x", 65_536) + `","callback":{"schema":"http","address":"h:1"}}`, 400},
			{"POST", "/task/add", `} {"name":"n","callback":{"schema":"http","address":"h:1"}}`, 400},
			{"POST", "/task/add", strings.Repeat(" ", 1<<20), 400},
			{"GET", "/task/add", ``, 405},
			{"GET", "/task/get/nobody", ``, 404},
			{"GET", "/task/get/%20", ``, 400},
			{"DELETE", "/task/remove/nobody", ``, 200},
			{"POST", "/task/remove/nobody", ``, 200},
			{"GET", "/other", ``, 404},
		} {
			if answer := w.send(c.method, c.path, c.body); answer.Code != c.status || c.status == 400 && answer.Body.Len() > 0 {
				w.Errorf("%s %s %.80s is answered %d %s, want %d", c.method, c.path, c.body, answer.Code, answer.Body, c.status)
			}
		}
		if s, err := w.queue.Stats(context.Background()); err != nil || s.Jobs != 5 {
			w.Errorf("there are %+v (%v), want 5 tasks", s, err)
		}
		if to := w.send("POST", "/task/remove/nobody/?a=b", "").Header().Get("Location"); to != "/task/remove/nobody?a=b" {
			w.Errorf("redirected to %q", to)
		}
	})
}

// TestOrigins: pages of any origin may send requests.
func TestOrigins(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{}, func(w *harness) {
		r := httptest.NewRequest("OPTIONS", "/task/add", nil)
		r.Header.Set("Origin", "https://any.example")
		answer := httptest.NewRecorder()
		w.http.ServeHTTP(answer, r)
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": "https://any.example", "Access-Control-Allow-Credentials": "true",
			"Access-Control-Allow-Methods": "GET,POST,PUT,DELETE,OPTIONS", "Access-Control-Max-Age": "43200", "Vary": "Origin",
		} {
			if got := answer.Header().Get(name); got != want {
				w.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if answer.Code != http.StatusNoContent {
			w.Errorf("status %d", answer.Code)
		}
	})
}

// TestTimes: none, relative, absolute, past, and the units of the base level.
func TestTimes(t *testing.T) {
	t.Parallel()
	const callback = `"callback":{"schema":"http","address":"h:1"}`
	for _, base := range []time.Duration{time.Nanosecond, time.Millisecond, time.Second} {
		withHarness(t, Config{Base: base}, func(w *harness) {
			defer w.serve()()
			latest, at := int64(tube.Latest)/int64(base), `{"name":"last","time":{"duration":%d},%s}`
			w.add(fmt.Sprintf(at, latest, callback))
			if answer := w.send("POST", "/task/add", fmt.Sprintf(at, latest+1, callback)); answer.Code == http.StatusOK {
				w.Errorf("base %v: accepts a time after the latest: %s", base, answer.Body)
			}
			in := func(d time.Duration) int64 { return int64(time.Now().Add(d).UnixNano()) / int64(base) }
			w.add(`{"name":"none",` + callback + `}`)
			w.add(fmt.Sprintf(`{"name":"past","time":{"duration":%d},%s}`, in(-time.Hour), callback))
			w.add(fmt.Sprintf(`{"name":"absolute","time":{"duration":%d},%s}`, in(7*time.Second), callback))
			w.add(fmt.Sprintf(`{"name":"relative","time":{"duration":%d,"relative":true},%s}`, int64(3*time.Second/base), callback))
			time.Sleep(10 * time.Second)
			var called []int
			for _, d := range w.network.times() {
				called = append(called, int(d/(10*time.Millisecond)))
			}
			if !slices.Equal(called, []int{0, 0, 300, 700}) || !strings.Contains(w.network.texts()[3], `"name":"absolute"`) {
				w.Errorf("base %v: called at %v (10 ms): %v", base, called, w.network.texts())
			}
		})
	}
}

// TestSameContent: requests with the same content and time are one task, whatever its state;
// others are not.
func TestSameContent(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{}, func(w *harness) {
		at := time.Now().Add(time.Minute).UnixMilli()
		task := func(name string, at int64) string {
			return fmt.Sprintf(`{"name":"%s","time":{"duration":%d},"callback":{"schema":"http","address":"h:1"},"args":"x"}`, name, at)
		}
		uid := w.add(task("n", at))
		if again := w.add(task("n", at)); again != uid {
			w.Errorf("added again, the uid is %s and not %s", again, uid)
		}
		time.Sleep(2 * time.Minute)
		if again := w.add(task("n", at)); again != uid || w.get(uid).Type != pb.TaskType_TaskReady {
			w.Errorf("added again, the uid is %s and not %s", again, uid)
		}
		if w.add(task("m", at)) == uid || w.add(task("n", at+1)) == uid {
			w.Error("another task has the same uid")
		}
	})
}

// TestStates: Get shows every state, and Remove works in each.
func TestStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for want, reach := range map[pb.TaskType]func(*harness){
		pb.TaskType_TaskDelay: func(w *harness) {},
		pb.TaskType_TaskReady: func(w *harness) { time.Sleep(2 * time.Second) },
		pb.TaskType_TaskReserved: func(w *harness) {
			w.queue.ReserveLease(ctx, []string{Tube}, time.Minute)
		},
		pb.TaskType_TaskRetryDelay: func(w *harness) {
			job, _ := w.queue.ReserveLease(ctx, []string{Tube}, time.Minute)
			w.queue.MoveLeased(ctx, tube.Release, job.ID, job.Lease, tube.Terms{Delay: 15})
		},
		pb.TaskType_Ignore: func(w *harness) {
			job, _ := w.queue.ReserveLease(ctx, []string{Tube}, time.Minute)
			w.queue.MoveLeased(ctx, tube.Bury, job.ID, job.Lease, tube.Terms{})
		},
	} {
		withHarness(t, Config{}, func(w *harness) {
			began := time.Now()
			uid := w.add(`{"name":"n","time":{"duration":1000,"relative":true},"callback":{"schema":"http","address":"h:1","path":"p"},"args":"secret"}`)
			reach(w)
			next, retries := "", ""
			if want == pb.TaskType_TaskRetryDelay {
				retries, next = `"retry_times":1,`, fmt.Sprintf(`"next_exec_time":%d,`, time.Now().Add(15*time.Second).UnixNano())
			}
			kind := fmt.Sprintf(`"type":%d,`, want)
			if want == pb.TaskType_Ignore {
				kind = ""
			}
			shown := fmt.Sprintf(`{"uid":"%s","name":"n",%s%s"exec_time":%d,%s"schema":"http","address":"h:1","path":"p","created_at":%d,"updated_at":%d}`,
				uid, kind, retries, began.Add(time.Second).UnixNano(), next, began.UnixNano(), began.UnixNano())
			if got := w.send("GET", "/task/get/"+uid, "").Body.String(); got != shown {
				w.Errorf("%v is shown\n%s, want\n%s", want, got, shown)
			}
			if answer := w.send("DELETE", "/task/remove/"+uid, ""); answer.Code != http.StatusOK {
				w.Errorf("removing it is answered %d", answer.Code)
			}
			if answer := w.send("GET", "/task/get/"+uid, ""); answer.Code != http.StatusNotFound {
				w.Errorf("after that it is answered %d %s", answer.Code, answer.Body)
			}
			defer w.serve()()
			time.Sleep(time.Hour)
			if len(w.network.times()) > 0 {
				w.Errorf("%v: it is called at %v", want, w.network.times())
			}
		})
	}
}

// TestSchedule: the tries of a check, the checks, and what follows the last one; a success
// in between ends the schedule.
func TestSchedule(t *testing.T) {
	t.Parallel()
	waits := []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 4 * time.Hour, 8 * time.Hour}
	var want []time.Duration
	for at, i := time.Duration(0), 0; i <= len(waits); i++ {
		want = append(want, at, at+2*time.Second) // two tries, with 2 s between them
		if i < len(waits) {
			at += waits[i]
		}
	}
	for good, length := range map[int]time.Duration{0: 26 * time.Hour, 1: 20 * time.Minute, 2: 20 * time.Minute, 7: 20 * time.Minute} {
		if good == 0 && testing.Short() {
			continue // a day of ticks: make test-long
		}
		withHarness(t, Config{}, func(w *harness) {
			w.network.answers = func(n int) (int, error) {
				switch {
				case n == good:
					return 299, nil
				case n%2 == 0:
					return 0, io.ErrUnexpectedEOF
				}
				return 300, nil
			}
			end := w.serve()
			uid := w.add(`{"name":"n","callback":{"schema":"HTTP","address":"h:1","path":"/p"},"args":"a"}`)
			time.Sleep(length)
			end()
			calls := want
			if good > 0 {
				calls = want[:good]
			}
			if len(w.network.times()) != len(calls) {
				w.Fatalf("good is %d: called at %v, want %v", good, w.network.times(), calls)
			}
			for i, at := range w.network.times() {
				if late := at - calls[i]; late < 0 || late > time.Second {
					w.Errorf("call %d is at %v, want %v", i+1, at, calls[i])
				}
			}
			if body := w.network.texts()[0]; body != `POST http://h:1/p {"uid":"`+uid+`","name":"n","url":"http://h:1/p","args":"a"}` {
				w.Errorf("the call is %s", body)
			}
			answer := w.send("GET", "/task/get/"+uid, "")
			switch {
			case good == 0 && w.get(uid).Type != pb.TaskType_Ignore:
				w.Errorf("at the end: %s", answer.Body)
			case good > 0 && answer.Code != http.StatusNotFound:
				w.Errorf("at the end: %d %s", answer.Code, answer.Body)
			}
		})
	}
}

// TestNextCheck: the waits of the old program, by the number of failures.
func TestNextCheck(t *testing.T) {
	t.Parallel()
	const s, m, h = time.Second, time.Minute, time.Hour
	for i, want := range []time.Duration{15 * s, 30 * s, m, 15 * m, 30 * m, h, 4 * h, 8 * h, 12 * h, 24 * h, 24 * h} {
		if got := nextCheck(i + 1); got != want {
			t.Errorf("after %d failures a task waits %v, not %v", i+1, got, want)
		}
	}
}

// TestBreakerOpen: after ten failures in a row a target gets no calls for half a minute. Its
// tasks keep to their schedule, as if their calls had failed.
func TestBreakerOpen(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{Calls: Calls{Tries: 1, Concurrency: 1}}, func(w *harness) {
		down := time.Now().Add(40 * time.Second)
		w.network.answers = func(int) (int, error) {
			if time.Now().Before(down) {
				return http.StatusInternalServerError, nil
			}
			return http.StatusOK, nil
		}
		defer w.serve()()
		uids := make([]string, 15)
		for i := range uids {
			uids[i] = w.add(fmt.Sprintf(`{"name":"n%d","callback":{"schema":"HTTP","address":"h:1"}}`, i))
		}
		time.Sleep(10 * time.Second)
		if n := len(w.network.times()); n != 10 {
			w.Errorf("called %d times, want 10", n)
		}
		for _, uid := range uids {
			if s := w.get(uid); s.RetryTimes != 1 || s.Type != pb.TaskType_TaskRetryDelay {
				w.Errorf("a task is %v", s)
			}
		}
		time.Sleep(20 * time.Second) // the second checks come while the breaker is open
		if n := len(w.network.times()); n != 10 {
			w.Errorf("called %d times while the breaker is open, want 10", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(w.network.times()); n != 10+len(uids) {
			w.Errorf("called %d times in all, want %d", n, 10+len(uids))
		}
	})
}

// TestWorkerGone: a task that was taken by a worker which has died is called again by
// another one, after the TTR.
func TestWorkerGone(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{}, func(w *harness) {
		w.add(`{"name":"n","callback":{"schema":"HTTP","address":"h:1"}}`)
		if _, err := w.queue.ReserveLease(context.Background(), []string{Tube}, time.Minute); err != nil {
			w.Fatal(err)
		}
		defer w.serve()()
		time.Sleep(time.Minute)
		if len(w.network.times()) != 1 || w.network.times()[0] < 15*time.Second || w.network.times()[0] > 20*time.Second {
			w.Errorf("called at %v", w.network.times())
		}
	})
}

// TestSlow: a store that takes too long.
func TestSlow(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{}, func(w *harness) {
		ctx, cancel := context.WithTimeout(context.Background(), 0)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", "/task/get/x", nil)
		answer := httptest.NewRecorder()
		w.http.ServeHTTP(answer, r)
		if answer.Code != http.StatusGatewayTimeout || answer.Body.Len() > 0 {
			w.Errorf("it is answered %d %s", answer.Code, answer.Body)
		}
	})
}

// TestLog: a failed call is logged, at most once in ten seconds for each target.
func TestLog(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{Calls: Calls{Tries: 1}}, func(w *harness) {
		var text strings.Builder
		w.log = slog.New(slog.NewTextHandler(&text, nil))
		w.network.answers = func(int) (int, error) { return http.StatusTeapot, nil }
		end := w.serve()
		for i := range 6 {
			w.add(fmt.Sprintf(`{"name":"n%d","callback":{"schema":"HTTP","address":"H%d:1","path":"secret"}}`, i, i%2))
		}
		time.Sleep(5 * time.Second)
		end()
		all := text.String()
		for _, host := range []string{"h0", "h1"} {
			if n := strings.Count(all, "target=http://"+host+":1"); n != 1 {
				t.Errorf("%d lines for %s", n, host)
			}
		}
		if strings.Count(all, "status 418") != 2 || strings.Contains(all, "secret") {
			t.Errorf("the log says %s", all)
		}
	})
}

// TestCutOff: a call that is cut off because its worker ends does not count as failed.
func TestCutOff(t *testing.T) {
	t.Parallel()
	withHarness(t, Config{Calls: Calls{Timeout: time.Hour}}, func(w *harness) {
		w.network.hold = true
		w.serve()
		uid := w.add(`{"name":"n","callback":{"schema":"HTTP","address":"h:1"}}`)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.network.dispatcher.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("close: %v", err)
		}
		if s := w.get(uid); s.Type != pb.TaskType_TaskReady || s.RetryTimes != 0 {
			w.Errorf("the task is %v", s)
		}
	})
}

// TestConns: calls to an address share a connection, until one of them fails so that the
// connection may be broken. Then the connection is closed when all its users have ended.
func TestConns(t *testing.T) {
	t.Parallel()
	var c conns
	get := func() (*conn, func(error)) {
		t.Helper()
		conn, release, err := c.get(&fakeNetwork{}, "h:1")
		if err != nil {
			t.Fatal(err)
		}
		return conn, release
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	late := status.Error(codes.DeadlineExceeded, "so")
	first, release := get()
	release(nil)
	again, release := get()
	release(status.Error(codes.Internal, "so"))
	other, releaseOther := get()
	third, release := get()
	if again != first || other != first || third != first {
		t.Error("calls do not share a connection")
	}
	release(late)
	second, release := get()
	if second == first || first.GetState() == connectivity.Shutdown {
		t.Errorf("another one: %v; the first one is %v, and in use", second != first, first.GetState())
	}
	err := second.Invoke(ctx, pb.Callback_Send_FullMethodName, &pb.CallBackReq{}, new(emptypb.Empty)) // there is no server
	release(err)
	third, release = get()
	if third == second {
		t.Errorf("it is used again after %v", err)
	}
	releaseOther(late) // must not affect the third
	fourth, releaseFourth := get()
	if fourth != third {
		t.Error("a call on the first connection has ended the use of another")
	}
	release(nil)
	releaseFourth(nil)
	c.close()
	for i, conn := range []*conn{first, second, third} {
		for state := conn.GetState(); state != connectivity.Shutdown; state = conn.GetState() {
			if !conn.WaitForStateChange(ctx, state) {
				t.Fatalf("connection %d is %v", i, state)
			}
		}
	}
}

// TestIdleConns: connections that are not in use and have not been for long are closed, some at a time.
func TestIdleConns(t *testing.T) {
	t.Parallel()
	var c conns
	defer c.close()
	for i := range sweepAtOne + 3 {
		_, release, err := c.get(&fakeNetwork{}, fmt.Sprintf("h:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			release(nil)
		}
	}
	first := c.swept
	for _, one := range []struct {
		after time.Duration
		left  int
	}{{connIdle, sweepAtOne + 3}, {connIdle + connSweep, 3}, {connIdle + 2*connSweep - 1, 3}, {connIdle + 2*connSweep, 1}} {
		if c.sweep(first.Add(one.after)); len(c.all) != one.left || c.all["h:0"] == nil {
			t.Errorf("after %v there are %d, want %d and that in use", one.after, len(c.all), one.left)
		}
	}
}

// TestResults: how failed callbacks are classified in metrics.
func TestResults(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		err  error
		want webhook.Result
	}{
		{fmt.Errorf("%w: status 500", errAnswer), webhook.Failed},
		{fmt.Errorf("so: %w", context.DeadlineExceeded), webhook.TimedOut},
		{webhook.ErrForbidden, webhook.Forbidden},
		{io.ErrUnexpectedEOF, webhook.Broken},
		{status.Error(codes.DeadlineExceeded, ""), webhook.TimedOut},
		{status.Error(codes.Unavailable, ""), webhook.Broken},
		{status.Error(codes.Internal, ""), webhook.Failed},
		{status.Error(codes.Unimplemented, ""), webhook.Failed},
	} {
		if got := resultOf(one.err); got != one.want {
			t.Errorf("%v is %v, want %v", one.err, got, one.want)
		}
	}
}

// forbiddenNetwork is a network that allows no address.
type forbiddenNetwork struct{ fakeNetwork }

func (*forbiddenNetwork) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, webhook.ErrForbidden
}

// TestForbiddenByGRPC: a gRPC callback to an address that is not allowed has that result,
// instead of a broken connection.
func TestForbiddenByGRPC(t *testing.T) {
	t.Parallel()
	c := &caller{network: &forbiddenNetwork{}}
	defer c.conns.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.sendGRPC(ctx, &task{Address: "h:1"}, &pb.CallBackReq{}); resultOf(err) != webhook.Forbidden {
		t.Errorf("%v", err)
	}
	if len(c.conns.all) != 0 {
		t.Error("the connection is kept, and waits before it asks again")
	}
}
