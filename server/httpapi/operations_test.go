package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/storage/embedded"
)

// steps has requests for all operations, in an order in which each succeeds or fails as expected.
// {lease} is the lease of job 1.
var steps = []struct {
	method, path, at, body string // path is the pattern in the table
	status                 int
}{
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/t/jobs", `{"body":"one","retry":["1m"],"max":5,"dead":"morgue","key":"k"}`, 201},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/t/jobs", `{"body":"one","key":"k","on_duplicate":"fail"}`, 409},
	{"POST", "/v1/tubes/{tube}/jobs/batch", "/v1/tubes/t/jobs/batch", `[{"body":"two"},{"body":"three","delay":600},{"bdoy":1}]`, 200},
	{"GET", "/v1/tubes/{tube}/keys/{key}", "/v1/tubes/t/keys/k", "", 200},
	{"POST", "/v1/reserve", "/v1/reserve?tube=t&n=1", "", 200},
	{"POST", "/v1/reserve", "/v1/reserve?tube=none", "", 204},
	{"POST", "/v1/jobs/{id}/touch", "/v1/jobs/1/touch?lease={lease}", "", 204},
	{"POST", "/v1/jobs/{id}/release", "/v1/jobs/1/release?lease={lease}&delay=1h", "", 204},
	{"POST", "/v1/jobs/{id}/reschedule", "/v1/jobs/1/reschedule?in=2h", "", 204},
	{"POST", "/v1/jobs/{id}/replay", "/v1/jobs/1/replay", "", 404},
	{"POST", "/v1/jobs/{id}/priority", "/v1/jobs/1/priority?priority=7", "", 204},
	{"GET", "/v1/jobs/{id}", "/v1/jobs/1", "", 200},
	{"GET", "/v1/jobs/{id}", "/v1/jobs/99", "", 404},
	{"POST", "/v1/jobs/{id}/kick", "/v1/jobs/1/kick", "", 204},
	{"POST", "/v1/reserve", "/v1/reserve?tube=t&n=1", "", 200},
	{"POST", "/v1/jobs/{id}/bury", "/v1/jobs/1/bury?lease={lease}", "", 204},
	{"POST", "/v1/tubes/{tube}/kick", "/v1/tubes/t/kick?n=5", "", 200},
	{"GET", "/v1/tubes/{tube}/jobs", "/v1/tubes/t/jobs?state=ready&limit=1", "", 200},
	{"GET", "/v1/tubes", "/v1/tubes", "", 200},
	{"GET", "/v1/tubes/{tube}", "/v1/tubes/t", "", 200},
	{"PUT", "/v1/tubes/{tube}/policy", "/v1/tubes/t/policy", `{"retry":["90s",5],"on_duplicate":"replace","quota_jobs":3}`, 204},
	{"GET", "/v1/tubes/{tube}/policy", "/v1/tubes/t/policy", "", 200},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/t/jobs", `{"body":"too many"}`, 507},
	{"DELETE", "/v1/tubes/{tube}/policy", "/v1/tubes/t/policy", "", 204},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/g/jobs", `{"body":"x","group":"a/b c"}`, 201},
	{"PUT", "/v1/tubes/{tube}/groups/{group}", "/v1/tubes/g/groups/a%2Fb%20c", `{"concurrency":3,"rate":"5/m","weight":2,"ttl":"1h"}`, 204},
	{"POST", "/v1/tubes/{tube}/groups/{group}/pause", "/v1/tubes/g/groups/a%2Fb%20c/pause?for=1h&reason=429", "", 204},
	{"GET", "/v1/tubes/{tube}/groups/{group}", "/v1/tubes/g/groups/a%2Fb%20c", "", 200},
	{"GET", "/v1/tubes/{tube}/groups/{group}", "/v1/tubes/g/groups/none", "", 404},
	{"GET", "/v1/tubes/{tube}/groups", "/v1/tubes/g/groups", "", 200},
	{"GET", "/v1/tubes/{tube}/jobs", "/v1/tubes/g/jobs?state=ready", "", 200},
	{"POST", "/v1/tubes/{tube}/groups/{group}/flush", "/v1/tubes/g/groups/a%2Fb%20c/flush", "", 200},
	{"DELETE", "/v1/tubes/{tube}/groups/{group}", "/v1/tubes/g/groups/a%2Fb%20c", "", 204},
	{"PUT", "/v1/schedules/{schedule}", "/v1/schedules/a%2Fb", `{"tube":"t","cron":"30 2 * * 1-5","tz":"Europe/Berlin","body":{"a":1},"retry":["1m"],"meta":{"a":"b"},"catch_up":"1h"}`, 204},
	{"PUT", "/v1/schedules/{schedule}", "/v1/schedules/b", `{"tube":"t","every":"1h","body":"x"}`, 204},
	{"PUT", "/v1/schedules/{schedule}", "/v1/schedules/c", `{"tube":"t","cron":"30 2 31 2 *","body":"x"}`, 422},
	{"GET", "/v1/schedules", "/v1/schedules?limit=1", "", 200},
	{"POST", "/v1/schedules/{schedule}/run", "/v1/schedules/b/run", "", 201},
	{"POST", "/v1/schedules/{schedule}/run", "/v1/schedules/b/run", "", 201},
	{"GET", "/v1/schedules/{schedule}", "/v1/schedules/a%2Fb", "", 200},
	{"GET", "/v1/schedules/{schedule}", "/v1/schedules/b", "", 200},
	{"GET", "/v1/schedules/{schedule}/preview", "/v1/schedules/b/preview?count=2", "", 200},
	{"GET", "/v1/preview", "/v1/preview?cron=@daily&tz=America/New_York", "", 200},
	{"GET", "/v1/preview", "/v1/preview?cron=@daily&tz=New%20York", "", 422},
	{"POST", "/v1/schedules/{schedule}/pause", "/v1/schedules/b/pause", "", 204},
	{"GET", "/v1/schedules/{schedule}", "/v1/schedules/b", "", 200},
	{"POST", "/v1/schedules/{schedule}/resume", "/v1/schedules/b/resume", "", 204},
	{"DELETE", "/v1/schedules/{schedule}", "/v1/schedules/b", "", 204},
	{"DELETE", "/v1/schedules/{schedule}", "/v1/schedules/b", "", 404},
	{"POST", "/v1/batches", "/v1/batches", `{"name":"a/b","members":[{"tube":"b","body":"x"},{"tube":"b","body":"y","key":"k"}],"after":[{"tube":"b","body":"z","all":true}]}`, 201},
	{"POST", "/v1/batches", "/v1/batches", `{"name":"a/b","members":[{"tube":"b","body":"x"}]}`, 409},
	{"POST", "/v1/batches", "/v1/batches", `{"name":"open","ttl":"1h","seal":false,"members":[{"tube":"b","body":"x"}]}`, 201},
	{"GET", "/v1/batches", "/v1/batches?limit=1", "", 200},
	{"GET", "/v1/batches/{batch}", "/v1/batches/a%2Fb", "", 200},
	{"GET", "/v1/batches/{batch}/members", "/v1/batches/a%2Fb/members?limit=1", "", 200},
	{"POST", "/v1/batches/{batch}/seal", "/v1/batches/open/seal", "", 204},
	{"DELETE", "/v1/batches/{batch}", "/v1/batches/a%2Fb", "", 200},
	{"DELETE", "/v1/batches/{batch}", "/v1/batches/none", "", 404},
	{"DELETE", "/v1/tubes/{tube}/jobs", "/v1/tubes/b/jobs", "", 200},
	{"POST", "/v1/tubes/{tube}/pause", "/v1/tubes/t/pause?for=1h", "", 204},
	{"POST", "/v1/tubes/{tube}/move", "/v1/tubes/t/move?state=delayed&to=u&n=5", "", 200},
	{"DELETE", "/v1/tubes/{tube}/keys/{key}", "/v1/tubes/t/keys/k", "", 204},
	{"DELETE", "/v1/jobs/{id}", "/v1/jobs/2", "", 204},
	{"POST", "/v1/jobs/finish", "/v1/jobs/finish", `[{"id":2},{"id":4,"lease":"5"}]`, 200},
	{"DELETE", "/v1/tubes/{tube}/jobs", "/v1/tubes/u/jobs", "", 200},
	{"GET", "/v1/server", "/v1/server", "", 200},
	{"POST", "/v1/server/drain", "/v1/server/drain", "", 204},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/t/jobs", `{"body":""}`, 503},
	{"POST", "/v1/server/undrain", "/v1/server/undrain", "", 204},
	{"POST", "/v1/server/backup", "/v1/server/backup", `{"to":"/nowhere/x"}`, 501}, // it is the memory engine
	{"GET", "/v1/charts", "/v1/charts", "", 200},
	{"GET", "/v1/tubes/{tube}/chart", "/v1/tubes/t/chart", "", 200},
	{"GET", "/v1/history", "/v1/history", "", 200},
	{"GET", "/v1/tubes/{tube}/history", "/v1/tubes/t/history?period=days", "", 200},
	{"GET", "/v1/search", "/v1/search?tube=t&text=ON", "", 200},
	{"POST", "/v1/search/actions", "/v1/search/actions", `{"action":"kick","text":"nothing"}`, 200},
	{"GET", "/v1/jobs", "/v1/jobs?key=k", "", 200},
	{"POST", "/v1/jobs/actions", "/v1/jobs/actions", `{"ids":[2,3],"action":"delete"}`, 200},
	{"POST", "/v1/jobs/actions", "/v1/jobs/actions", `{"ids":[3],"action":"move","to":"elsewhere"}`, 200},
	{"GET", "/v1/caller", "/v1/caller?tube=t", "", 200},
	{"GET", "/v1/store", "/v1/store", "", 200},
	{"GET", "/v1/clients", "/v1/clients", "", 200},
	{"GET", "/v1/hung", "/v1/hung", "", 200},
	{"DELETE", "/v1/clients/{id}", "/v1/clients/99?instance=none", "", 404},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/h/jobs", `{"body":"x"}`, 201},
	{"POST", "/v1/reserve", "/v1/reserve?tube=h", "", 200},
	{"POST", "/v1/jobs/{id}/take-back", "/v1/jobs/{id}/take-back", "", 204},
	{"POST", "/v1/jobs/{id}/take-back", "/v1/jobs/{id}/take-back", "", 404},
	{"DELETE", "/v1/jobs/{id}", "/v1/jobs/{id}?lease={lease}", "", 404},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/r/jobs", `{"body":"x","keep":"1h"}`, 201},
	{"POST", "/v1/reserve", "/v1/reserve?tube=r", "", 200},
	{"GET", "/v1/jobs/{id}/result", "/v1/jobs/{id}/result?wait=1ms", "", 204},
	{"POST", "/v1/jobs/{id}/finish", "/v1/jobs/{id}/finish?lease={lease}", `{"result":"ok"}`, 204},
	{"POST", "/v1/jobs/{id}/finish", "/v1/jobs/{id}/finish?lease={lease}", `{"result":"ok"}`, 404},
	{"GET", "/v1/jobs/{id}/result", "/v1/jobs/{id}/result?wait=1h", "", 200},
	{"GET", "/v1/jobs/{id}/result", "/v1/jobs/99/result", "", 404},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/r/jobs", `{"body":"x"}`, 201},
	{"POST", "/v1/reserve", "/v1/reserve?tube=r", "", 200},
	{"GET", "/v1/jobs/{id}/result", "/v1/jobs/{id}/result", "", 409},
	{"POST", "/v1/jobs/{id}/finish", "/v1/jobs/{id}/finish?lease={lease}", "{}", 409},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/r/jobs?wait=1ms", `{"body":"x","batch":"ended"}`, 201},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/r/jobs?wait=1s", `{"body":"x","expire":"1ms"}`, 200},
	{"GET", "/v1/tubes/{tube}/ended", "/v1/tubes/r/ended?limit=1&how=done&reason=&since=1", "", 200},
	{"GET", "/v1/batches/{batch}/results", "/v1/batches/ended/results", "", 200},
	{"POST", "/v1/tubes/{tube}/jobs", "/v1/tubes/c/jobs", `{"body":"x"}`, 201},
	{"POST", "/v1/reserve", "/v1/reserve?tube=c", "", 200},
	{"GET", "/v1/jobs/{id}/checkpoint", "/v1/jobs/{id}/checkpoint", "", 404},
	{"PUT", "/v1/jobs/{id}/checkpoint", "/v1/jobs/{id}/checkpoint?lease={lease}", `"row 7"`, 204},
	{"PUT", "/v1/jobs/{id}/checkpoint", "/v1/jobs/{id}/checkpoint?lease=1", `"row 8"`, 404},
	{"POST", "/v1/jobs/{id}/touch", "/v1/jobs/{id}/touch?lease={lease}&progress=7+of+8", "", 204},
	{"GET", "/v1/jobs/{id}/checkpoint", "/v1/jobs/{id}/checkpoint", "", 200},
	{"GET", "/v1/tubes/{tube}/jobs", "/v1/tubes/c/jobs?state=reserved", "", 200},
	{"GET", "/v1/events", "", "", 200}, // see TestEvents
	{"GET", "/v1/watch", "", "", 200},  // a stream as well
}

// TestOperations calls every operation of the table and validates the answers against the OpenAPI document. All
// requests are counted under their operations.
func TestOperations(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	asked, lease, id, counts := make(map[string]bool), "", "", make(map[string]int)
	for _, step := range steps {
		asked[step.method+" "+step.path] = true
		if step.at == "" {
			continue
		}
		counts[fmt.Sprint(operationOf(a.api.huma, &row{Operation: Operation{Method: step.method, Path: step.path}}).OperationID, " ", step.status)]++
		got := a.want(step.status, step.method, strings.NewReplacer("{lease}", lease, "{id}", id).Replace(step.at), step.body)
		if got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %v", step.method, step.at, got.header)
		}
		if step.path == "/v1/reserve" && got.status == 200 {
			job := decode[[]leasedJob](t, got)[0]
			lease, id = job.Lease, fmt.Sprint(job.ID)
		}
		if err := a.documented(step.method, step.path, got); err != nil {
			t.Errorf("%s %s: %v\n%s", step.method, step.at, err, got.body)
		}
	}
	all := a.api.Operations()
	for _, op := range all {
		if !asked[op.Method+" "+op.Path] {
			t.Errorf("%s %s was not called", op.Method, op.Path)
		}
	}
	if len(all) != len(asked) {
		t.Errorf("there are %d operations, and %d were called", len(all), len(asked))
	}
	a.client.CloseIdleConnections()
	a.counted(counts)
}

// TestEnding: when the store is closed, each operation that needs it answers that the instance is shutting down.
// Batches report no success.
func TestEnding(t *testing.T) {
	t.Parallel()
	store := embedded.NewMemory()
	a := startOn(t, store, Config{})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	alone := map[string]bool{"/v1/server/backup": true, "/v1/server/drain": true, "/v1/server/undrain": true, "/v1/charts": true, "/v1/tubes/{tube}/chart": true, "/v1/caller": true, "/v1/store": true, "/v1/clients": true, "/v1/clients/{id}": true, "/v1/preview": true}
	for _, step := range steps {
		if step.at == "" || alone[step.path] {
			continue
		}
		got := a.call(step.method, strings.NewReplacer("{lease}", "1-1", "{id}", "1").Replace(step.at), step.body)
		if got.status == 200 && strings.Contains(step.body, "[") { // each job has its own result
			if strings.Contains(got.body, `"status":2`) || strings.Contains(got.body, `"done":1`) {
				t.Errorf("the answer to %s %s is %s", step.method, step.at, got.body)
			}
		} else if got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("the answer to %s %s is %d %s", step.method, step.at, got.status, got.body)
		}
	}
}

// counted waits until exactly these requests are counted. A request is counted shortly after its answer.
func (a *harness) counted(want map[string]int) {
	a.t.Helper()
	got := make(map[string]int)
	for limit := time.Now().Add(time.Minute); !maps.Equal(got, want); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			a.t.Fatalf("counted are %v, want %v", got, want)
		}
		clear(got)
		for _, s := range a.server.Requests() {
			for status, n := range s.Statuses {
				got[fmt.Sprint(s.Operation, " ", status)] += int(n)
			}
		}
	}
}

// documented returns an error if an answer does not match the OpenAPI document.
func (a *harness) documented(method, path string, got answer) error {
	op := operationOf(a.api.huma, &row{Operation: Operation{Method: method, Path: path}})
	if op == nil {
		return fmt.Errorf("the document lacks the operation")
	}
	said := op.Responses[strconv.Itoa(got.status)]
	if said == nil {
		return fmt.Errorf("the document lacks the status %d", got.status)
	}
	kind := got.header.Get("Content-Type")
	if len(said.Content) == 0 || got.body == "" {
		if len(said.Content) != 0 || got.body != "" {
			return fmt.Errorf("a body is there, but not in the document, or the other way round")
		}
		return nil
	}
	media := said.Content[kind]
	if media == nil {
		return fmt.Errorf("the document lacks the type %s", kind)
	}
	var value any
	if err := json.Unmarshal([]byte(got.body), &value); err != nil {
		return err
	}
	result := new(huma.ValidateResult)
	huma.Validate(a.api.huma.OpenAPI().Components.Schemas, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
	if len(result.Errors) > 0 {
		return result.Errors[0]
	}
	return nil
}

// TestDocument: the OpenAPI document has all operations with their rights.
func TestDocument(t *testing.T) {
	t.Parallel()
	a := start(t, Config{Version: "1.2.3"})
	doc := decode[struct {
		OpenAPI string
		Info    struct{ Version string }
		Paths   map[string]map[string]struct {
			Right       string `json:"x-right"`
			OperationID string
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}](t, a.want(200, "GET", "/openapi.json", ""))
	if job := doc.Components.Schemas["JobInfo"].Properties; job["reason"] == nil || job["meta"] == nil {
		t.Errorf("the document lacks fields of a job: %v", job)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || doc.Info.Version != "1.2.3" {
		t.Errorf("%s %s", doc.OpenAPI, doc.Info.Version)
	}
	ids := make(map[string]bool)
	for _, op := range a.api.Operations() {
		said := doc.Paths[op.Path][strings.ToLower(op.Method)]
		if said.Right != op.Right.String() || (op.Right == 0) != (op.Path == "/v1/caller") || said.OperationID == "" || ids[said.OperationID] {
			t.Errorf("%+v is documented as %+v", op, said)
		}
		ids[said.OperationID] = true
		if (op.Tube == InPath) != strings.Contains(op.Path, "{tube}") || (op.Tube == OfJob) != strings.HasPrefix(op.Path, "/v1/jobs/") {
			t.Errorf("the path of %+v does not match its TubeAt", op)
		}
	}
}

// TestPage: docs/http.md lists exactly the operations of the table, and the codes of all problems.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	var existing, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`?]*)").FindAllSubmatch(page, -1) {
		existing = append(existing, string(row[1]))
	}
	for _, op := range start(t, Config{}).api.Operations() {
		want = append(want, op.Method+" "+op.Path)
	}
	slices.Sort(existing)
	slices.Sort(want)
	if !slices.Equal(existing, want) {
		t.Errorf("the page has the operations\n%s\nand there are\n%s", strings.Join(existing, "\n"), strings.Join(want, "\n"))
	}
	problems := map[string]int{
		codeTooMany: 429, codeForbidden: 403, codeUnauthorized: 401, codeUnsupported: 415, codeBadFormat: 422, codeInternal: 500,
		"DUPLICATE": 409, "LOADING": 503, "MISDIRECTED": 421,
	}
	for _, r := range knownErrors {
		problems[r.code] = r.status
	}
	for code, status := range problems {
		if row := fmt.Sprintf("\n| %d | `%s` |", status, code); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}

// TestDocs: the documentation page loads nothing from other hosts, and its policy forbids it.
func TestDocs(t *testing.T) {
	t.Parallel()
	got := start(t, Config{}).want(200, "GET", "/docs", "")
	if strings.Contains(got.body, "://") || strings.Contains(got.body, "src=") {
		t.Error("the page refers to another host")
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
		t.Error(policy)
	}
}

// TestHandlers: the handlers of a Config are served beside the API and do not hide it.
func TestHandlers(t *testing.T) {
	t.Parallel()
	respond := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) })
	}
	a := start(t, Config{Handlers: map[string]http.Handler{"GET /metrics": respond("metrics"), "/": respond("console")}})
	for path, want := range map[string]string{"/metrics": "metrics", "/": "console", "/tubes.js": "console"} {
		if got := a.want(200, "GET", path, ""); got.body != want {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	a.want(200, "GET", "/v1/server", "")
	a.want(405, "PATCH", "/v1/server", "")
}
