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

	"redstalk/tube"
)

// acted does an action of the console to jobs, and returns how many were done.
func (a *harness) acted(body string) actionInfo {
	a.t.Helper()
	return decode[actionInfo](a.t, a.want(200, "POST", "/v1/jobs/actions", body))
}

// TestMoveMarkedJobs: a job that is moved by its id keeps its state, its terms and its body.
func TestMoveMarkedJobs(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	terms := `"priority":7,"ttr":"90s","key":"k%d","retry":["1m","5m"],"max":9,"dead":"morgue"`
	for id, more := range []string{`"delay":0`, `"delay":"1h"`, `"delay":0`} {
		a.want(201, "POST", "/v1/tubes/from/jobs", fmt.Sprintf(`{"body":"body %d",`+terms+`,%s}`, id+1, id+1, more))
	}
	if got := a.acted(`{"action":"bury","ids":[3]}`); got.Done != 1 {
		t.Fatalf("burying: %+v", got)
	}
	if got := a.acted(`{"action":"move","ids":[1,2,3,99],"to":"to"}`); got.Done != 3 || !slices.Equal(got.Missed, []uint64{99}) {
		t.Fatalf("moving: %+v", got)
	}
	for i, state := range []string{"ready", "delayed", "buried"} {
		page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/to/jobs?state="+state, ""))
		if len(page.Jobs) != 1 {
			t.Fatalf("%s: %+v", state, page)
		}
		job := decode[jobWithBody](t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", page.Jobs[0].ID), ""))
		if *job.Body != fmt.Sprintf("body %d", i+1) || job.Priority != 7 || job.TTR != 90 || job.Key != fmt.Sprintf("k%d", i+1) ||
			len(job.Retry) != 2 || job.Max != 9 || job.Dead != "morgue" {
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

// TestMoveWhatCannotBe: a job that cannot be put into the other tube stays as it was.
func TestMoveWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"ready", "delayed", "buried"} {
		a := start(t, Config{})
		delay := map[string]string{"delayed": "1h"}[state]
		a.want(201, "POST", "/v1/tubes/to/jobs", `{"body":"there","key":"k"}`)
		a.want(201, "POST", "/v1/tubes/from/jobs", fmt.Sprintf(`{"body":"here","key":"k","priority":5,"delay":%q}`, "0"+delay))
		if state == "buried" {
			a.acted(`{"action":"bury","ids":[2]}`)
		}
		if got := a.acted(`{"action":"move","ids":[2],"to":"to"}`); got.Done != 0 || len(got.Missed) != 1 {
			t.Errorf("%s: %+v", state, got)
		}
		job := decode[jobWithBody](t, a.want(200, "GET", "/v1/jobs/2", ""))
		if job.State != state || job.Tube != "from" || job.Priority != 5 || state == "delayed" && job.Due < 3000_000 {
			t.Errorf("%s: it has become %+v", state, job)
		}
	}
}

// TestReasonOfPause: why a tube is paused is in the stream for as long as it is.
func TestReasonOfPause(t *testing.T) {
	t.Parallel()
	p := newPoller(nil)
	now := time.UnixMilli(1e12)
	p.now = func() time.Time { return now }
	look := func(left time.Duration) string {
		began := now
		now = now.Add(time.Second)
		p.record([]*tube.TubeStats{{Name: "t", PauseLeft: left}}, nil, began, now)
		return p.live["t"].Reason
	}
	look(0)
	began := now
	now = now.Add(time.Millisecond)
	p.paused("t", "the bank is away")
	p.record([]*tube.TubeStats{{Name: "t"}}, nil, began, now.Add(time.Second)) // it looked before that
	now = now.Add(time.Second)
	if got := look(time.Minute); got != "the bank is away" {
		t.Errorf("the reason is %q", got)
	}
	look(0)
	if got := look(time.Minute); got != "" || len(p.reasons) != 0 {
		t.Errorf("the next pause has the reason %q", got)
	}
}

// TestPauseIsLogged: with who has paused what, and why.
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

// TestRightsOnTubes: who asks is told what it may do on the tubes that it names.
func TestRightsOnTubes(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "ann sales* admin", "bob * look")
	ask := func(user string) callerInfo {
		secret := base64.StdEncoding.EncodeToString([]byte(user + ":" + user))
		return decode[callerInfo](t, g.call("GET", "/v1/caller?tube=sales.out&tube=sms", "", "Authorization: Basic "+secret))
	}
	if got := ask("bob"); got.User != "bob" || got.Anonymous || !slices.Equal(got.Tubes["sms"], []string{"look"}) {
		t.Errorf("bob: %+v", got)
	}
	g.write(t, "ann sales* look,admin")
	if err := g.access.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := ask("ann"); len(got.Tubes["sms"]) != 0 || !slices.Equal(got.Tubes["sales.out"], []string{"look", "admin"}) || len(got.Everywhere) != 0 {
		t.Errorf("ann: %+v", got)
	}
}

// TestChallenge: the console is not answered in a way for which a browser asks for a user.
func TestChallenge(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "ann * look")
	scheme := func(headers ...string) string {
		got := g.call("GET", "/v1/server", "", headers...)
		if got.status != http.StatusUnauthorized {
			t.Errorf("%v: %d", headers, got.status)
		}
		word, _, _ := strings.Cut(got.header.Get("WWW-Authenticate"), " ")
		return word
	}
	if got := scheme(); got != "Basic" {
		t.Errorf("a program is asked for %q", got)
	}
	if got := scheme("X-Redstalk: console"); got != "Console" {
		t.Errorf("the console is asked for %q", got)
	}
	if got := scheme("X-Redstalk: console", "Authorization: Bearer ann:wrong"); got != "Console" {
		t.Errorf("the console with a wrong secret is asked for %q", got)
	}
}

// TestStoreOf: a store in memory has calls, but no disk and no neighbours.
func TestStoreOf(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":""}`)
	got := decode[storeInfo](t, a.want(200, "GET", "/v1/store", ""))
	if got.Kind != "memory" || got.Away != "" || got.Calls == 0 || got.CallP95 <= 0 || got.Operations < 1 || got.MemoryBytes == 0 || got.HeapBytes > got.MemoryBytes ||
		got.LogBytes != 0 || got.SinceReply != -1 || len(got.Instances)+len(got.Nodes) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestExcerpts: a list has how bodies begin if that is asked for.
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
		t.Errorf("nobody has asked for %q", page.Jobs[0].Excerpt)
	}
}
