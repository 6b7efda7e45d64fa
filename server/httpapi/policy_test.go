package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// TestPolicy: each field of a policy is returned as it was set. An empty policy is no policy.
func TestPolicy(t *testing.T) {
	t.Parallel()
	a := startWith(t, embedded.NewMemory(), Config{}, queue.Config{MayPush: func(string) bool { return true }})
	for _, policy := range []string{
		`{"retry":["90s","5s"]}`,
		`{"max":5}`,
		`{"dead":"morgue"}`,
		`{"key_ttl":"1h"}`, `{"key_ttl":"0s"}`,
		`{"on_duplicate":"replace"}`, `{"on_duplicate":"keep"}`, `{"on_duplicate":"fail"}`,
		`{"quota_jobs":3}`, `{"quota_jobs":0}`,
		`{"quota_bytes":3000}`, `{"quota_bytes":0}`,
		`{"group_concurrency":3}`, `{"group_rate":"100/m,1000/h"}`, `{"group_order":"strict"}`, `{"group_order":"fair"}`, `{"concurrency":1000000}`, `{"rate":"1/s,2/m,3/h"}`,
		`{"push":"https://example.org/a"}`,
		`{"push":"https://example.org/a","push_concurrency":7}`,
		`{"push":"https://example.org/a","push_timeout":"3s"}`,
		`{"push":"https://example.org/a","push_rate":"100/m"}`,
		`{"retry":["1m"],"max":5,"dead":"morgue","key_ttl":"1h","on_duplicate":"fail","quota_jobs":3,"quota_bytes":9,` +
			`"group_concurrency":3,"group_rate":"5/s","group_order":"fair","concurrency":50,"rate":"200/s",` +
			`"push":"https://example.org/a","push_concurrency":10000,"push_timeout":"1h","push_rate":"5/h"}`,
	} {
		a.want(204, "PUT", "/v1/tubes/t/policy", policy)
		if got := a.want(200, "GET", "/v1/tubes/t/policy", ""); got.body != policy {
			t.Errorf("%s is returned as %s", policy, got.body)
		}
	}
	a.want(204, "PUT", "/v1/tubes/t/policy", `{}`)
	a.want(404, "GET", "/v1/tubes/t/policy", "")
	if got := a.want(200, "GET", "/v1/tubes/t/policy?empty=true", ""); got.body != "{}" {
		t.Errorf("no policy is returned as %s", got.body)
	}
	for _, field := range []string{`"push_concurrency":0`, `"push_concurrency":10001`, `"push_timeout":0`, `"push_timeout":"61m"`, `"push_rate":"0/s"`} {
		for _, push := range []string{`"push":"https://example.org/a",`, ``} {
			got := a.want(422, "PUT", "/v1/tubes/t/policy", fmt.Sprintf(`{%s%s}`, push, field))
			if name, _, _ := strings.Cut(field, ":"); push != "" && !strings.Contains(got.body, strings.Trim(name, `"`)) {
				t.Errorf("the answer to %s is %s", field, got.body)
			}
		}
	}
	for _, field := range []string{`"concurrency":0`, `"concurrency":1000001`, `"group_concurrency":0`, `"group_concurrency":-1`, `"rate":"0/s"`, `"rate":""`, `"rate":"1/s,2/s"`,
		`"group_rate":"1/d"`, `"group_rate":5`, `"group_order":"lifo"`, `"group_order":""`} {
		if got := a.want(422, "PUT", "/v1/tubes/t/policy", `{`+field+`}`); !strings.Contains(got.body, strings.Split(field, `"`)[1]) {
			t.Errorf("the answer to %s is %s", field, got.body)
		}
	}
	for _, field := range []string{`"push_concurrency":5`, `"push_timeout":"5s"`, `"push_rate":"5/s"`} {
		a.want(422, "PUT", "/v1/tubes/t/policy", `{`+field+`}`)
	}
	a.want(404, "GET", "/v1/tubes/t/policy", "")
}
