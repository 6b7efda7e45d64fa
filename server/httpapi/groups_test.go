package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestGroups: a limit holds the jobs of a group, which say so; the group is described, listed page by page,
// paused and flushed.
func TestGroups(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "PUT", "/v1/tubes/t/policy", `{"group_concurrency":1,"group_rate":"100/h"}`)
	for _, group := range []string{"a", "a", "a/b é", ".", "\"\n"} {
		a.want(201, "POST", "/v1/tubes/t/jobs", fmt.Sprintf(`{"body":"x","group":%q}`, group))
	}
	leased := a.reserve("tube=t&n=10")
	if len(leased) != 4 || leased[0].Group != "a" || leased[3].Group != "\"\n" {
		t.Fatalf("leased: %+v", leased)
	}
	info := decode[JobInfo](t, a.want(200, "GET", "/v1/jobs/2", ""))
	if info.State != "ready" || info.Group != "a" || info.Held != "concurrency" {
		t.Errorf("%+v", info)
	}
	if got := a.want(200, "GET", "/v1/tubes/t/jobs?state=ready", "").body; !strings.Contains(got, `"group":"a","held":"concurrency"`) {
		t.Error(got)
	}
	var names []string
	for page := (groupsPage{Next: ""}); len(names) == 0 || page.Next != ""; {
		page = decode[groupsPage](t, a.want(200, "GET", "/v1/tubes/t/groups?limit=3&cursor="+url.QueryEscape(page.Next), ""))
		for _, g := range page.Groups {
			names = append(names, g.Name)
		}
	}
	if got := fmt.Sprintf("%q", names); got != `["\"\n" "." "a" "a/b é"]` {
		t.Errorf("groups: %s", got)
	}
	path := "/v1/tubes/t/groups/a%2Fb%20%C3%A9"
	a.want(200, "GET", "/v1/tubes/t/groups/%2E", "")
	a.wantGroup(path, `{"name":"a/b é","ready":0,"delayed":0,"reserved":1,"buried":0,"concurrency":1,"rate":"100/h","weight":1,"pause_left_ms":0}`)
	a.want(204, "PUT", path, `{"concurrency":2,"weight":3}`)
	a.wantGroup(path, `{"name":"a/b é","ready":0,"delayed":0,"reserved":1,"buried":0,"concurrency":2,"rate":"100/h","weight":3,"pause_left_ms":0,"set":{"concurrency":2,"weight":3,"ttl":"30d"}}`)
	a.want(204, "DELETE", path, "")
	a.wantGroup(path, `{"name":"a/b é","ready":0,"delayed":0,"reserved":1,"buried":0,"concurrency":1,"rate":"100/h","weight":1,"pause_left_ms":0}`)
	a.want(204, "PUT", path, `{"ttl":0}`)
	a.want(204, "PUT", path, `{}`)

	a.want(204, "POST", "/v1/tubes/t/groups/new/pause?for=1h", "")
	if info := decode[GroupInfo](t, a.want(200, "GET", "/v1/tubes/t/groups/new", "")); info.PauseLeft < 3590_000 {
		t.Errorf("%+v", info)
	}
	a.want(204, "POST", "/v1/tubes/t/groups/new/pause?for=0", "")
	a.want(404, "GET", "/v1/tubes/t/groups/new", "")

	if got := a.want(200, "POST", "/v1/tubes/t/groups/a/flush", "").body; got != `{"count":1}` {
		t.Errorf("flushed: %s", got)
	}
	a.want(404, "GET", "/v1/jobs/2", "")
}

// TestRefusedGroups: what is no group, or no limit, is refused by name.
func TestRefusedGroups(t *testing.T) {
	t.Parallel()
	a, path := start(t, Config{}), "/v1/tubes/t/groups/a"
	for _, c := range []struct{ method, path, body, contains string }{
		{"PUT", path, `{"concurrency":0}`, "concurrency"},
		{"PUT", path, `{"weight":1001}`, "weight"},
		{"PUT", path, `{"rate":"1/s,1/s"}`, "rate"},
		{"PUT", path, `{"ttl":"1w"}`, "ttl"},
		{"PUT", path, `{"group_order":"strict"}`, "group_order"},
		{"GET", "/v1/tubes/t/groups/%00", "", "not the name of a group"},
		{"GET", "/v1/tubes/t/groups/%FF", "", "group"},
		{"DELETE", "/v1/tubes/t/groups/" + strings.Repeat("%C3%A9", 65), "", "group"},
		{"POST", "/v1/tubes/t/groups/%07/pause?for=1h", "", "not the name of a group"},
		{"POST", "/v1/tubes/t/groups/a/pause?for=1ms", "", "for"},
		{"POST", "/v1/tubes/t/groups/%07/flush", "", "not the name of a group"},
		{"POST", "/v1/tubes/t/jobs", `{"body":"x","group":""}`, "group"},
	} {
		if got := a.want(422, c.method, c.path, c.body); !strings.Contains(got.body, c.contains) {
			t.Errorf("%s %s: %s", c.method, c.path, got.body)
		}
	}
}

// wantGroup wants exactly this description of a group.
func (a *harness) wantGroup(path, want string) {
	a.t.Helper()
	if got := a.want(200, "GET", path, ""); strings.TrimSpace(got.body) != want {
		a.t.Errorf("the group is\n%s\nwant\n%s", got.body, want)
	}
}

// TestSetOfGroup: what was set for a group is only shown to users who may set it.
func TestSetOfGroup(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "reader t read", "root * put,work,read,admin")
	if got := g.call("PUT", "/v1/tubes/t/groups/a", `{"weight":2}`, "Authorization: Bearer root:root"); got.status != 204 {
		t.Fatal(got.body)
	}
	for user, shown := range map[string]bool{"reader": false, "root": true} {
		got := g.call("GET", "/v1/tubes/t/groups/a", "", "Authorization: Bearer "+user+":"+user)
		if got.status != 200 || strings.Contains(got.body, `"set":`) != shown || !strings.Contains(got.body, `"weight":2`) {
			t.Errorf("%s: %d %s", user, got.status, got.body)
		}
	}
}
