package httpapi

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/server/jobbatch"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// act sends an action on jobs and returns its result.
func (a *harness) act(body string) actionInfo {
	a.t.Helper()
	return decode[actionInfo](a.t, a.want(200, "POST", "/v1/jobs/actions", body))
}

// TestMoveJobsByID: a job that is moved by its id keeps its state, its options and its body.
func TestMoveJobsByID(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	terms := `"priority":7,"ttr":"90s","key":"k%d","retry":["1m","5m"],"max":9,"dead":"morgue"`
	for id, more := range []string{`"delay":0`, `"delay":"1h"`, `"delay":0`} {
		a.want(201, "POST", "/v1/tubes/from/jobs", fmt.Sprintf(`{"body":"body %d",`+terms+`,%s}`, id+1, id+1, more))
	}
	if got := a.act(`{"action":"bury","ids":[3]}`); got.Done != 1 {
		t.Fatalf("burying: %+v", got)
	}
	if got := a.act(`{"action":"move","ids":[1,2,3,99],"to":"to"}`); got.Done != 3 || !slices.Equal(got.Missed, []uint64{99}) {
		t.Fatalf("moving: %+v", got)
	}
	for i, state := range []string{"ready", "delayed", "buried"} {
		page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/to/jobs?state="+state, ""))
		if len(page.Jobs) != 1 {
			t.Fatalf("%s: %+v", state, page)
		}
		job := decode[jobWithBody](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", page.Jobs[0].ID), ""))
		if *job.Body != fmt.Sprintf("body %d", i+1) || job.Priority != 7 || job.TTR != 90 || job.Key != fmt.Sprintf("k%d", i+1) ||
			len(job.Retry.waits) != 2 || job.Max != 9 || job.Dead != "morgue" {
			t.Errorf("%s: %+v", state, job)
		}
		if left := time.Duration(job.Due) * time.Millisecond; state == "delayed" && (left < 50*time.Minute || left > time.Hour) {
			t.Errorf("it is due in %v", left)
		}
	}
	if got := a.call("GET", "/v1/tubes/from", ""); got.status == 200 && decode[tubeInfo](t, got).Ready != 0 {
		t.Errorf("there are jobs left: %s", got.body)
	}
}

// TestMoveKeepsBatches: a moved after-job still waits, and a moved member is not done.
func TestMoveKeepsBatches(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	go jobbatch.New(a.queue, nil).Run(t.Context())
	a.want(201, "POST", "/v1/batches", `{"name":"b","members":[{"tube":"from","body":"member"}],"after":[{"tube":"from","body":"after","expire":"1h","meta":{"a":"b"}}]}`)
	if got := a.act(`{"action":"move","ids":[1,2],"to":"to"}`); got.Done != 2 {
		t.Fatalf("moving: %+v", got)
	}
	got := decode[batchWithAfter](t, a.want(200, "GET", "/v1/batches/b", ""))
	if got.Pending != 1 || got.Done != 0 || len(got.After) != 1 || got.After[0].Tube != "to" || got.After[0].Held != "batch" || got.After[0].Meta["a"] != "b" {
		t.Errorf("%+v", got)
	}
}

// TestActionsOnHeldJobs: no limit or pause hinders what is done with jobs by their ids, which is no start
// either.
func TestActionsOnHeldJobs(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "PUT", "/v1/tubes/from/policy", `{"rate":"1/h","group_concurrency":1}`)
	a.want(204, "PUT", "/v1/tubes/to/policy", `{"rate":"1/h","group_concurrency":1}`)
	for range 4 {
		a.want(201, "POST", "/v1/tubes/from/jobs", `{"body":"x","group":"g"}`)
	}
	a.want(204, "POST", "/v1/tubes/from/groups/g/pause?for=10m", "")
	for _, action := range []string{`{"action":"bury","ids":[1,2]}`, `{"action":"move","ids":[1,2,3],"to":"to"}`} {
		if got := a.act(action); len(got.Missed) > 0 {
			t.Errorf("%s: %+v", action, got)
		}
	}
	if got := decode[tubeInfo](t, a.want(200, "GET", "/v1/tubes/to", "")); got.Buried != 2 || got.Ready != 1 {
		t.Errorf("moved: %+v", got)
	}
	for _, name := range []string{"from", "to"} {
		a.want(204, "POST", "/v1/tubes/"+name+"/groups/g/pause?for=0", "")
		page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/"+name+"/jobs?state=ready", ""))
		if len(page.Jobs) != 1 || page.Jobs[0].Held != "" {
			t.Errorf("%s: the token of the rate was used: %+v", name, page.Jobs)
		}
	}
}

// TestMoveConflict: if the other tube has a job with the same key, a job is not moved and stays as it was.
func TestMoveConflict(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"ready", "delayed", "buried"} {
		a := start(t, Config{})
		delay := map[string]string{"delayed": "1h"}[state]
		a.want(201, "POST", "/v1/tubes/to/jobs", `{"body":"there","key":"k"}`)
		a.want(201, "POST", "/v1/tubes/from/jobs", fmt.Sprintf(`{"body":"here","key":"k","priority":5,"delay":%q}`, "0"+delay))
		if state == "buried" {
			a.act(`{"action":"bury","ids":[2]}`)
		}
		if got := a.act(`{"action":"move","ids":[2],"to":"to"}`); got.Done != 0 || len(got.Missed) != 1 {
			t.Errorf("%s: %+v", state, got)
		}
		job := decode[jobWithBody](t, a.want(200, "GET", "/v1/jobs/2", ""))
		if job.State != state || job.Tube != "from" || job.Priority != 5 || state == "delayed" && job.Due < 3000_000 {
			t.Errorf("%s: the job is now %+v", state, job)
		}
	}
}

// TestReasonOfPause: the reason of a pause is in the stream until the pause ends.
func TestReasonOfPause(t *testing.T) {
	t.Parallel()
	p := newPoller(nil)
	now := time.UnixMilli(1e12)
	p.now = func() time.Time { return now }
	poll := func(left time.Duration) string {
		began := now
		now = now.Add(time.Second)
		p.record([]*tube.TubeStats{{Name: "t", PauseLeft: left}}, nil, began, now)
		return p.live["t"].Reason
	}
	poll(0)
	began := now
	now = now.Add(time.Millisecond)
	p.paused("t", "the bank is away")
	p.record([]*tube.TubeStats{{Name: "t"}}, nil, began, now.Add(time.Second)) // this poll began before the pause
	now = now.Add(time.Second)
	if got := poll(time.Minute); got != "the bank is away" {
		t.Errorf("the reason is %q", got)
	}
	poll(0)
	if got := poll(time.Minute); got != "" || len(p.reasons) != 0 {
		t.Errorf("the next pause has the reason %q", got)
	}
}

// TestPauseIsLogged: a pause is logged with the tube, the duration and the reason.
func TestPauseIsLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	a := start(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":""}`)
	a.want(204, "POST", "/v1/tubes/t/pause?for=1h&reason=the+bank+is+away", "")
	if got := log.String(); !strings.Contains(got, `tube=t seconds=3600 reason="the bank is away"`) {
		t.Errorf("the log says %q", got)
	}
}

// TestRightsOnTubes: /v1/caller returns the rights of the user on the tubes in the query.
func TestRightsOnTubes(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "ann sales* admin", "bob * read")
	ask := func(user string) callerInfo {
		secret := base64.StdEncoding.EncodeToString([]byte(user + ":" + user))
		return decode[callerInfo](t, g.call("GET", "/v1/caller?tube=sales.out&tube=sms", "", "Authorization: Basic "+secret))
	}
	if got := ask("bob"); got.User != "bob" || got.Anonymous || !slices.Equal(got.Tubes["sms"], []string{"list", "read"}) {
		t.Errorf("bob: %+v", got)
	}
	g.write(t, "ann sales* read,admin")
	if err := g.access.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := ask("ann"); len(got.Tubes["sms"]) != 0 || !slices.Equal(got.Tubes["sales.out"], []string{"list", "read", "admin"}) || len(got.Everywhere) != 0 {
		t.Errorf("ann: %+v", got)
	}
}

// TestChallenge: a 401 answer to the console has a scheme for which browsers open no login window.
func TestChallenge(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "ann * read")
	scheme := func(headers ...string) string {
		got := g.call("GET", "/v1/server", "", headers...)
		if got.status != http.StatusUnauthorized {
			t.Errorf("%v: %d", headers, got.status)
		}
		word, _, _ := strings.Cut(got.header.Get("WWW-Authenticate"), " ")
		return word
	}
	if got := scheme(); got != "Basic" {
		t.Errorf("the scheme for a program is %q", got)
	}
	if got := scheme("X-Redstalk: console"); got != "Console" {
		t.Errorf("the scheme for the console is %q", got)
	}
	if got := scheme("X-Redstalk: console", "Authorization: Bearer ann:wrong"); got != "Console" {
		t.Errorf("the scheme for the console with a wrong secret is %q", got)
	}
}

// TestStoreOf: a memory store has calls, but no disk and no other processes.
func TestStoreOf(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":""}`)
	got := decode[storeInfo](t, a.want(200, "GET", "/v1/store", ""))
	if got.Kind != "memory" || got.Unreachable != "" || got.Calls == 0 || got.CallP95 <= 0 || got.Operations < 1 || got.MemoryBytes == 0 || got.HeapBytes > got.MemoryBytes ||
		got.LogBytes != 0 || got.SinceReply != -1 || len(got.Instances)+len(got.Nodes) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestStoreOnDisk: an embedded store has syncs, and a log that takes room.
func TestStoreOnDisk(t *testing.T) {
	t.Parallel()
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a := startOn(t, store, Config{})
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":""}`)
	got := decode[storeInfo](t, a.want(200, "GET", "/v1/store", ""))
	if got.Kind != "embedded" || got.Syncs == 0 || got.SyncP95 <= 0 || got.LogBytes == 0 || got.FreeBytes == 0 || got.PutsRefused != "" {
		t.Errorf("%+v", got)
	}
}

// TestExcerpts: a list has the beginnings of bodies only if they are requested.
func TestExcerpts(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for i := range 230 {
		a.want(201, "POST", "/v1/tubes/t/jobs", fmt.Sprintf(`{"body":"%d %s"}`, i, strings.Repeat("ü", 200)))
	}
	page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/t/jobs?state=ready&limit=1000&excerpt=true", ""))
	for i, job := range page.Jobs {
		if len(job.Excerpt) > excerptBytes+3 || !strings.HasPrefix(job.Excerpt, fmt.Sprintf("%d üü", i)) {
			t.Errorf("job %d: %q", i, job.Excerpt)
		}
	}
	if page = decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/t/jobs?state=ready&limit=1", "")); page.Jobs[0].Excerpt != "" {
		t.Errorf("an excerpt that was not requested: %q", page.Jobs[0].Excerpt)
	}
}
