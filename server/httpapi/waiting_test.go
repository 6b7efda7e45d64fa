package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"redstalk/server/queue"
	"redstalk/tube"
)

// listed returns the connections that a user sees.
func (a *harness) listed(headers ...string) []clientInfo {
	a.t.Helper()
	var page clientsPage
	got := a.call("GET", "/v1/clients", "", headers...)
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 {
		a.t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	return page.Clients
}

// TestWaitingRequestsAreListed: a reserve that waits is in the list of connections, for those who may see
// its user, until it is answered. Its secret is not.
func TestWaitingRequestsAreListed(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "app a* work,read", "other * work,read", "chief a* work,read,admin", "root * put,work,read,admin")
	as := func(user string) string { return "Authorization: Bearer " + user + ":" + user }
	answered := make(chan answer)
	go func() {
		got, _ := g.try(t.Context(), "POST", "/v1/reserve?tube=a&tube=ab&wait=60s", "", as("app"), changeHeader+": 1")
		answered <- got
	}()
	g.awaitWaiting(1)
	for user, n := range map[string]int{"app": 1, "other": 0, "chief": 0, "root": 1} {
		got := g.listed(as(user))
		if len(got) != n {
			t.Errorf("%s sees %+v", user, got)
		}
		if n == 1 && len(got) == 1 && (got[0].Entrance != "http" || got[0].User != "app" || !got[0].Waiting || strings.Join(got[0].Watched, " ") != "a ab" ||
			got[0].Watching != 2 || !strings.HasPrefix(got[0].Address, "127.0.0.1:") || time.Since(time.UnixMilli(got[0].Since)) > time.Minute) {
			t.Errorf("%s sees %+v", user, got)
		}
	}
	if got := g.call("GET", "/v1/clients?cursor=:0&limit=1", "", as("root")).body; strings.Contains(got, "app:app") || !strings.Contains(got, `"http"`) {
		t.Errorf("the list: %s", got)
	}
	g.call("POST", "/v1/tubes/ab/jobs", `{"body":"x"}`, as("root"))
	if got := <-answered; got.status != 200 {
		t.Errorf("the reserve: %d %s", got.status, got.body)
	}
	if got := g.listed(as("root")); len(got) != 0 {
		t.Errorf("after the answer: %+v", got)
	}
}

// TestAnonymousSeesNoWaiting: unauthenticated clients see nobody, not even their own requests.
func TestAnonymousSeesNoWaiting(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "anonymous a* work,read", "root * put,work,read,admin")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		g.try(ctx, "POST", "/v1/reserve?tube=a&wait=60s", "", changeHeader+": 1")
		close(ended)
	}()
	g.awaitWaiting(1)
	if got := g.listed(); len(got) != 0 {
		t.Errorf("anonymous sees %+v", got)
	}
	if got := g.listed("Authorization: Bearer root:root"); len(got) != 1 || got[0].User != "anonymous" {
		t.Errorf("root sees %+v", got)
	}
	cancel()
	<-ended
}

// TestLeaseTaker: a job says which connection has taken its lease, until another one does; a lease of an
// unnamed client has no name.
func TestLeaseTaker(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	ctx := t.Context()
	a.call("POST", "/v1/tubes/default/jobs", `{"body":"x"}`) // 1
	first, err := a.queue.ReserveLease(ctx, []string{tube.Default}, 0)
	if err != nil {
		t.Fatal(err)
	}
	holder := func() string {
		body := a.call("GET", "/v1/jobs/1", "").body
		_, rest, _ := strings.Cut(body, `"holder":`)
		text, _, _ := strings.Cut(rest, "}")
		return text
	}
	if got := holder(); got != `{"lease":true` {
		t.Errorf("without a name: %s", got)
	}
	a.queue.NoteLease(first.ID, first.Lease, 77, "worker")
	if got := holder(); got != `{"name":"worker","lease":true` {
		t.Errorf("with a name: %s", got)
	}
	a.queue.GiveBackLeases([]queue.Leased{{Job: first}})
	if _, err := a.queue.ReserveLease(ctx, []string{tube.Default}, 0); err != nil {
		t.Fatal(err)
	}
	if got := holder(); got != `{"lease":true` {
		t.Errorf("of the next lease: %s", got)
	}
}

// TestRightsOnPatterns: the policy of a pattern needs the right on all its tubes.
func TestRightsOnPatterns(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "wide mail*,dead put,work,read,admin", "one mailer put,work,read,admin", "idle mail*,dead put,read,admin", "root * put,work,read,admin")
	policy := `{"expire":"1h","on_expire":"park","retry":"exp(1s,1m,5)","jitter":20}`
	for _, c := range []struct {
		user, method, pattern, body string
		status                      int
	}{
		{"wide", "PUT", "mail*", policy, 204}, {"wide", "PUT", "mailer*", policy, 204}, {"wide", "PUT", "mai*", policy, 403}, {"wide", "PUT", "*", policy, 403},
		{"wide", "PUT", "mail*", `{"dead":"dead"}`, 204}, {"wide", "PUT", "mail*", `{"dead":"secret"}`, 403},
		{"wide", "GET", "mail*", "", 200}, {"wide", "GET", "*", "", 403}, {"wide", "DELETE", "*", "", 403},
		{"one", "PUT", "mailer", policy, 204}, {"one", "PUT", "mailer*", policy, 403}, {"one", "GET", "mail*", "", 403}, {"one", "DELETE", "mailer*", "", 403},
		{"idle", "PUT", "mail*", `{"dead":"dead"}`, 403}, {"idle", "PUT", "mail*", policy, 204},
		{"root", "PUT", "*", policy, 204}, {"root", "GET", "*", "", 200}, {"root", "DELETE", "*", "", 204}, {"wide", "DELETE", "mail*", "", 204},
	} {
		got := g.call(c.method, "/v1/tubes/"+c.pattern+"/policy", c.body, "Authorization: Bearer "+c.user+":"+c.user, changeHeader+": 1")
		if got.status != c.status {
			t.Errorf("%s %s %s as %s: %d %s, want %d", c.method, c.pattern, c.body, c.user, got.status, got.body, c.status)
		}
	}
}
