package ruffianjiang_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/gateway/ruffianjiang"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/server/webhook"
	"redstalk/storage/embedded"
	"redstalk/tube"
	"redstalk/tube/field"
)

// TestText: the paths, their parameters, and the errors, in the order of the old program's
// checks.
func TestText(t *testing.T) {
	noLong := func(v string) string {
		return refused("Failed to convert value of type 'java.lang.String' to required type 'java.lang.Long'; " +
			"nested exception is java.lang.NumberFormatException: For input string: \"" + v + "\"")
	}
	withHarness(t, func(w *harness) {
		for _, c := range []struct{ method, path, body, answer string }{
			{"POST", "/push", "", refused("Required String parameter 'topic' is not present")},
			{"POST", "/push", "topic=t", refused("Required Long parameter 'delayTime' is not present")},
			{"POST", "/push", "topic=t&delayTime=1", refused("Required Long parameter 'ttrTime' is not present")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=", refused("Required Long parameter 'ttrTime' is not present")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=x", noLong("x")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=1", refused("Required String parameter 'message' is not present")},
			{"POST", "/push", "topic=&delayTime=1&ttrTime=1&message=m", refused("topic must not be empty")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=-1&message=m", refused("ttrTime is from 0 to 4294967295 seconds")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=4294967296&message=m", refused("ttrTime is from 0 to 4294967295 seconds")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=99999999999999999999&message=m", noLong("99999999999999999999")},
			{"POST", "/push", "topic=t&delayTime=99999999999999&ttrTime=1&message=m", refused("delayTime 99999999999999 is out of range")},
			{"POST", "/push", "topic=t&delayTime=tomorrow&ttrTime=1&message=m",
				refused(`delayTime "tomorrow" is neither milliseconds since 1970 nor a date such as 2006-01-02 15:04:05`)},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=1&message=m&max=0", refused("max is from 1 to 1000000 deliveries")},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=1&message=m&retry=1x", refused(`retry: "1x" is no duration such as 10m`)},
			{"POST", "/push", "topic=t&delayTime=1&ttrTime=1&message=m&on-duplicate=x", refused("on-duplicate is keep, replace or fail")},
			{"POST", "/push", "topic=%zz", refused("the form cannot be read")},
			{"POST", "/push?topic=%zz", "", refused("the query cannot be read")},
			{"POST", "/push?topic=t", "delayTime=1&ttrTime=1&message=" + strings.Repeat("x", 1001), refused("JOB_TOO_BIG")},
			{"POST", "/push", "topic=" + strings.Repeat("x", 1<<17), refused("the request has more than 71536 bytes")},
			{"GET", "/push?topic=t", "", refused("Request method 'GET' not supported")},
			{"POST", "/pop/t", "", refused("Request method 'POST' not supported")},
			{"GET", "/pop/t?n=0", "", refused("n is from 1 to 1000 jobs")},
			{"GET", "/pop/t?wait=x", "", refused(`wait: "x" is no duration such as 30s`)},
			{"GET", "/pop/t", "", `{"msg":"操作成功！","code":0,"data":null}`},
			{"GET", "/pop/t?n=2", "", `{"msg":"操作成功！","code":0,"data":[]}`},
			{"POST", "/finish", "", refused("Required Long parameter 'id' is not present")},
			{"POST", "/finish", "id=abc", noLong("abc")},
			{"POST", "/finish", "id=9223372036854775807", done},
			{"POST", "/finish", "id=-5", done},
			{"POST", "/delete", "id=5", done},
			{"GET", "/get?id=5", "", `{"msg":"操作成功！","code":0,"data":null}`},
			{"GET", "/rest/test/push?ttrTime=5", "", refused("Required String parameter 'message' is not present")},
			{"GET", "/rest/test/push?ttrTime=-5&message=m", "", refused("ttrTime is from 0 to 4294967295 seconds")},
			{"GET", "/rest/test/push?ttrTime=5&message=m", "", "success"},
		} {
			w.want(c.method, c.path, c.body, c.answer)
		}
		if stats, err := w.queue.Stats(context.Background()); err != nil || stats.Jobs != 1 {
			w.Errorf("there are %+v (%v), want one job", stats, err)
		}
		time.Sleep(6 * time.Second)
		w.wantPop("/pop/redisson_delay_Queue", "m")
		if page := w.do("GET", "/swagger-ui.html", ""); !strings.Contains(page, "/push") {
			w.Errorf("the page is %s", page)
		}
	})
}

// TestRepeated: texts that are given several times are joined with commas, as by the old
// program; of numbers the first one counts. OPTIONS returns the methods.
func TestRepeated(t *testing.T) {
	withHarness(t, func(w *harness) {
		w.do("POST", "/push/?topic=a&message=x&delayTime=1&ttrTime=7", "topic=b&message=y&message=&delayTime=99999999999999&ttrTime=x")
		jobs := w.wantPop("/pop/a,b/", "x,y,")
		if len(jobs) != 1 || jobs[0].TTRTime != 7 || jobs[0].DelayTime != 1 {
			w.Errorf("the job is %+v", jobs)
		}
		w.want("POST", "/finish/", "id=5&id=x", done)
		w.want("POST", "/finish", "id=&id=5", refused("Required Long parameter 'id' is not present"))
		for path, want := range map[string]string{"/push": "POST,OPTIONS", "/pop/t": "GET,HEAD,OPTIONS", "/get/": "GET,HEAD,OPTIONS"} {
			answer := httptest.NewRecorder()
			w.handler.ServeHTTP(answer, httptest.NewRequest("OPTIONS", path, nil))
			if got := answer.Header().Get("Allow"); answer.Code != http.StatusOK || got != want {
				w.Errorf("OPTIONS %s: %d, %q", path, answer.Code, got)
			}
		}
	})
}

// TestFlow: pop does not wait, and answers the whole job with the time of the push. A job
// that is not finished is delivered again after its TTR.
func TestFlow(t *testing.T) {
	withHarness(t, func(w *harness) {
		due := time.Now().UnixMilli() + 1234
		id := w.push("topic", "ql", "delayTime", strconv.FormatInt(due, 10), "ttrTime", "5", "message", `{"a":1}`)
		shown := fmt.Sprintf(`{"msg":"操作成功！","code":0,"data":{"id":"%s","topic":"ql","delayTime":%d,"ttrTime":5,"message":"{\"a\":1}"}}`, id, due)
		time.Sleep(1233 * time.Millisecond)
		w.wantPop("/pop/ql")
		w.want("GET", "/get?id="+id, "", shown)
		time.Sleep(2 * time.Millisecond)
		for range 3 {
			w.want("GET", "/pop/ql", "", shown)
			w.wantPop("/pop/ql")
			time.Sleep(5001 * time.Millisecond)
		}
		w.want("POST", "/finish?id="+id, "", done)
		time.Sleep(10 * time.Second)
		w.wantPop("/pop/ql")
	})
}

// TestTimes: both forms of delayTime.
func TestTimes(t *testing.T) {
	withHarness(t, func(w *harness) { // it is midnight UTC at the beginning of 2000
		for _, c := range []struct {
			text string
			due  int64 // ms
		}{
			{"1632912536123", 1632912536123},
			{"946684800001", 946684800001},
			{"2000-01-01 08:00:01", 946684801000},
			{"2000-01-01 09:00:01+09:00", 946684801000},
			{"2000-01-01T00:00:01.5Z", 946684801500},
			{"1", 1},
			{"-1", -1},
		} {
			id := w.push("topic", "t", "delayTime", c.text, "ttrTime", "5", "message", "m")
			if got := w.do("GET", "/get?id="+id, ""); !strings.Contains(got, fmt.Sprintf(`"delayTime":%d,`, c.due)) {
				w.Errorf("%s has become %s, want %d", c.text, got, c.due)
			}
		}
		w.wantPop("/pop/t?n=9", "m", "m") // those that were due before
		time.Sleep(5 * time.Millisecond)
		w.wantPop("/pop/t?n=9", "m")
		time.Sleep(999 * time.Millisecond)
		w.wantPop("/pop/t?n=9", "m", "m")
		time.Sleep(500 * time.Millisecond)
		w.wantPop("/pop/t?n=9", "m")
	})
}

func TestZones(t *testing.T) {
	for name, offset := range map[string]int{
		"+08:00": 8 * 3600, "GMT+8": 8 * 3600, "UTC-3": -3 * 3600, "-05:30": -5*3600 - 1800, "UTC": 0, "GMT": 0,
		"+18:00": 18 * 3600, "-00:59": -59 * 60,
	} {
		zone, err := ruffianjiang.ParseZone(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, got := time.Unix(0, 0).In(zone).Zone(); got != offset {
			t.Errorf("%s is %d seconds, want %d", name, got, offset)
		}
	}
	for _, name := range []string{"", "Local", "+", "GMT+99", "+08:99", "+19:00", "+08:60", "+8:x", "Mars/Olympus", "+-8"} {
		if zone, err := ruffianjiang.ParseZone(name); err == nil {
			t.Errorf("%q is %v", name, zone)
		}
	}
}

// TestLimits: each number is accepted up to its limit, and refused beyond.
func TestLimits(t *testing.T) {
	const most = 1<<63/1_000_000 - 1 // the last millisecond that nanoseconds can represent
	retry := func(n int) string { return strings.Repeat("1s,", n-1) + "1s" }
	withHarness(t, func(w *harness) {
		push := "topic=t&message=m&delayTime=1&ttrTime=1"
		for _, c := range []struct{ path, params, name, good, bad string }{
			{"POST /push", "topic=t&message=m&ttrTime=1", "delayTime", fmt.Sprint(most), fmt.Sprint(most + 1)},
			{"POST /push", "topic=t&message=m&ttrTime=1", "delayTime", fmt.Sprint(-most), fmt.Sprint(-most - 1)},
			{"POST /push", "topic=t&message=m&ttrTime=1", "delayTime", "2262-04-11 00:00:00", "2262-04-13 00:00:00"},
			{"POST /push", "topic=t&message=m&delayTime=1", "ttrTime", "0", "-1"},
			{"POST /push", "topic=t&message=m&delayTime=1", "ttrTime", "4294967295", "4294967296"},
			{"POST /push", "topic=t&delayTime=1&ttrTime=1", "message", strings.Repeat("m", 1000), strings.Repeat("m", 1001)},
			{"POST /push", "message=m&delayTime=1&ttrTime=1", "topic", " ", ""},
			{"POST /push", push, "max", "1", "0"},
			{"POST /push", push, "max", fmt.Sprint(field.MaxDeliveries), fmt.Sprint(field.MaxDeliveries + 1)},
			{"POST /push", push, "retry", retry(field.MaxRetry), retry(field.MaxRetry + 1)},
			{"POST /push", push, "retry", "{0,0," + retry(field.MaxRetry) + "}", "{0,0," + retry(field.MaxRetry+1) + "}"},
			{"POST /push", push, "retry", "{0,0,1s}", "{0,1s}"},
			{"GET /pop/none", "", "n", "1", "0"},
			{"GET /pop/none", "", "n", "1000", "1001"},
			{"GET /rest/test/push", "message=m", "ttrTime", "0", "-1"},
			{"GET /rest/test/push", "message=m", "ttrTime", "4294967295", "4294967296"},
		} {
			method, path, _ := strings.Cut(c.path, " ")
			for _, value := range []string{c.good, c.bad} {
				got := w.do(method, path+"?"+c.params+"&"+url.Values{c.name: {value}}.Encode(), "")
				if refused := strings.Contains(got, `"code":1`); refused != (value == c.bad) {
					w.Errorf("%s with %s=%.50s answers %.300s", c.path, c.name, value, got)
				}
			}
		}
	})
}

// TestEnded: when the store has ended, each path that needs it answers an error without
// details.
func TestEnded(t *testing.T) {
	withHarness(t, func(w *harness) {
		w.store.Close()
		for _, request := range []string{
			"POST /push?topic=t&message=m&delayTime=1&ttrTime=1", "GET /pop/t", "GET /pop/t?wait=10s&n=5", "POST /finish?id=1", "POST /delete?id=1", "GET /get?id=1",
			"GET /rest/test/push?ttrTime=1&message=m",
		} {
			method, path, _ := strings.Cut(request, " ")
			w.want(method, path, "", refused("INTERNAL_ERROR"))
		}
	})
}

// TestEnding: a waiting pop is answered without a job when the server shuts down.
func TestEnding(t *testing.T) {
	t.Parallel()
	store, log := embedded.NewMemory(), slog.New(slog.DiscardHandler)
	defer store.Close()
	q := queue.New(store, queue.Config{Log: log})
	defer q.Close(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpserve.New(ruffianjiang.New(q, ruffianjiang.Config{Log: log}), httpserve.Config{Log: log})
	go server.Serve(l)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for q.Waiters() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		ended <- server.Shutdown(ctx)
	}()
	reply, err := http.Get("http://" + l.Addr().String() + "/pop/t?wait=1h")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if want := `{"msg":"操作成功！","code":0,"data":null}`; string(text) != want || err != nil {
		t.Errorf("the answer is %s (%v), want %s", text, err, want)
	}
	if err := <-ended; err != nil {
		t.Errorf("ending: %v", err)
	}
}

// TestNoDuplicates is the second item on the old program's list: a task is put once.
func TestNoDuplicates(t *testing.T) {
	withHarness(t, func(w *harness) {
		soon := strconv.FormatInt(time.Now().UnixMilli()+1000, 10)
		push := func(message, what string) string {
			return w.push("topic", "t", "delayTime", soon, "ttrTime", "5", "message", message, "key", "order 7", "on-duplicate", what)
		}
		first := push("first", "keep")
		if again := push("again", "keep"); again != first {
			w.Errorf("put again, it has the id %s and not %s", again, first)
		}
		w.want("POST", "/push", "topic=t&delayTime=1&ttrTime=1&message=m&on-duplicate=fail&key=order%207", refused("DUPLICATE "+first))
		push("new", "replace")
		time.Sleep(2 * time.Second)
		jobs := w.wantPop("/pop/t?n=9", "new")
		if want := time.Now().Add(-time.Second).UnixMilli(); jobs[0].DelayTime != want {
			w.Errorf("it was due at %d, want %d", jobs[0].DelayTime, want)
		}
	})
}

// TestManyConsumers is the first and the third item on the list, in one instance: with many
// consumers of one topic, no job is delivered twice within its TTR. Several instances are
// tested with the whole program.
func TestManyConsumers(t *testing.T) {
	withHarness(t, func(w *harness) {
		const jobs, consumers = 200, 10
		for i := range jobs {
			w.push("topic", "t", "delayTime", "1", "ttrTime", "60", "message", strconv.Itoa(i))
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		seen := make(map[string]int)
		for range consumers {
			all.Go(func() {
				for {
					got := w.pop("/pop/t")
					if len(got) == 0 {
						return
					}
					mu.Lock()
					seen[got[0].Message]++
					mu.Unlock()
					w.want("POST", "/finish", "id="+got[0].ID, done)
				}
			})
		}
		all.Wait()
		for message, n := range seen {
			if n != 1 {
				w.Errorf("job %s came %d times", message, n)
			}
		}
		if len(seen) != jobs {
			w.Errorf("%d jobs came, want %d", len(seen), jobs)
		}
	})
}

// TestGroups is the fourth item on the list: jobs of the same moment are delivered together.
func TestGroups(t *testing.T) {
	withHarness(t, func(w *harness) {
		at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) }
		for i, d := range []time.Duration{2 * time.Second, time.Second, 2 * time.Second, time.Second, time.Second} {
			w.push("topic", "t", "delayTime", at(d), "ttrTime", "60", "message", strconv.Itoa(i))
		}
		w.wantPop("/pop/t?n=10&wait=1m", "1", "3", "4")
		w.wantPop("/pop/t?n=10&wait=1m", "0", "2")
	})
}

// TestWaiting is the fifth item on the list: waiting instead of polling.
func TestWaiting(t *testing.T) {
	withHarness(t, func(w *harness) {
		w.push("topic", "t", "delayTime", strconv.FormatInt(time.Now().UnixMilli()+3500, 10), "ttrTime", "60", "message", "m")
		began := time.Now()
		w.wantPop("/pop/t?wait=30s", "m")
		if took := time.Since(began); took < 3500*time.Millisecond || took > 3510*time.Millisecond {
			w.Errorf("took %v", took)
		}
		w.wantPop("/pop/t?wait=10")
		if took := time.Since(began); took < 13*time.Second || took > 14*time.Second {
			w.Errorf("took %v", took)
		}
	})
}

// TestPushed is the sixth item on the list: consumers are called instead of polling.
func TestPushed(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	consumer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer consumer.Close()
	allow, err := webhook.ParseAllow("localhost")
	if err != nil {
		t.Fatal(err)
	}
	log, ctx := slog.New(slog.DiscardHandler), context.Background()
	store := embedded.NewMemory()
	defer store.Close()
	q := queue.New(store, queue.Config{Log: log, MayPush: allow.URL})
	defer q.Close(ctx)
	d := webhook.New(q, webhook.Config{Allow: allow, Log: log})
	defer d.Close(ctx)
	if err := q.SetPolicy(ctx, "ql", &tube.Policy{Push: tube.Push{URL: consumer.URL}}); err != nil {
		t.Fatal(err)
	}
	w := &harness{t, store, q, ruffianjiang.New(q, ruffianjiang.Config{Log: log})}
	w.push("topic", "ql", "delayTime", "1", "ttrTime", "60", "message", "pushed")
	select {
	case message := <-got:
		if message != "pushed" {
			t.Errorf("the consumer got %q", message)
		}
	case <-time.After(time.Minute):
		t.Error("the consumer is not called")
	}
}

// TestFigures is the seventh item on the list, as far as the gateway is concerned: its jobs
// count in the figures of their tube, which all listeners show.
func TestFigures(t *testing.T) {
	withHarness(t, func(w *harness) {
		for range 3 {
			w.push("topic", "订单", "delayTime", "1", "ttrTime", "60", "message", "m")
		}
		w.push("topic", "订单", "delayTime", strconv.FormatInt(time.Now().UnixMilli()+3500, 10), "ttrTime", "60", "message", "m")
		jobs := w.pop("/pop/%E8%AE%A2%E5%8D%95?n=2")
		w.want("POST", "/finish", "id="+jobs[0].ID, done)
		if jobs[0].Topic != "订单" {
			w.Errorf("the topic is %q", jobs[0].Topic)
		}
		s, err := w.queue.TubeStats(context.Background(), "$$E8$AE$A2$E5$8D$95")
		if err != nil || s.Ready != 1 || s.Delayed != 1 || s.Reserved != 1 || s.Total != 4 || s.Deletes != 1 {
			w.Errorf("the figures are %+v (%v)", s, err)
		}
	})
}

// TestRetries is the extension of the list: the schedule of a notification. Each delivery
// shows the list and its number, and after the last one the job is parked.
func TestRetries(t *testing.T) {
	const schedule = "{0,0,2m,10m,10m,1h,2h,6h,15h}"
	const ttr = 10 * time.Second
	minutes := []int64{2, 10, 10, 60, 120, 360, 900}
	deliver := func(w *harness, failures int) (offsets []time.Duration) {
		began := time.Now()
		for n := uint32(1); ; n++ {
			jobs := w.pop("/pop/t?wait=16h")
			if len(jobs) == 0 {
				w.Fatalf("no delivery after %v", offsets)
			}
			for i, ms := range jobs[0].Retry {
				if ms != minutes[i]*60_000 {
					w.Errorf("wait %d is %d ms", i, ms)
				}
			}
			if len(jobs[0].Retry) != len(minutes) || jobs[0].N != n {
				w.Errorf("delivery %d is %+v", n, jobs[0])
			}
			offsets = append(offsets, (time.Since(began) - time.Duration(n-1)*ttr).Round(time.Second))
			if int(n) > failures {
				w.want("POST", "/finish", "id="+jobs[0].ID, done)
				return offsets
			}
			if int(n) > len(minutes) {
				time.Sleep(ttr + time.Second)
				return offsets
			}
		}
	}
	want := []time.Duration{0}
	for _, m := range minutes {
		want = append(want, want[len(want)-1]+time.Duration(m)*time.Minute)
	}
	for _, failures := range []int{100, 3, 0} {
		withHarness(t, func(w *harness) {
			id := w.push("topic", "t", "delayTime", "1", "ttrTime", "10", "message", "m", "retry", schedule)
			if got := deliver(w, failures); !slices.Equal(got, want[:min(failures+1, len(want))]) {
				w.Errorf("delivered at %v, want %v", got, want)
			}
			n, _ := strconv.ParseUint(id, 10, 64)
			s, err := w.queue.JobStats(context.Background(), n)
			switch parked := failures == 100; {
			case parked && (err != nil || s.State != tube.Buried || s.Metadata.Parked != tube.ParkedRetries):
				w.Errorf("at the end the job is %+v (%v)", s, err)
			case !parked && err != queue.ErrNotFound:
				w.Errorf("at the end the job is %+v (%v)", s, err)
			}
		})
	}
}

// TestMultipart: a form can be multipart.
func TestMultipart(t *testing.T) {
	withHarness(t, func(w *harness) {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for name, value := range map[string]string{"topic": "t", "delayTime": "1", "ttrTime": "5", "message": "in parts"} {
			form.WriteField(name, value)
		}
		form.Close()
		r := httptest.NewRequest(http.MethodPost, "/push", &body)
		r.Header.Set("Content-Type", form.FormDataContentType())
		w.answer(r)
		w.wantPop("/pop/t", "in parts")
	})
}

// TestClientGone: a client that leaves while it waits takes no job with it.
func TestClientGone(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan bool)
		go func() {
			w.answer(httptest.NewRequestWithContext(ctx, http.MethodGet, "/pop/t?wait=1h&n=3", nil))
			close(ended)
		}()
		synctest.Wait()
		cancel()
		<-ended
		w.push("topic", "t", "delayTime", "1", "ttrTime", "60", "message", "m")
		w.wantPop("/pop/t", "m")
	})
}

// FuzzPush: for any form, the answer is a result and nothing breaks.
func FuzzPush(f *testing.F) {
	for _, seed := range []string{"topic=t&delayTime=1&ttrTime=1&message=m", "delayTime=2000-01-01 00:00:00&topic=t&retry={0,0,1}", "%", "topic=%ff&max=3&dead=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, form string) {
		withHarness(t, func(w *harness) {
			if got := w.do("POST", "/push", form); !strings.HasPrefix(got, `{"msg":`) {
				w.Errorf("%q is answered %s", form, got)
			}
		})
	})
}
