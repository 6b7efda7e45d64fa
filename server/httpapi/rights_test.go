package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/server/sight"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/engines"
	"redstalk/tube"
	"redstalk/tube/field"
)

// words maps each operation to its name in the table of package access.
var accessNames = map[string]string{
	"POST /v1/tubes/{tube}/jobs": "put", "POST /v1/tubes/{tube}/jobs/batch": "batch", "POST /v1/reserve": "reserve-lease",
	"DELETE /v1/jobs/{id}": "delete", "POST /v1/jobs/finish": "delete-batch", "POST /v1/jobs/{id}/release": "release-lease",
	"POST /v1/jobs/{id}/bury": "bury-lease", "POST /v1/jobs/{id}/touch": "touch-lease", "GET /v1/jobs/{id}": "stats-job",
	"PUT /v1/jobs/{id}/checkpoint": "checkpoint-lease", "GET /v1/jobs/{id}/checkpoint": "get-checkpoint",
	"POST /v1/jobs/{id}/kick": "kick-job", "POST /v1/jobs/{id}/replay": "replay-job", "POST /v1/jobs/{id}/take-back": "take-back", "DELETE /v1/clients/{id}": "close-client", "GET /v1/hung": "list-hung",
	"POST /v1/jobs/{id}/reschedule": "reschedule", "POST /v1/jobs/{id}/priority": "set-priority",
	"GET /v1/tubes": "list-tubes", "GET /v1/tubes/{tube}": "stats-tube", "GET /v1/tubes/{tube}/jobs": "list-jobs", "DELETE /v1/tubes/{tube}/jobs": "flush-tube",
	"GET /v1/tubes/{tube}/keys/{key}": "list-jobs", "DELETE /v1/tubes/{tube}/keys/{key}": "delete-key", "POST /v1/tubes/{tube}/kick": "kick",
	"POST /v1/tubes/{tube}/pause": "pause-tube", "POST /v1/tubes/{tube}/move": "move-jobs", "GET /v1/tubes/{tube}/policy": "get-policy",
	"PUT /v1/tubes/{tube}/policy": "set-policy", "DELETE /v1/tubes/{tube}/policy": "set-policy", "GET /v1/events": "events",
	"GET /v1/server": "stats", "POST /v1/server/drain": "drain", "POST /v1/server/undrain": "undrain",
	"GET /v1/watch": "events", "GET /v1/charts": "list-tubes", "GET /v1/tubes/{tube}/chart": "stats-tube", "GET /v1/history": "history", "GET /v1/tubes/{tube}/history": "history-tube", "GET /v1/search": "list-jobs",
	"GET /v1/jobs": "list-tubes", "POST /v1/search/actions": "list-policies", "POST /v1/jobs/actions": "kick-job", "GET /v1/caller": "capabilities",
	"GET /v1/tubes/{tube}/groups": "list-groups", "GET /v1/tubes/{tube}/groups/{group}": "stats-group", "PUT /v1/tubes/{tube}/groups/{group}": "set-group",
	"DELETE /v1/tubes/{tube}/groups/{group}": "set-group", "POST /v1/tubes/{tube}/groups/{group}/pause": "pause-group", "POST /v1/tubes/{tube}/groups/{group}/flush": "flush-group",
	"GET /v1/schedules": "list-schedules", "GET /v1/schedules/{schedule}": "get-schedule", "PUT /v1/schedules/{schedule}": "set-schedule",
	"DELETE /v1/schedules/{schedule}": "delete-schedule", "POST /v1/schedules/{schedule}/pause": "pause-schedule", "POST /v1/schedules/{schedule}/resume": "resume-schedule",
	"POST /v1/schedules/{schedule}/run": "run-schedule", "GET /v1/schedules/{schedule}/preview": "preview-schedule", "GET /v1/preview": "preview-schedule",
	"POST /v1/batches": "put", "GET /v1/batches": "list-batches", "GET /v1/batches/{batch}": "stats-batch", "GET /v1/batches/{batch}/members": "list-members",
	"GET /v1/jobs/{id}/result": "stats-ended", "POST /v1/jobs/{id}/finish": "finish-lease", "GET /v1/tubes/{tube}/ended": "list-ended",
	"GET /v1/batches/{batch}/results": "list-members",
	"POST /v1/batches/{batch}/seal":   "seal-batch", "DELETE /v1/batches/{batch}": "cancel-batch",
	"GET /v1/store": "stats", "POST /v1/server/backup": "backup", "GET /v1/clients": "list-clients",
}

// requests has a request for each operation, on the tube t and the job {id}. The job has the key k; it is reserved
// if the request has {lease}, and otherwise ready. The status 404 means that the job is not in the right state.
var requests = map[string]struct {
	at, body string
	status   int
}{
	"POST /v1/tubes/{tube}/jobs":                 {"/v1/tubes/t/jobs", `{"body":"x"}`, 201},
	"POST /v1/tubes/{tube}/jobs/batch":           {"/v1/tubes/t/jobs/batch", `[{"body":"x"}]`, 200},
	"POST /v1/reserve":                           {"/v1/reserve?tube=t", "", 200},
	"DELETE /v1/jobs/{id}":                       {"/v1/jobs/{id}?lease={lease}", "", 204},
	"POST /v1/jobs/finish":                       {"/v1/jobs/finish", `[{"id":{id}}]`, 200},
	"POST /v1/jobs/{id}/release":                 {"/v1/jobs/{id}/release?lease={lease}", "", 204},
	"POST /v1/jobs/{id}/bury":                    {"/v1/jobs/{id}/bury?lease={lease}", "", 204},
	"POST /v1/jobs/{id}/touch":                   {"/v1/jobs/{id}/touch?lease={lease}", "", 204},
	"PUT /v1/jobs/{id}/checkpoint":               {"/v1/jobs/{id}/checkpoint?lease={lease}", `"row 7"`, 204},
	"GET /v1/jobs/{id}/checkpoint":               {"/v1/jobs/{id}/checkpoint", "", 404},
	"GET /v1/jobs/{id}/result":                   {"/v1/jobs/{id}/result", "", 204},
	"POST /v1/jobs/{id}/finish":                  {"/v1/jobs/{id}/finish?lease={lease}", `{"result":"x"}`, 204},
	"GET /v1/tubes/{tube}/ended":                 {"/v1/tubes/t/ended", "", 200},
	"GET /v1/batches/{batch}/results":            {"/v1/batches/b/results", "", 200},
	"GET /v1/jobs/{id}":                          {"/v1/jobs/{id}", "", 200},
	"POST /v1/jobs/{id}/kick":                    {"/v1/jobs/{id}/kick", "", 404},
	"POST /v1/jobs/{id}/replay":                  {"/v1/jobs/{id}/replay", "", 404},
	"POST /v1/jobs/{id}/take-back":               {"/v1/jobs/{id}/take-back", "", 404},
	"GET /v1/hung":                               {"/v1/hung", "", 200},
	"DELETE /v1/clients/{id}":                    {"/v1/clients/9999", "", 404},
	"POST /v1/jobs/{id}/reschedule":              {"/v1/jobs/{id}/reschedule?in=1s", "", 204},
	"POST /v1/jobs/{id}/priority":                {"/v1/jobs/{id}/priority?priority=1", "", 204},
	"GET /v1/tubes":                              {"/v1/tubes", "", 200},
	"GET /v1/clients":                            {"/v1/clients", "", 200},
	"GET /v1/watch":                              {"/v1/watch", "", 200},
	"GET /v1/charts":                             {"/v1/charts", "", 200},
	"GET /v1/tubes/{tube}/chart":                 {"/v1/tubes/t/chart", "", 200},
	"GET /v1/history":                            {"/v1/history", "", 200},
	"GET /v1/tubes/{tube}/history":               {"/v1/tubes/t/history?period=days&count=90", "", 200},
	"GET /v1/search":                             {"/v1/search?tube=t&text=x", "", 200},
	"POST /v1/search/actions":                    {"/v1/search/actions", `{"action":"kick"}`, 200},
	"GET /v1/jobs":                               {"/v1/jobs?key=k", "", 200},
	"POST /v1/jobs/actions":                      {"/v1/jobs/actions", `{"action":"kick","ids":[{id}]}`, 200},
	"GET /v1/caller":                             {"/v1/caller", "", 200},
	"GET /v1/store":                              {"/v1/store", "", 200},
	"GET /v1/tubes/{tube}":                       {"/v1/tubes/t", "", 200},
	"GET /v1/tubes/{tube}/jobs":                  {"/v1/tubes/t/jobs?state=ready", "", 200},
	"DELETE /v1/tubes/{tube}/jobs":               {"/v1/tubes/t/jobs", "", 200},
	"GET /v1/tubes/{tube}/keys/{key}":            {"/v1/tubes/t/keys/k{id}", "", 200},
	"DELETE /v1/tubes/{tube}/keys/{key}":         {"/v1/tubes/t/keys/k{id}", "", 204},
	"POST /v1/tubes/{tube}/kick":                 {"/v1/tubes/t/kick", "", 200},
	"POST /v1/tubes/{tube}/pause":                {"/v1/tubes/t/pause?for=0", "", 204},
	"POST /v1/tubes/{tube}/move":                 {"/v1/tubes/t/move?state=ready&to=t&n=1", "", 200},
	"GET /v1/tubes/{tube}/policy":                {"/v1/tubes/t/policy", "", 200},
	"PUT /v1/tubes/{tube}/policy":                {"/v1/tubes/t/policy", `{"max":100000}`, 204},
	"DELETE /v1/tubes/{tube}/policy":             {"/v1/tubes/t/policy", "", 204},
	"GET /v1/tubes/{tube}/groups":                {"/v1/tubes/t/groups", "", 200},
	"GET /v1/tubes/{tube}/groups/{group}":        {"/v1/tubes/t/groups/g", "", 200},
	"PUT /v1/tubes/{tube}/groups/{group}":        {"/v1/tubes/t/groups/g", `{"weight":2}`, 204},
	"DELETE /v1/tubes/{tube}/groups/{group}":     {"/v1/tubes/t/groups/g", "", 204},
	"POST /v1/tubes/{tube}/groups/{group}/pause": {"/v1/tubes/t/groups/g/pause?for=0", "", 204},
	"POST /v1/tubes/{tube}/groups/{group}/flush": {"/v1/tubes/t/groups/g/flush", "", 200},
	"GET /v1/schedules":                          {"/v1/schedules", "", 200},
	"GET /v1/schedules/{schedule}":               {"/v1/schedules/s", "", 200},
	"PUT /v1/schedules/{schedule}":               {"/v1/schedules/s", `{"tube":"t","every":"1h","body":"x"}`, 204},
	"DELETE /v1/schedules/{schedule}":            {"/v1/schedules/s", "", 204},
	"POST /v1/schedules/{schedule}/pause":        {"/v1/schedules/s/pause", "", 204},
	"POST /v1/schedules/{schedule}/resume":       {"/v1/schedules/s/resume", "", 204},
	"POST /v1/schedules/{schedule}/run":          {"/v1/schedules/s/run", "", 201},
	"GET /v1/schedules/{schedule}/preview":       {"/v1/schedules/s/preview", "", 200},
	"GET /v1/preview":                            {"/v1/preview?cron=@daily", "", 200},
	"POST /v1/batches":                           {"/v1/batches", `{"members":[{"tube":"t","body":"x"}]}`, 201},
	"GET /v1/batches":                            {"/v1/batches", "", 200},
	"GET /v1/batches/{batch}":                    {"/v1/batches/b", "", 200},
	"GET /v1/batches/{batch}/members":            {"/v1/batches/b/members", "", 200},
	"POST /v1/batches/{batch}/seal":              {"/v1/batches/b/seal", "", 204},
	"DELETE /v1/batches/{batch}":                 {"/v1/batches/b", "", 200},
	"GET /v1/events":                             {"/v1/events", "", 200},
	"GET /v1/server":                             {"/v1/server", "", 200},
	"POST /v1/server/drain":                      {"/v1/server/drain", "", 204},
	"POST /v1/server/backup":                     {"/v1/server/backup", `{"to":"x"}`, 422},
	"POST /v1/server/undrain":                    {"/v1/server/undrain", "", 204},
}

// TestRightsOfOperations: every operation needs the right in the table of package access.
func TestRightsOfOperations(t *testing.T) {
	t.Parallel()
	for _, op := range start(t, Config{}).api.Operations() {
		name := op.Method + " " + op.Path
		need, known := access.NeedOf(accessNames[name])
		if !known {
			t.Errorf("%s is not in the table", name)
		}
		if op.Right != need.One {
			t.Errorf("%s needs %s, %s needs %v", name, op.Right, accessNames[name], need.One)
		}
		if requests[name].at == "" {
			t.Errorf("%s has no request", name)
		}
	}
}

// guarded is a harness with a users file. The secret of a user is its name.
type guarded struct {
	*harness
	access *access.Access
	path   string
}

func startGuarded(t *testing.T, users ...string) *guarded {
	t.Helper()
	return startGuardedOn(t, embedded.NewMemory(), users...)
}

// startGuardedOn is startGuarded with a given engine.
func startGuardedOn(t *testing.T, store storage.Store, users ...string) *guarded {
	t.Helper()
	return startHiding(t, store, nil, users...)
}

// startHiding is startGuardedOn with values that are hidden.
func startHiding(t *testing.T, store storage.Store, hides *sight.Redaction, users ...string) *guarded {
	t.Helper()
	g := &guarded{path: filepath.Join(t.TempDir(), "users.yml")}
	g.write(t, users...)
	var err error
	if g.access, err = access.Open(g.path, hides, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.access.Close)
	g.harness = startWith(t, store, Config{Access: g.access, Handlers: map[string]http.Handler{
		"GET /metrics": http.NotFoundHandler(), "/": http.NotFoundHandler(),
	}}, queue.Config{MaxJobSize: 1000, Version: "test", MayPush: func(string) bool { return true }})
	return g
}

// write writes the users file. Each user is given as NAME TUBES RIGHTS, the last two separated by commas.
func (g *guarded) write(t *testing.T, users ...string) {
	t.Helper()
	text := "users:\n"
	for _, user := range users {
		f := strings.Fields(user)
		hash, err := access.HashBcrypt(f[0], 4)
		if err != nil {
			t.Fatal(err)
		}
		secrets := fmt.Sprintf("secrets: [%q], ", hash)
		if f[0] == "anonymous" {
			secrets = ""
		}
		tubes := strings.ReplaceAll(f[1], ",", `","`)
		text += fmt.Sprintf("- {name: %s, %slimits: {jobs-per-second: 1000}, rights: [{tubes: [\"%s\"], may: [%s]}]}\n", f[0], secrets, tubes, f[2])
	}
	if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEveryOperationWithEveryRight makes every request as users with one right on the tube, on another tube, and
// on all tubes, on each engine.
func TestEveryOperationWithEveryRight(t *testing.T) {
	t.Parallel()
	engines.Each(t, engines.All, tryAllOperations)
}

func tryAllOperations(t *testing.T, store storage.Store) {
	var users []string
	for _, right := range []Right{access.Put, access.Work, access.List, access.Read, access.Admin} {
		users = append(users, fmt.Sprintf("%s-t t %s", right, right), fmt.Sprintf("%s-other other %s", right, right), fmt.Sprintf("%s-all * %s", right, right))
	}
	g := startGuardedOn(t, store, users...)
	for _, op := range g.api.Operations() {
		for _, user := range users {
			f := strings.Fields(user)
			g.wantStatus(op, f[0], g.statusFor(op, f[1], f[2]))
		}
		g.wantStatus(op, "", 401)
		g.wantStatus(op, "nobody", 401)
	}
	if got := g.call("GET", "/metrics", "", "Authorization: Bearer list-t:list-t"); got.status != 403 {
		t.Errorf("metrics for a user without the right on all tubes: %d", got.status)
	}
	if got := g.call("GET", "/metrics", "", "Authorization: Bearer list-all:list-all"); got.status != 404 { // the answer of the handler
		t.Errorf("metrics for a user with the right on all tubes: %d", got.status)
	}
}

// statusFor returns the expected status of an operation for a user with one right on some tubes.
func (g *guarded) statusFor(op Operation, tubes, right string) int {
	name := op.Method + " " + op.Path
	need, _ := access.NeedOf(accessNames[name])
	has, onT := slices.Contains(op.Right.Words(), right) || right == "read" && op.Right&access.List != 0, tubes != "other" // who may read may list
	switch {
	case need.Where == access.Free: // for every user
	case name == "POST /v1/jobs/finish", name == "POST /v1/jobs/actions":
		return 200 // each job is answered for itself
	case need.Where == access.OfJob && !onT:
		return 404
	case !has:
		return 403
	case need.Where == access.OfBatch && tubes != "*" && right != "put": // only who can put somewhere has batches
		return 403
	case op.Tube == OfSchedule && !onT && op.Method != "PUT":
		return 404
	case op.Tube == OfSchedule && op.Right == access.Admin:
		return 403 // this needs put as well, see TestRightsOfSchedules
	case need.Where == access.Everywhere && tubes != "*", (need.Where == access.OfTube || name == "POST /v1/reserve") && !onT:
		return 403
	}
	return requests[name].status
}

// wantStatus makes a request as a user and compares the status.
func (g *guarded) wantStatus(op Operation, user string, want int) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	name := op.Method + " " + op.Path
	ask := requests[name]
	g.queue.Undrain()
	g.queue.SetPolicy(ctx, "t", &tube.Policy{Rules: tube.Rules{Max: 100000, Keep: field.LifetimeOf(time.Hour)}})
	g.queue.Flush(ctx, "t", tube.Gone)
	put, err := g.queue.PutTagged(ctx, queue.NewJob{Tube: "t", TTR: 60, Body: []byte("x")}, &tube.Tags{Key: "k", Group: "g"})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.api.service.schedules.Set(ctx, &tube.Schedule{Name: "s", Tube: "t", TTR: 1, Timing: tube.Timing{Every: time.Hour}}, nil); err != nil {
		g.t.Fatal(err)
	}
	if err := g.queue.SealBatch(ctx, "b"); err != nil {
		g.t.Fatal(err)
	}
	id, lease := fmt.Sprint(put.ID), ""
	if strings.Contains(ask.at, "{lease}") {
		job, err := g.queue.ReserveLease(ctx, []string{"t"}, 0)
		if err != nil {
			g.t.Fatal(err)
		}
		lease = fmt.Sprint(job.Lease)
		defer g.queue.Flush(context.Background(), "t", tube.Reserved)
	}
	fill := strings.NewReplacer("k{id}", "k", "{id}", id, "{lease}", lease)
	headers := []string{changeHeader + ": 1"}
	if user != "" {
		headers = append(headers, "Authorization: Bearer "+user+":"+user)
	}
	r, err := http.NewRequestWithContext(ctx, op.Method, "http://"+g.addr+fill.Replace(ask.at), strings.NewReader(fill.Replace(ask.body)))
	if err != nil {
		g.t.Fatal(err)
	}
	for _, header := range append(headers, "Content-Type: application/json") {
		key, value, _ := strings.Cut(header, ": ")
		r.Header.Set(key, value)
	}
	if user == "nobody" {
		r.Header.Set("Authorization", "Basic !")
	}
	got, err := g.client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != want || (want == 401) != (got.Header.Get("WWW-Authenticate") != "") {
		g.t.Errorf("%s as %q: %d, want %d", name, user, got.StatusCode, want)
	}
	g.queue.Flush(context.Background(), "t", tube.Reserved)
}

// TestOtherTubes: rights are also checked on tubes outside of the path, and lists leave out tubes without the
// right.
func TestOtherTubes(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "all a* put,work,read,admin", "root * put,work,read,admin")
	all, root := "Authorization: Bearer all:all", "Authorization: Bearer root:root"
	for _, c := range []struct {
		method, path, body string
		status             int
		contains           string
	}{
		{"POST", "/v1/tubes/a/jobs", `{"body":"x","max":1,"dead":"secret"}`, 403, "FORBIDDEN"},
		{"POST", "/v1/tubes/a/jobs?max=1&dead=secret", "", 403, "FORBIDDEN"},
		{"POST", "/v1/tubes/a/jobs/batch", `[{"body":"x","dead":"secret"},{"body":"x","dead":"ab"}]`, 200, `[{"status":403,`},
		{"POST", "/v1/tubes/a/jobs", `{"body":"x","batch":"root~b"}`, 403, "batch: "},
		{"POST", "/v1/tubes/a/jobs", `{"body":"x","after_all":"root~b"}`, 403, `"after_all: `},
		{"POST", "/v1/tubes/a/jobs", `{"body":"x","after":"~b"}`, 403, `"after: `},
		{"PUT", "/v1/schedules/s", `{"tube":"a","every":"1h","body":"x","after":"root~b"}`, 403, `"after: `},
		{"PUT", "/v1/tubes/a/policy", `{"max":1,"dead":"secret"}`, 403, ""},
		{"POST", "/v1/tubes/a/move?state=ready&to=secret&n=1", "", 403, ""},
		{"POST", "/v1/reserve?tube=a&tube=secret", "", 403, ""},
		{"POST", "/v1/reserve", "", 403, ""},
		{"GET", "/v1/events?tube=a&tube=secret", "", 403, ""},
		{"POST", "/v1/jobs/actions", `{"action":"delete","ids":[1,99]}`, 200, `"missed":[1,99]`},
		{"POST", "/v1/jobs/actions", `{"action":"move","ids":[1],"to":"secret"}`, 403, "FORBIDDEN"},
		{"POST", "/v1/jobs/finish", `[{"id":1},{"id":4},{"id":99}]`, 200, `[{"status":404,"code":"NOT_FOUND"},{"status":204,"id":4},{"status":404,`},
	} {
		g.call("POST", "/v1/tubes/secret/jobs", `{"body":"x"}`, root) // 1
		headers := []string{all}
		if strings.Contains(c.path, "jobs?") {
			headers = append(headers, "Content-Type: application/octet-stream")
		}
		if got := g.call(c.method, c.path, c.body, headers...); got.status != c.status || !strings.Contains(got.body, c.contains) {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, got.status, got.body, c.status)
		}
	}
	if got := g.call("GET", "/v1/tubes", "", all).body; strings.Contains(got, "secret") || strings.Contains(got, "default") {
		t.Errorf("tubes: %s", got)
	}
	if got := g.call("GET", "/v1/tubes", "", root).body; !strings.Contains(got, "secret") {
		t.Errorf("tubes: %s", got)
	}
}

// TestJobsLeave: redirecting jobs needs the right work on the tube that they leave, and put on the tube that they
// enter.
func TestJobsLeave(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "head * put,read,admin", "source * work,read,admin", "root * put,work,read,admin")
	g.call("POST", "/v1/tubes/a/jobs", `{"body":"x"}`, "Authorization: Bearer root:root") // 1
	for _, c := range []struct{ user, method, path, body, want string }{
		{"head", "PUT", "/v1/tubes/a/policy", `{"push":"http://localhost:1/"}`, "FORBIDDEN"},
		{"head", "PUT", "/v1/tubes/a/policy", `{"max":1,"dead":"b"}`, "FORBIDDEN"},
		{"head", "PUT", "/v1/tubes/a/policy", `{"max":1}`, ""},
		{"head", "POST", "/v1/tubes/a/move?state=ready&to=b&n=1", "", "FORBIDDEN"},
		{"head", "POST", "/v1/jobs/actions", `{"action":"move","ids":[1],"to":"b"}`, `"missed":[1]`},
		{"source", "PUT", "/v1/tubes/a/policy", `{"max":1,"dead":"b"}`, "FORBIDDEN"},
		{"source", "POST", "/v1/tubes/a/move?state=ready&to=b&n=1", "", "FORBIDDEN"},
		{"source", "POST", "/v1/jobs/actions", `{"action":"move","ids":[1],"to":"b"}`, "FORBIDDEN"},
		{"source", "PUT", "/v1/tubes/a/policy", `{"push":"http://localhost:1/"}`, ""},
		{"root", "PUT", "/v1/tubes/a/policy", `{"max":1,"dead":"b"}`, ""},
		{"root", "POST", "/v1/jobs/actions", `{"action":"move","ids":[1],"to":"b"}`, `"done":1`},
	} {
		got := g.call(c.method, c.path, c.body, "Authorization: Bearer "+c.user+":"+c.user)
		if forbidden := got.status == 403; forbidden != (c.want == "FORBIDDEN") || !strings.Contains(got.body, c.want) {
			t.Errorf("%s %s %s as %s: %d %s, want %q", c.method, c.path, c.body, c.user, got.status, got.body, c.want)
		}
	}
}

// TestRightsOfReplay: a dead letter can only be sent back by a user who could also move it.
func TestRightsOfReplay(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "dead b put,work,read,admin", "head * put,read,admin", "source * work,read,admin", "root * put,work,read,admin")
	root := "Authorization: Bearer root:root"
	g.call("POST", "/v1/tubes/a/jobs", `{"body":"x","max":1,"dead":"b"}`, root) // 1
	job, err := g.queue.ReserveLease(t.Context(), []string{"a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	g.call("POST", fmt.Sprintf("/v1/jobs/1/release?lease=%d", job.Lease), "", root, changeHeader+": 1")
	for _, c := range []struct {
		user, method, path, body string
		status                   int
		contains                 string
	}{
		{"dead", "POST", "/v1/jobs/2/replay", "", 403, "FORBIDDEN"},
		{"head", "POST", "/v1/jobs/2/replay", "", 403, "FORBIDDEN"},
		{"source", "POST", "/v1/jobs/2/replay", "", 403, "FORBIDDEN"},
		{"head", "POST", "/v1/jobs/actions", `{"action":"replay","ids":[2]}`, 200, `"missed":[2]`},
		{"root", "POST", "/v1/jobs/actions", `{"action":"replay","ids":[2,99]}`, 200, `"done":1`},
		{"root", "POST", "/v1/jobs/3/replay", "", 404, "NOT_FOUND"},
		{"root", "GET", "/v1/jobs/3", "", 200, `"tube":"a","state":"ready"`},
	} {
		got := g.call(c.method, c.path, c.body, "Authorization: Bearer "+c.user+":"+c.user, changeHeader+": 1")
		if got.status != c.status || !strings.Contains(got.body, c.contains) {
			t.Errorf("%s %s %s as %s: %d %s, want %d %s", c.method, c.path, c.body, c.user, got.status, got.body, c.status, c.contains)
		}
	}
}

// TestLimitsOfUsers: a put beyond the rate limits of a user is answered 429, in any form, and accepted later.
func TestLimitsOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{path: filepath.Join(t.TempDir(), "users.yml")}
		g.write(t, "app t put")
		text := strings.Replace(string(must(os.ReadFile(g.path))(t)), "jobs-per-second: 1000", "jobs-per-second: 4, bytes-per-second: 1000", 1)
		os.WriteFile(g.path, []byte(text), 0o600)
		g.access = must(access.Open(g.path, nil, slog.New(slog.DiscardHandler)))(t)
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{})
		server := New(q, Config{Access: g.access})
		put := func(kind, path, body string, want int) string {
			t.Helper()
			r, w := httptest.NewRequest("POST", "/v1/tubes/t/"+path, strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Content-Type", kind)
			r.SetBasicAuth("app", "app")
			if server.ServeHTTP(w, r); w.Code != want || (w.Code == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%s %.40s: %d %s, want %d", path, body, w.Code, w.Body, want)
			}
			return w.Body.String()
		}
		for _, want := range []int{201, 201, 201, 201, 429} {
			put(jsonType, "jobs", `{"body":"x"}`, want)
		}
		put("application/octet-stream", "jobs", "x", 429)
		time.Sleep(250 * time.Millisecond)
		put("application/octet-stream", "jobs", "x", 201)
		time.Sleep(time.Minute)
		answers := put(jsonType, "jobs/batch", "["+strings.Repeat(`{"body":"x"},`, 5)+`{"body":"x"}]`, 200)
		if strings.Count(answers, `"status":201`) != 4 || strings.Count(answers, `"status":429`) != 2 {
			t.Errorf("six at once: %s", answers)
		}
		time.Sleep(time.Minute)
		put("application/octet-stream", "jobs", strings.Repeat("x", 5000), 201)
		put("application/octet-stream", "jobs", "", 429)
		time.Sleep(5 * time.Second)
		put("application/octet-stream", "jobs", "", 201)
		g.access.Close()
		q.Close(t.Context())
		store.Close()
	})
}

// TestChangeEndsWaiting: waiting reserves and streams end when the users file changes, and a removed user is
// refused.
func TestChangeEndsWaiting(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "app t work,read")
	waits := make(chan answer, 2)
	for _, request := range [][2]string{{"POST", "/v1/reserve?tube=t&wait=1h"}, {"GET", "/v1/events?tube=t"}} {
		go func() {
			got, err := g.try(context.Background(), request[0], request[1], "", "Authorization: Bearer app:app")
			if err != nil {
				t.Error(err)
			}
			waits <- got
		}()
	}
	for limit := time.Now().Add(time.Minute); g.api.service.streams.InUse() == 0 || g.queue.Waiters() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no request waits")
		}
	}
	g.write(t, "other t work")
	if err := g.access.Reload(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-waits; got.status != 204 && got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if got := g.call("POST", "/v1/reserve?tube=t", "", "Authorization: Bearer app:app"); got.status != 401 {
		t.Errorf("the removed user gets %d", got.status)
	}
}

// TestEventsOfFew: a user with the right on few of very many tubes gets events about those, whatever their names.
func TestEventsOfFew(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "few z* read", "root * put,read")
	for n := 0; n <= maxSampled; n += 500 {
		for i := range 500 {
			if _, err := g.queue.Put(context.Background(), queue.NewJob{Tube: fmt.Sprint("a", n+i), TTR: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.call("POST", "/v1/tubes/z1/jobs", `{"body":"x"}`, "Authorization: Bearer root:root")
	few, all := g.stream("", "Authorization: Bearer few:few"), g.stream("", "Authorization: Bearer root:root")
	if _, tubes := event(t, few); len(tubes) != 1 || tubes[0].Name != "z1" {
		t.Errorf("the user with one tube gets %d", len(tubes))
	}
	if _, tubes := event(t, all); len(tubes) != maxSampled || tubes[0].Name != "a0" {
		t.Errorf("the user with all tubes gets %d", len(tubes))
	}
}

// TestRightsOfSearch: a user who may not read a tube sees nothing of it in a search, not even in its counts, and changes nothing there; and
// without the right admin it changes nothing.
func TestRightsOfSearch(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "few a* put,work,read", "lead a* put,work,read,admin", "blind * admin", "sender s* put", "root * put,work,read,admin")
	as := func(user string) string { return "Authorization: Bearer " + user + ":" + user }
	for _, name := range []string{"a1", "secret"} {
		g.want(201, "POST", "/v1/tubes/"+name+"/jobs", `{"body":"about 4711","group":"hidden-`+name+`","max":1,"meta":{"m":"4711"}}`, as("root"))
		job := decode[[]leasedJob](t, g.want(200, "POST", "/v1/reserve?tube="+name, "", as("root")))[0]
		g.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s&reason=hidden-%s", job.ID, job.Lease, name), "", as("root"))
	}
	for _, query := range []string{"", "text=4711", "text=2", "failed=true", "limit=0", "group=hidden-secret", "cursor=buried+1.1+secret", "body=about&excerpt=true"} {
		got := g.want(200, "GET", "/v1/search?"+query, "", as("few"))
		if page := decode[foundPage](t, got); strings.Contains(got.body, "secret") || page.Found > 1 || page.Examined > 1 || page.Total != nil && *page.Total > 1 {
			t.Errorf("%s: %s", query, got.body)
		}
		if page := decode[foundPage](t, g.want(200, "GET", "/v1/search?"+query, "", as("root"))); query != "cursor=buried+1.1+secret" && page.Examined != 2 {
			t.Errorf("%s, with all rights: %+v", query, page)
		}
	}
	g.want(403, "GET", "/v1/search?tube=secret", "", as("few"))
	g.want(403, "GET", "/v1/search?tube=a1&tube=secret", "", as("lead"))
	g.want(403, "GET", "/v1/search", "", as("sender"))
	for _, c := range []struct {
		user, body string
		status     int
	}{
		{"few", `{"action":"delete"}`, 403}, {"lead", `{"action":"delete","tube":["secret"]}`, 403}, {"blind", `{"action":"delete","tube":["a1"]}`, 403},
		{"lead", `{"action":"move","to":"secret"}`, 403}, {"blind", `{"action":"delete","text":"4711"}`, 200}, {"lead", `{"action":"delete","text":"2"}`, 200}, {"lead", `{"action":"replay","group":"hidden-secret"}`, 200},
	} {
		if got := g.want(c.status, "POST", "/v1/search/actions", c.body, as(c.user)); got.status == 200 && !strings.Contains(got.body, `"done":0,"missed":0,"counts":[],"examined":`) {
			t.Errorf("%s: %s", c.body, got.body)
		}
	}
	if got := g.want(200, "POST", "/v1/search/actions", `{"action":"kick"}`, as("lead")); !strings.Contains(got.body, `"done":1`) {
		t.Error(got.body)
	}
	if page := decode[foundPage](t, g.want(200, "GET", "/v1/search?failed=true", "", as("root"))); page.Found != 1 || page.Jobs[0].Tube != "secret" {
		t.Errorf("%+v", page)
	}
}
