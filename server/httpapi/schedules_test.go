package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"net/http/httptest"

	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage/embedded"
)

// TestSchedules: a schedule is set, described, listed page by page, run, paused, resumed and deleted. Its jobs
// say which schedule has put them.
func TestSchedules(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	set := `{"tube":"t","cron":"30 2 * * 1-5","tz":"Europe/Berlin","from":1,"until":9223372036853,"spread":"5m","overlap":"buffer-one","catch_up":0,"catch_up_all":3,` +
		`"priority":5,"delay":"1500ms","ttr":"2m","key":"k","meta":{"b":"2","a":"1"},"retry":"exp(10s,1h,25)","jitter":20,"max":30,"dead":"morgue","expire":"1h","on_expire":"park","key_ttl":"1m"`
	a.want(204, "PUT", "/v1/schedules/a%2Fb", set+`,"body":{"x": 1}}`)
	got := a.want(200, "GET", "/v1/schedules/a%2Fb", "").body
	for _, part := range []string{
		`{"name":"a/b","tube":"t","cron":"30 2 * * 1-5","tz":"Europe/Berlin","from":1,"until":9223372036853,"spread":"5m","overlap":"buffer-one","catch_up":"0s","catch_up_all":3,`,
		`"priority":5,"delay":"1500ms","ttr":"2m","key":"k","meta":{"a":"1","b":"2"},"retry":"exp(10s,1h,25)","jitter":20,"max":30,"dead":"morgue","expire":"1h","on_expire":"park","key_ttl":"1m"`,
		`"paused":false,"next_ms":1`, `"put":0,"overlapped":0,"refused":0,"missed":0,"stopped":0,"body":"{\"x\": 1}"}`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("it is\n%s\nwithout\n%s", got, part)
		}
	}
	for _, name := range []string{"b", "c", "d"} {
		a.want(204, "PUT", "/v1/schedules/"+name, `{"tube":"t","every":"1h","body_base64":"/w=="}`)
	}
	if got := fmt.Sprint(a.listSchedules()); got != "[a/b b c d]" {
		t.Errorf("schedules: %s", got)
	}
	a.runAndPause()
}

// TestSchedulesOfBatches: what is set about batches is shown, and a run into a sealed one says so.
func TestSchedulesOfBatches(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "PUT", "/v1/schedules/s", `{"tube":"t","every":"1h","overlap":"allow","body":"x","batch":"b","batch_ttl":"2h","after":"c"}`)
	a.want(201, "POST", "/v1/schedules/s/run", "")
	a.want(204, "POST", "/v1/batches/b/seal", "")
	a.want(409, "POST", "/v1/schedules/s/run", "")
	info := decode[ScheduleInfo](t, a.want(200, "GET", "/v1/schedules/s", ""))
	if value(info.Batch) != "b" || value(info.BatchTTL) != duration(2*time.Hour) || value(info.After) != "c" || info.AfterAll != nil || info.Put != 1 || info.Refused != 1 || info.LastResult != "sealed" {
		t.Errorf("%+v", info)
	}
}

// listSchedules returns the names of all schedules, which it reads in pages.
func (a *harness) listSchedules() (names []string) {
	for page := (schedulesPage{}); len(names) == 0 || page.Next != ""; {
		page = decode[schedulesPage](a.t, a.want(200, "GET", "/v1/schedules?limit=3&cursor="+url.QueryEscape(page.Next), ""))
		for i := range page.Schedules {
			names = append(names, page.Schedules[i].Name)
		}
	}
	return names
}

// runAndPause runs, pauses, resumes and deletes the schedule b.
func (a *harness) runAndPause() {
	t := a.t
	t.Helper()
	first := decode[putAnswer](t, a.want(201, "POST", "/v1/schedules/b/run", ""))
	again := decode[putAnswer](t, a.want(201, "POST", "/v1/schedules/b/run", ""))
	if first.Duplicate || first.State != "ready" || !again.Duplicate || again.ID != first.ID {
		t.Errorf("two runs: %+v, %+v", first, again)
	}
	job := decode[JobInfo](t, a.want(200, "GET", fmt.Sprint("/v1/jobs/", first.ID), ""))
	if age := time.Now().UnixMilli() - job.Nominal; job.Schedule != "b" || job.Key != "schedule:b" || age < 0 || age > 600_000 {
		t.Errorf("its job: %+v", job)
	}
	if leased := a.reserve("tube=t"); len(leased) != 1 || leased[0].Schedule != "b" || leased[0].Nominal != job.Nominal || leased[0].Base64 != "/w==" {
		t.Errorf("its job, reserved: %+v", leased)
	}
	a.want(204, "POST", "/v1/schedules/b/pause", "")
	info := decode[scheduleWithBody](t, a.want(200, "GET", "/v1/schedules/b", ""))
	if !info.Paused || info.Due != 0 || info.Put != 1 || info.Overlapped != 1 || info.LastResult != "overlapped" || info.LastID != first.ID || info.LastPut < info.LastNominal || info.Base64 != "/w==" {
		t.Errorf("paused: %+v", info)
	}
	a.want(204, "POST", "/v1/schedules/b/resume", "")
	if info := decode[ScheduleInfo](t, a.want(200, "GET", "/v1/schedules/b", "")); info.Paused || info.Due != info.Next {
		t.Errorf("resumed: %+v", info)
	}
	a.want(204, "DELETE", "/v1/schedules/b", "")
	for _, path := range []string{"GET ", "DELETE ", "POST /pause", "POST /resume", "POST /run", "GET /preview"} {
		method, rest, _ := strings.Cut(path, " ")
		a.want(404, method, "/v1/schedules/b"+rest, "")
	}
	a.want(204, "PUT", "/v1/tubes/t/policy", `{"quota_jobs":1}`)
	a.want(507, "POST", "/v1/schedules/c/run", "")
	a.want(204, "POST", "/v1/server/drain", "")
	a.want(503, "POST", "/v1/schedules/c/run", "")
}

// TestPreview: the times are in the zone of the schedule.
func TestPreview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)))
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{})
		api := New(q, Config{Schedules: schedule.New(q, nil)})
		get := func(method, path, body string) string {
			r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Content-Type", jsonType)
			api.ServeHTTP(w, r)
			return strings.TrimSpace(w.Body.String())
		}
		for _, c := range [][2]string{
			{"/v1/preview?cron=30+2+*+*+*&tz=Europe/Berlin&count=3", `{"times":["2026-03-28T02:30:00+01:00","2026-03-29T03:00:00+02:00","2026-03-30T02:30:00+02:00"]}`},
			{"/v1/preview?every=1500ms&count=2", `{"times":["2026-03-27T12:00:01.5Z","2026-03-27T12:00:03Z"]}`},
			{"/v1/preview?cron=@yearly&until=1893456000000", `{"times":["2027-01-01T00:00:00Z","2028-01-01T00:00:00Z","2029-01-01T00:00:00Z","2030-01-01T00:00:00Z"]}`},
			{"/v1/preview?cron=@yearly&until=1", `{"times":[]}`},
			{"/v1/schedules/s/preview?count=1", `{"times":["2026-03-27T12:30:00Z"]}`},
		} {
			get("PUT", "/v1/schedules/s", `{"tube":"t","cron":"*/30 * * * *","body":""}`)
			if got := get("GET", c[0], ""); got != c[1] {
				t.Errorf("%s: %s, want %s", c[0], got, c[1])
			}
		}
		q.Close(t.Context())
		store.Close()
	})
}

// TestRefusedSchedules: what is no schedule is refused, and the answer names the field.
func TestRefusedSchedules(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for _, c := range []struct{ path, body, detail string }{
		{"/v1/schedules/s", `{"tube":"t","cron":"* *","body":"x"}`, `"detail":"cron: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"0 0 31 2 *","body":"x"}`, `"detail":"cron: `},
		{"/v1/schedules/s", `{"tube":"t","body":"x"}`, `"detail":"cron: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","every":"1h","body":"x"}`, `"detail":"every: `},
		{"/v1/schedules/s", `{"tube":"t","every":"1ms","body":"x"}`, `"detail":"every: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","tz":"Berlin","body":"x"}`, `"detail":"tz: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","spread":"25h","body":"x"}`, `"detail":"spread: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","overlap":"queue","body":"x"}`, "overlap: "},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","overlap":"allow","key":"k","body":"x"}`, `"detail":"key: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","overlap":"buffer-one","group":"g","body":"x"}`, `"detail":"group: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","catch_up_all":0,"body":"x"}`, "catch_up_all: "},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","at":1,"body":"x"}`, `"detail":"at: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","on_duplicate":"keep","body":"x"}`, `"detail":"on_duplicate: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily"}`, `"detail":"body: `},
		{"/v1/schedules/s", `{"tube":"-t","cron":"@daily","body":"x"}`, `"detail":"tube: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","from":-1,"body":"x"}`, "from: "},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","body":"x","ttr":"1500ms"}`, `"detail":"ttr: `},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","body":"x","paused":true}`, "paused"},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","body":"x","batch":"b","batch_ttl":"4000d"}`, `"detail":"batch_ttl: \"4000d\"`},
		{"/v1/schedules/s", `{"tube":"t","cron":"@daily","body":"x","batch":"b","after_all":"b"}`, `"detail":"after_all: `},
		{"/v1/schedules/s", `[]`, `"detail":"body: `},
		{"/v1/schedules/%20", `{"tube":"t","cron":"@daily","body":"x"}`, `"detail":"schedule: `},
		{"/v1/schedules/" + strings.Repeat("a", 101), `{"tube":"t","cron":"@daily","body":"x"}`, "schedule: "},
	} {
		if got := a.want(422, "PUT", c.path, c.body); !strings.Contains(got.body, c.detail) {
			t.Errorf("%s %s: %s", c.path, c.body, got.body)
		}
	}
	a.want(413, "PUT", "/v1/schedules/s", `{"tube":"t","cron":"@daily","body":"`+strings.Repeat("x", 1001)+`"}`)
	for query, field := range map[string]string{"": "cron", "?cron=x": "cron", "?cron=@daily&tz=x": "tz", "?every=1ms": "every", "?every=1h&cron=@daily": "every", "?cron=@daily&count=1001": "count"} {
		if got := a.want(422, "GET", "/v1/preview"+query, ""); !strings.Contains(got.body, `"detail":"`+field+": ") {
			t.Errorf("%s: %s", query, got.body)
		}
	}
}

// TestRightsOfSchedules: reading a schedule needs read or admin on its tube, and changing it admin and put. Others
// do not find it if they have no right at all on the tube.
func TestRightsOfSchedules(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "root * put,work,read,admin", "owner a* put,admin", "chief a* admin", "reader a* read", "worker a* work", "other b read,admin,put")
	as := func(user string) string { return "Authorization: Bearer " + user + ":" + user }
	const set = `{"tube":"a","every":"1h","body":"x"}`
	g.call("PUT", "/v1/schedules/s", set, as("root"))
	for _, c := range []struct {
		method, path, body string
		statuses           map[string]int
	}{
		{"GET", "", "", map[string]int{"owner": 200, "chief": 200, "reader": 200, "worker": 403, "other": 404}},
		{"GET", "/preview", "", map[string]int{"owner": 200, "chief": 200, "reader": 200, "worker": 403, "other": 404}},
		{"POST", "/run", "", map[string]int{"owner": 201, "chief": 403, "reader": 403, "worker": 403, "other": 404}},
		{"POST", "/pause", "", map[string]int{"owner": 204, "chief": 403, "reader": 403, "other": 404}},
		{"POST", "/resume", "", map[string]int{"owner": 204, "chief": 403, "reader": 403, "other": 404}},
		{"PUT", "", set, map[string]int{"owner": 204, "chief": 403, "reader": 403, "other": 403}},
		{"PUT", "", `{"tube":"b","every":"1h","body":"x"}`, map[string]int{"owner": 403, "other": 404}},
		{"PUT", "", `{"tube":"a","every":"1h","body":"x","dead":"b"}`, map[string]int{"owner": 403}},
		{"DELETE", "", "", map[string]int{"chief": 403, "reader": 403, "other": 404}},
	} {
		for user, status := range c.statuses {
			if got := g.call(c.method, "/v1/schedules/s"+c.path, c.body, as(user)); got.status != status {
				t.Errorf("%s %s %s as %s: %d %s, want %d", c.method, c.path, c.body, user, got.status, got.body, status)
			}
		}
	}
	for user, shown := range map[string]bool{"reader": true, "owner": true, "other": false} {
		if got := g.call("GET", "/v1/schedules", "", as(user)); got.status != 200 || strings.Contains(got.body, `"name":"s"`) != shown {
			t.Errorf("the list of %s: %d %s", user, got.status, got.body)
		}
	}
	if got := g.call("DELETE", "/v1/schedules/s", "", as("owner")); got.status != 204 {
		t.Errorf("deleting as owner: %d %s", got.status, got.body)
	}
}
