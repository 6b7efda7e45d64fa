package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"redstalk/server/jobbatch"
)

// TestBatchesOfJobs: a batch is put with its members and the jobs after it, and described; the jobs run when the members are deleted.
func TestBatchesOfJobs(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	go jobbatch.New(a.queue, nil).Run(t.Context())
	put := decode[struct {
		Name           string
		Members, After []putAnswer
	}](t, a.want(201, "POST", "/v1/batches", `{"members":[{"tube":"t","body":"one"},{"tube":"u","body":"two","key":"k"}],"after":[{"tube":"m","body":"mail"},{"tube":"m","body":"all","all":true,"delay":"1h"}]}`))
	if len(put.Members) != 2 || len(put.After) != 2 || put.Members[0].State != "ready" || put.After[0].State != "delayed" || !strings.HasPrefix(put.Name, "batch-") {
		t.Fatalf("%+v", put)
	}
	one := "/v1/batches/" + put.Name
	got := decode[batchWithAfter](t, a.want(200, "GET", one, ""))
	if got.State != "sealed" || got.Total != 2 || got.Pending != 2 || got.AfterHeld != 2 || len(got.After) != 2 || got.After[0].Held != "batch" || got.After[0].After != put.Name || got.After[1].AfterAll != put.Name {
		t.Errorf("%+v", got)
	}
	if page := decode[membersPage](t, a.want(200, "GET", one+"/members?limit=1", "")); len(page.Jobs) != 1 || page.Next == "" || page.Jobs[0].Batch != put.Name {
		t.Errorf("%+v", page)
	}
	if p := a.want(409, "POST", "/v1/tubes/t/jobs", `{"body":"late","batch":"`+put.Name+`"}`); !strings.Contains(p.body, "BATCH_SEALED") {
		t.Error(p.body)
	}
	for _, m := range put.Members {
		a.want(204, "DELETE", fmt.Sprint("/v1/jobs/", m.ID), "")
	}
	for state := ""; state != "ready"; {
		state = decode[JobInfo](t, a.want(200, "GET", fmt.Sprint("/v1/jobs/", put.After[0].ID), "")).State
	}
	if j := decode[JobInfo](t, a.want(200, "GET", fmt.Sprint("/v1/jobs/", put.After[1].ID), "")); j.State != "delayed" || j.Due < 3_500_000 || j.AfterAll != "" {
		t.Errorf("%+v", j)
	}
	if got := decode[batchWithAfter](t, a.want(200, "GET", one, "")); got.State != "done" || got.Done != 2 {
		t.Errorf("%+v", got)
	}
}

// TestBatchesByName: a batch is opened, sealed, cancelled and listed by its name.
func TestBatchesByName(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(201, "POST", "/v1/batches", `{"name":"a/b","ttl":"1h","seal":false,"members":[{"tube":"t","body":"one"}]}`)
	a.want(201, "POST", "/v1/tubes/t/jobs?batch=a/b", "two", "Content-Type: application/octet-stream")
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"after","after":"a/b"}`)
	one := "/v1/batches/" + url.PathEscape("a/b")
	if got := decode[batchWithAfter](t, a.want(200, "GET", one, "")); got.State != "open" || got.TTL != 3_600_000 || got.Pending != 2 {
		t.Errorf("%+v", got)
	}
	a.want(204, "POST", one+"/seal", "")
	a.want(204, "POST", one+"/seal", "")
	if got := a.want(200, "DELETE", one, "").body; !strings.Contains(got, `"removed":2`) {
		t.Error(got)
	}
	a.want(204, "POST", "/v1/batches/c/seal", "")
	page := decode[batchesPage](t, a.want(200, "GET", "/v1/batches?limit=1", ""))
	if len(page.Batches) != 1 || page.Batches[0].Name != "a/b" || page.Batches[0].State != "failed" || page.Batches[0].Gone != 2 || page.Next == "" {
		t.Errorf("%+v", page)
	}
	if page = decode[batchesPage](t, a.want(200, "GET", "/v1/batches?cursor="+url.QueryEscape(page.Next), "")); len(page.Batches) != 1 || page.Batches[0].State != "done" || page.Next != "" {
		t.Errorf("%+v", page)
	}
	if got := a.want(200, "DELETE", "/v1/batches/c", "").body; !strings.Contains(got, `"removed":0`) {
		t.Error(got)
	}
	a.want(404, "GET", "/v1/batches/c", "")
	a.want(200, "DELETE", one, "") // a job waits for it
	a.want(200, "GET", one, "")
	a.want(404, "GET", "/v1/batches/none", "")
	a.want(404, "DELETE", "/v1/batches/none", "")
}

// TestWrongBatches: the answer to a wrong batch names the field, and nothing of it is put.
func TestWrongBatches(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(204, "PUT", "/v1/tubes/full/policy", `{"quota_jobs":1}`)
	for body, want := range map[string]string{
		`{"name":"a b"}`: "name:",
		`{"seal":false}`: "members:",
		`{"members":[{"tube":"t","body":"x"},{"tube":"-","body":"x"}]}`:                    "members[1]: tube:",
		`{"members":[{"tube":"t","body":"x","batch":"b"}]}`:                                "members[0]",
		`{"after":[{"tube":"t","body":"x","after":"b"}]}`:                                  "after[0]",
		`{"name":"b","after":[{"tube":"t","body":"x","batch":"b"}]}`:                       "after[0]: after:",
		`{"after":[{"tube":"t","body":"x","at":5}]}`:                                       "after[0]: at:",
		`{"ttl":"0s","members":[{"tube":"t","body":"x"}]}`:                                 "members[0]: batch_ttl:",
		`{"members":[{"tube":"t"}]}`:                                                       "members[0]: body:",
		`{"members":[{"tube":"t","body":"x"}],"before":[]}`:                                "before",
		`{"members":[{"tube":"t","body":"x"},{"tube":"t","body":"x","after":"b","at":1}]}`: "members[1]: at:",
	} {
		if p := a.want(422, "POST", "/v1/batches", body); !strings.Contains(p.body, want) {
			t.Errorf("%s: %s", body, p.body)
		}
	}
	if p := a.want(507, "POST", "/v1/batches", `{"name":"q","members":[{"tube":"t","body":"x"},{"tube":"full","body":"x"},{"tube":"full","body":"x"}],"after":[{"tube":"t","body":"x"}]}`); !strings.Contains(p.body, "quota") || strings.Contains(p.body, "store") {
		t.Error(p.body)
	}
	a.want(404, "GET", "/v1/tubes/t", "")
	a.want(201, "POST", "/v1/batches", `{"name":"q","members":[{"tube":"t","body":"x"}]}`)
	if p := a.want(409, "POST", "/v1/batches", `{"name":"q2","members":[{"tube":"t","body":"x"},{"tube":"t","body":"x","batch_ttl":"1h","key":"k"}],"after":[{"tube":"t","body":"x"},{"tube":"t","body":"x","key":"k","on_duplicate":"fail"}]}`); !strings.Contains(p.body, "DUPLICATE") {
		t.Error(p.body)
	}
	if page := decode[batchesPage](t, a.want(200, "GET", "/v1/batches", "")); len(page.Batches) != 1 || page.Batches[0].Total != 1 {
		t.Errorf("after batches that were refused: %+v", page)
	}
	for field, query := range map[string]string{"after_all": "after=a&after_all=b", "at": "after=a&at=5", "batch_ttl": "batch_ttl=5s", "batch": "batch=%20"} {
		if p := a.want(422, "POST", "/v1/tubes/t/jobs?"+query, "x", "Content-Type: application/octet-stream"); !strings.Contains(p.body, field+":") {
			t.Errorf("%s: %s", query, p.body)
		}
	}
}
