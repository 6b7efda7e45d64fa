package httpapi

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/tube"
)

// put puts a job into the tube t, reserves it, and returns it.
func (a *harness) putAndReserve(body string) leasedJob {
	a.t.Helper()
	a.want(201, "POST", "/v1/tubes/t/jobs", body)
	return a.reserve("tube=t")[0]
}

// finish finishes a job with a result.
func (a *harness) finishWith(status int, j leasedJob, result string, headers ...string) answer {
	a.t.Helper()
	return a.want(status, "POST", fmt.Sprintf("/v1/jobs/%d/finish?lease=%s", j.ID, j.Lease), result, headers...)
}

// TestResults: a result is what was given, as JSON, in base64 or raw, and comes to all who wait.
func TestResults(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for _, tc := range []struct{ body, kind, want string }{
		{`{"result":"a\"ü"}`, jsonType, `a"ü`},
		{`{"result":{"a":[1]}}`, jsonType, `{"a":[1]}`},
		{`{"result_base64":"/w=="}`, jsonType, "\xff"},
		{`{"result":"` + strings.Repeat(`\u000a`, tube.MaxResult) + `"}`, jsonType, strings.Repeat("\n", tube.MaxResult)},
		{`{}`, jsonType, ""},
		{"raw\x00", "application/octet-stream", "raw\x00"},
		{strings.Repeat("r", tube.MaxResult), "application/octet-stream", strings.Repeat("r", tube.MaxResult)},
	} {
		j := a.putAndReserve(`{"body":"x","keep":"1h","key":"k","meta":{"a":"b"}}`)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				info := decode[EndedInfo](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d/result?wait=1h", j.ID), ""))
				result := ""
				if info.Result != nil {
					result = *info.Result
				} else if raw, err := base64.StdEncoding.DecodeString(info.Base64); err == nil {
					result = string(raw)
				}
				if result != tc.want || info.How != "done" || info.Bytes != len(tc.want) || info.Key != "k" || info.Meta["a"] != "b" || info.At == 0 {
					t.Errorf("%.50s: %+v", tc.body, info)
				}
			})
		}
		a.finishWith(204, j, tc.body, "Content-Type: "+tc.kind)
		all.Wait()
	}
	j := a.putAndReserve(`{"body":"x","keep":"1h"}`)
	a.finishWith(413, j, strings.Repeat("r", tube.MaxResult+1), "Content-Type: application/octet-stream")
	a.finishWith(413, j, `{"result":"`+strings.Repeat("r", tube.MaxResult+1)+`"}`)
	a.finishWith(422, j, `{"result":"x","result_base64":""}`)
	a.want(422, "POST", fmt.Sprintf("/v1/jobs/%d/finish", j.ID), "{}")
	a.finishWith(204, j, "{}")
}

// TestFinishBatchWithResults: a batch of deletes can have results.
func TestFinishBatchWithResults(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	j, without := a.putAndReserve(`{"body":"x","keep":"1h"}`), a.putAndReserve(`{"body":"x"}`)
	got := a.want(200, "POST", "/v1/jobs/finish", fmt.Sprintf(`[{"id":%d,"lease":%q,"result":"a"},{"id":%d,"lease":%q,"result":"b"},{"id":%[1]d,"result":"c"}]`,
		j.ID, j.Lease, without.ID, without.Lease))
	all := decode[[]batchAnswer](t, got)
	if len(all) != 3 || all[0].Status != 204 || all[1].Code != "NOT_KEPT" || all[2].Status != 422 {
		t.Error(got.body)
	}
	if info := decode[EndedInfo](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d/result", j.ID), "")); *info.Result != "a" {
		t.Errorf("%+v", info)
	}
}

// TestRequestAndReply: a put can wait for the result of its job, which is kept for a minute, or as long as the put or a policy says.
func TestRequestAndReply(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "PUT", "/v1/tubes/t2*/policy", `{"keep":"1d"}`)
	for _, tc := range []struct {
		tube, body string
		keep       time.Duration
		headers    []string
	}{
		{"t", `{"body":"x"}`, time.Minute, nil},
		{"t", `{"body":"x","keep":"1h"}`, time.Hour, nil},
		{"t2", `{"body":"x"}`, 24 * time.Hour, nil},
		{"t", "raw", time.Minute, []string{"Content-Type: application/octet-stream"}},
	} {
		var all sync.WaitGroup
		all.Go(func() {
			info := decode[EndedInfo](t, a.want(200, "POST", "/v1/tubes/"+tc.tube+"/jobs?wait=1h", tc.body, tc.headers...))
			if *info.Result != "pong" || time.Duration(info.Until-info.At)*time.Millisecond != tc.keep {
				t.Errorf("%+v", info)
			}
		})
		a.finishWith(204, a.reserve("wait=1m&tube=" + tc.tube)[0], `{"result":"pong"}`)
		all.Wait()
	}
	put := decode[putAnswer](t, a.want(201, "POST", "/v1/tubes/t/jobs?wait=1ms", `{"body":"x","key":"k"}`))
	if again := decode[putAnswer](t, a.want(201, "POST", "/v1/tubes/t/jobs?wait=1ms", `{"body":"x","key":"k"}`)); again.ID != put.ID || !again.Duplicate {
		t.Errorf("%+v", again)
	}
	a.want(422, "POST", "/v1/tubes/t/jobs?wait=2h", `{"body":"x"}`)
	a.want(422, "POST", "/v1/tubes/t/jobs?wait=1s&delay=5", `{"body":"x"}`)
}

// TestListEnded: records are listed in pages, the newest first, also only some of them.
func TestListEnded(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "PUT", "/v1/tubes/t/policy", `{"keep":"1h","keep_bytes":10000000}`)
	const n = 250
	for i := range n {
		a.want(201, "POST", "/v1/tubes/t/jobs", fmt.Sprintf(`{"body":"x","max":1,"dead":"d%d","batch":"b"}`, i%2))
	}
	jobs := a.reserve("tube=t&n=1000")
	for _, j := range jobs {
		if j.ID%10 == 0 {
			a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s&reason=no+such+User", j.ID, j.Lease), "")
		} else {
			a.finishWith(204, j, "{}")
		}
	}
	pages := func(path, query string) (all []EndedInfo) {
		t.Helper()
		for cursor, more := "", true; more; {
			page := decode[endedPage](t, a.want(200, "GET", path+"?cursor="+cursor+query, ""))
			all = append(all, page.Ended...)
			cursor, more = page.Next, page.Next != ""
		}
		return all
	}
	all := pages("/v1/tubes/t/ended", "")
	if len(all) != n || all[0].ID != jobs[n-1].ID || all[n-1].ID != jobs[0].ID {
		t.Fatalf("%d records", len(all))
	}
	middle := all[n/2].At
	for query, want := range map[string]func(*EndedInfo) bool{
		"&limit=7":                          func(*EndedInfo) bool { return true },
		"&how=dead&limit=7":                 func(e *EndedInfo) bool { return e.How == "dead" && e.ToTube != "" && e.ToID > 0 },
		"&reason=such+user":                 func(e *EndedInfo) bool { return e.Reason == "no such User" },
		fmt.Sprint("&since=", middle):       func(e *EndedInfo) bool { return e.At >= middle },
		fmt.Sprint("&until=", middle):       func(e *EndedInfo) bool { return e.At <= middle },
		fmt.Sprint("&until=", middle-1<<24): func(e *EndedInfo) bool { return false },
	} {
		found := 0
		for i := range all {
			if want(&all[i]) {
				found++
			}
		}
		if got := pages("/v1/tubes/t/ended", query); len(got) != found {
			t.Errorf("%s: %d records, want %d", query, len(got), found)
		}
	}
	if got := pages("/v1/batches/b/results", ""); len(got) != n {
		t.Errorf("the batch has %d records", len(got))
	}
}

// TestRightsOnResults: a user learns of the ends of jobs in tubes that it may read, and of no others.
func TestRightsOnResults(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "root * put,work,read,admin", "reader t read", "worker t work", "other u read", "putter t,u put", "both t put,read")
	g.want(204, "PUT", "/v1/tubes/t/policy", `{"keep":"1h"}`, "Authorization: Bearer root:root")
	put := decode[putAnswer](t, g.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"x"}`, "Authorization: Bearer putter:putter"))
	path := fmt.Sprintf("/v1/jobs/%d", put.ID)
	g.want(204, "DELETE", path, "", "Authorization: Bearer worker:worker")
	for user, status := range map[string]int{"reader": 200, "worker": 403, "other": 404} {
		g.want(status, "GET", path+"/result?wait=1s", "", "Authorization: Bearer "+user+":"+user)
	}
	g.want(404, "GET", path, "", "Authorization: Bearer worker:worker")
	g.want(403, "POST", "/v1/tubes/t/jobs?wait=1ms", `{"body":"x"}`, "Authorization: Bearer putter:putter")
	g.want(201, "POST", "/v1/tubes/t/jobs?wait=1ms", `{"body":"x"}`, "Authorization: Bearer both:both")
}
