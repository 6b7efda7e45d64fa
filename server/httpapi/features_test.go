package httpapi

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestFeatures has the features of delay queues on Redis sorted sets: deduplication, cancelling before a job is
// due, retries by a list or none, parking of jobs that failed too often, and concurrent consumers of several
// topics without a lock.
func TestFeatures(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	t.Run("a duplicate is refused", func(t *testing.T) {
		const job = `{"body":"x","key":"order-1","delay":"1h","on_duplicate":"fail"}`
		first := decode[putAnswer](t, a.want(201, "POST", "/v1/tubes/orders/jobs", job))
		if p := decode[problem](t, a.want(409, "POST", "/v1/tubes/orders/jobs", job)); p.Code != "DUPLICATE" || p.ID != first.ID {
			t.Errorf("%+v", p)
		}
		again := decode[putAnswer](t, a.want(201, "POST", "/v1/tubes/orders/jobs", `{"body":"x","key":"order-1"}`))
		if again != (putAnswer{first.ID, "delayed", true}) {
			t.Errorf("%+v", again)
		}
	})
	t.Run("cancelled before it is due", func(t *testing.T) {
		a.want(204, "DELETE", "/v1/tubes/orders/keys/order-1", "")
		a.want(404, "GET", "/v1/tubes/orders/keys/order-1", "")
		if info := decode[serverInfo](t, a.want(200, "GET", "/v1/server", "")); info.Delayed != 0 {
			t.Errorf("%+v", info)
		}
	})
	t.Run("retried by a list, then parked", func(t *testing.T) {
		a.fails("retried", `"retry":["1ms","2ms","3ms"]`, 4, "retries")
	})
	t.Run("retried by the policy of the tube", func(t *testing.T) {
		a.want(204, "PUT", "/v1/tubes/ruled/policy", `{"retry":["1ms","1ms"]}`)
		a.fails("ruled", `"ttr":60`, 3, "retries")
	})
	t.Run("not retried", func(t *testing.T) {
		a.fails("once", `"max":1`, 1, "deliveries")
	})
	t.Run("moved to a dead-letter tube", func(t *testing.T) {
		a.want(201, "POST", "/v1/tubes/source/jobs", `{"body":"dead","max":1,"dead":"morgue","key":"k"}`)
		job := a.reserve("tube=source")[0]
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", job.ID, job.Lease), "")
		dead := a.reserve("tube=morgue&wait=60s")
		info := decode[JobInfo](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", dead[0].ID), ""))
		if info.FromTube != "source" || info.FromID != job.ID || info.Key != "k" || info.Max != 0 || info.Dead != "" {
			t.Errorf("%+v", info)
		}
		if own := info.AfterReplay; own == nil || *own.Max != 1 || *own.Dead != "morgue" {
			t.Errorf("after a replay: %+v", own)
		}
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", dead[0].ID, dead[0].Lease), "")
	})
	t.Run("moved from there", func(t *testing.T) {
		for _, to := range []string{"source", "elsewhere"} {
			dead := a.reserve("tube=morgue&wait=60s")[0]
			a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", dead.ID, dead.Lease), "")
			a.want(200, "POST", "/v1/jobs/actions", fmt.Sprintf(`{"action":"move","ids":[%d],"to":%q}`, dead.ID, to))
			job := a.reserve("tube=" + to)[0]
			info := decode[JobInfo](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", job.ID), ""))
			if home := to == "source"; info.FromTube != "source" || (info.AfterReplay == nil) != home || (info.Max == 1) != home || (info.Dead == "morgue") != home {
				t.Errorf("moved to %s: %+v", to, info)
			}
			a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", job.ID, job.Lease), "") // at home it is exhausted again
		}
	})
	t.Run("consumers of topics", a.consumers)
}

// TestPutTime: a job says when it was put.
func TestPutTime(t *testing.T) {
	t.Parallel()
	a, before := start(t, Config{}), time.Now().UnixMilli()
	id := decode[putAnswer](t, a.want(201, "POST", "/v1/tubes/times/jobs", `{"body":"x"}`)).ID
	info := decode[JobInfo](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", id), ""))
	if info.Put < before || info.Put > time.Now().UnixMilli() {
		t.Errorf("put at %d, not at %d or later", info.Put, before)
	}
}

// fails lets every delivery of a job fail, and checks the number of deliveries until the job is parked, and the
// reason.
func (a *harness) fails(tube, rules string, deliveries int, parked string) {
	a.t.Helper()
	id := decode[putAnswer](a.t, a.want(201, "POST", "/v1/tubes/"+tube+"/jobs", `{"body":"x",`+rules+`}`)).ID
	for i := range deliveries {
		jobs := a.reserve("tube=" + tube + "&wait=60s")
		if len(jobs) != 1 || jobs[0].ID != id || jobs[0].Deliveries != uint32(i+1) || jobs[0].Failures != uint32(i) {
			a.t.Fatalf("delivery %d: %+v", i+1, jobs)
		}
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", id, jobs[0].Lease), "")
	}
	info := decode[JobInfo](a.t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", id), ""))
	if info.State != "buried" || info.Parked != parked {
		a.t.Errorf("after %d deliveries: %+v", deliveries, info)
	}
}

// consumers runs several consumers for each of several topics. Each job is delivered once.
func (a *harness) consumers(t *testing.T) {
	const topics, each, jobs = 3, 3, 30
	var mu sync.Mutex
	got := make(map[string]int)
	var all sync.WaitGroup
	for topic := range topics {
		for range each {
			all.Go(func() {
				for {
					some := a.reserve(fmt.Sprintf("tube=topic%d&wait=60s", topic))
					if len(some) == 0 {
						t.Errorf("a reserve from topic %d timed out", topic)
						return
					}
					a.want(204, "DELETE", fmt.Sprintf("/v1/jobs/%d?lease=%s", some[0].ID, some[0].Lease), "")
					if some[0].Body == "end" {
						return
					}
					mu.Lock()
					got[some[0].Tube+some[0].Body]++
					mu.Unlock()
				}
			})
		}
	}
	for i := range jobs {
		for topic := range topics {
			a.want(201, "POST", fmt.Sprintf("/v1/tubes/topic%d/jobs", topic), fmt.Sprintf(`{"body":"%d"}`, i))
		}
	}
	for topic := range topics {
		for range each {
			a.want(201, "POST", fmt.Sprintf("/v1/tubes/topic%d/jobs", topic), `{"body":"end","priority":4000000000}`)
		}
	}
	all.Wait()
	for job, times := range got {
		if times != 1 {
			t.Errorf("%s was delivered %d times", job, times)
		}
	}
	if len(got) != topics*jobs {
		t.Errorf("%d jobs were delivered", len(got))
	}
}
