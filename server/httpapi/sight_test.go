package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"redstalk/server/sight"
	"redstalk/storage/embedded"
)

// canary is a hidden value in all that the jobs of these tests contain, and content a value beside it that is not hidden.
const (
	canary    = "C4N4RY"
	content   = "C0NTENT"
	leakyBody = `{"content":"` + content + `","secret":"` + canary + `"}`
)

// looks has for each GET operation what these tests ask: the path with its query, in which {id} is each of the jobs.
var looks = map[string][]string{
	"/v1/jobs/{id}":                   {"/v1/jobs/{id}"},
	"/v1/jobs/{id}/checkpoint":        {"/v1/jobs/{id}/checkpoint"},
	"/v1/jobs/{id}/result":            {"/v1/jobs/{id}/result"},
	"/v1/jobs":                        {"/v1/jobs?key=kready"},
	"/v1/tubes":                       {"/v1/tubes"},
	"/v1/tubes/{tube}":                {"/v1/tubes/t"},
	"/v1/tubes/{tube}/jobs":           {"/v1/tubes/t/jobs?state=ready", "/v1/tubes/t/jobs?state=ready&excerpt=true", "/v1/tubes/t/jobs?state=buried&excerpt=true"},
	"/v1/tubes/{tube}/keys/{key}":     {"/v1/tubes/t/keys/kready"},
	"/v1/tubes/{tube}/policy":         {"/v1/tubes/t/policy"},
	"/v1/tubes/{tube}/chart":          {"/v1/tubes/t/chart"},
	"/v1/tubes/{tube}/history":        {"/v1/tubes/t/history"},
	"/v1/tubes/{tube}/groups":         {"/v1/tubes/t/groups"},
	"/v1/tubes/{tube}/groups/{group}": {"/v1/tubes/t/groups/g"},
	"/v1/tubes/{tube}/ended":          {"/v1/tubes/t/ended", "/v1/tubes/t/ended?how=done"},
	"/v1/batches":                     {"/v1/batches"},
	"/v1/batches/{batch}":             {"/v1/batches/b"},
	"/v1/batches/{batch}/members":     {"/v1/batches/b/members"},
	"/v1/batches/{batch}/results":     {"/v1/batches/b/results"},
	"/v1/schedules":                   {"/v1/schedules"},
	"/v1/schedules/{schedule}":        {"/v1/schedules/s"},
	"/v1/search":                      {"/v1/search", "/v1/search?excerpt=true", "/v1/search?text=" + content, "/v1/search?text=kready&excerpt=true", "/v1/search?body=" + content, "/v1/search?state=buried"},

	"/v1/schedules/{schedule}/preview": {"/v1/schedules/s/preview"},
	"/v1/preview":                      {"/v1/preview?every=1h"},
	"/v1/watch":                        {"/v1/watch"},
	"/v1/events":                       {"/v1/events"},
	"/v1/history":                      {"/v1/history"},
	"/v1/charts":                       {"/v1/charts"},
	"/v1/server":                       {"/v1/server"},
	"/v1/store":                        {"/v1/store"},
	"/v1/clients":                      {"/v1/clients"},
	"/v1/caller":                       {"/v1/caller?tube=t"},
}

func asUser(name string) string { return "Authorization: Bearer " + name + ":" + name }

// putLeaky puts jobs with all that a job can contain into the tube t, and a schedule. It returns their ids, with that of one that has ended.
func (g *guarded) putLeaky() (ids []string) {
	g.t.Helper()
	root := asUser("root")
	g.want(204, "PUT", "/v1/tubes/t/policy", `{"keep":"1h"}`, root)
	for _, end := range []string{"ready", "buried", "ended"} {
		put := g.want(201, "POST", "/v1/tubes/t/jobs", fmt.Sprintf(`{"body":%s,"key":"k%s","group":"g","batch":"b","meta":{"secret":%q,"json":%q}}`, leakyBody, end, canary, leakyBody), root)
		id := fmt.Sprint(decode[putAnswer](g.t, put).ID)
		ids = append(ids, id)
		lease := decode[[]leasedJob](g.t, g.want(200, "POST", "/v1/reserve?tube=t", "", root))[0]
		if fmt.Sprint(lease.ID) != id || lease.Body != leakyBody || lease.Meta["secret"] != canary {
			g.t.Fatalf("a worker got %+v", lease)
		}
		job, text := "/v1/jobs/"+id, url.QueryEscape(leakyBody)
		g.want(204, "PUT", job+"/checkpoint?lease="+lease.Lease, leakyBody, root)
		g.want(204, "POST", job+"/touch?lease="+lease.Lease+"&progress="+text, "", root)
		switch end {
		case "ready":
			defer g.want(204, "POST", job+"/release?lease="+lease.Lease+"&reason="+text, "", root) // after the others were reserved
		case "buried":
			g.want(204, "POST", job+"/bury?lease="+lease.Lease+"&reason="+text, "", root)
		default:
			g.want(204, "POST", job+"/release?lease="+lease.Lease+"&reason="+text, "", root)
			lease = decode[[]leasedJob](g.t, g.want(200, "POST", "/v1/reserve?tube=t", "", root))[0]
			g.want(204, "POST", job+"/finish?lease="+lease.Lease, `{"result":`+leakyBody+`}`, root)
		}
	}
	g.want(204, "PUT", "/v1/schedules/s", fmt.Sprintf(`{"tube":"t","every":"1h","body":%s,"meta":{"secret":%q,"json":%q}}`, leakyBody, canary, leakyBody), root)
	return ids
}

// look returns the answer to a GET; of a stream the first event.
func (g *guarded) look(path, user string) string {
	g.t.Helper()
	if !strings.HasPrefix(path, "/v1/watch") && !strings.HasPrefix(path, "/v1/events") {
		return g.call("GET", path, "", asUser(user)).body
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+g.addr+path, nil)
	r.Header.Set("Authorization", "Bearer "+user+":"+user)
	got, err := g.client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer got.Body.Close()
	text := ""
	for lines := bufio.NewScanner(got.Body); got.StatusCode == 200 && lines.Scan() && (text == "" || lines.Text() != ""); {
		text += lines.Text()
	}
	return text
}

func startLeaky(t *testing.T) (g *guarded, ids []string) {
	hides, err := sight.ParseRedaction("/secret")
	if err != nil {
		t.Fatal(err)
	}
	g = startHiding(t, embedded.NewMemory(), hides, "root * put,work,read,admin", "reader * read", "lister * list", "worker * read,work", "desk * list,admin", "caller * put,read")
	g.api.service.poller.start()
	t.Cleanup(g.api.service.poller.close)
	return g, g.putLeaky()
}

// TestNothingLeaks makes all GET requests. To who may only list, no answer says what a job contains; to who may read, none has a value
// that is hidden from all but administrators. They see it, and so the test would.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	g, ids := startLeaky(t)
	shown := make(map[string][]string) // by user: the requests whose answers have the canary
	for _, op := range g.api.Operations() {
		if op.Method != "GET" {
			continue
		}
		if looks[op.Path] == nil {
			t.Errorf("GET %s: what does this test ask?", op.Path)
		}
		for _, path := range looks[op.Path] {
			for _, id := range ids {
				path := strings.ReplaceAll(path, "{id}", id)
				for _, user := range []string{"root", "reader", "worker", "lister", "desk"} {
					got := g.look(path, user)
					if strings.Contains(got, canary) {
						shown[user] = append(shown[user], path)
					}
					if (user == "lister" || user == "desk" && !strings.HasPrefix(path, "/v1/schedules")) && strings.Contains(got, content) {
						t.Errorf("GET %s tells %s what a job contains:\n%s", path, user, got)
					}
					if user == "reader" && strings.Contains(got, sight.Redacted) {
						shown[sight.Redacted] = append(shown[sight.Redacted], path)
					}
				}
			}
		}
	}
	for user := range shown {
		slices.Sort(shown[user])
		shown[user] = slices.Compact(shown[user])
	}
	checkpoints := []string{"/v1/jobs/" + ids[0] + "/checkpoint", "/v1/jobs/" + ids[1] + "/checkpoint"}
	for user, want := range map[string][]string{
		"lister": nil, "reader": nil, "worker": checkpoints, "desk": {"/v1/schedules", "/v1/schedules/s"}, sight.Redacted: shown["root"],
	} {
		if !slices.Equal(shown[user], want) {
			t.Errorf("%s is shown values by\n%q\nwant\n%q", user, shown[user], want)
		}
	}
	if len(shown["root"]) < 20 {
		t.Errorf("root is shown values only by %q", shown["root"])
	}
}

// TestSearchIsNoOracle: a search finds nothing by what its user does not see.
func TestSearchIsNoOracle(t *testing.T) {
	t.Parallel()
	g, _ := startLeaky(t)
	value := url.QueryEscape(`{"secret":"` + canary + `"}`)
	for _, c := range []struct {
		query                string
		root, reader, lister int // how many jobs are found; -1: forbidden
	}{
		{"text=" + canary, 2, 0, 0}, {"text=" + content, 2, 2, 0}, {"text=kready", 1, 1, 1}, {"group=g", 2, 2, 2}, {"state=buried", 1, 1, 1}, {"meta=json=" + url.QueryEscape(leakyBody), 2, 0, -1},
		{"body=" + canary, 2, 0, -1}, {"body=" + value, 2, 0, -1}, {"body=" + content, 2, 2, -1}, {"meta=secret=" + canary, 2, 0, -1}, {"tube=t&body=x", 0, 0, -1},
		{"reason=" + canary, 2, 0, 0}, {"reason=" + content, 2, 2, 0}, {"whole_reason=" + url.QueryEscape(leakyBody), 2, 0, 0},
	} {
		for user, want := range map[string]int{"root": c.root, "reader": c.reader, "lister": c.lister} {
			got := g.call("GET", "/v1/search?"+c.query, "", asUser(user))
			if want < 0 && got.status == 403 {
				continue
			}
			if found := decode[foundPage](t, got).Found; got.status != 200 || found != want {
				t.Errorf("%s as %s: %d, %d jobs, want %d", c.query, user, got.status, found, want)
			}
		}
	}
	for user, want := range map[string]int{"root": 1, "reader": 0, "lister": 0} {
		if got := decode[endedPage](t, g.want(200, "GET", "/v1/tubes/t/ended?reason="+canary, "", asUser(user))); len(got.Ended) != want {
			t.Errorf("records as %s: %+v", user, got)
		}
	}
	got := g.want(200, "POST", "/v1/search/actions", `{"action":"delete","text":"`+content+`"}`, asUser("desk"), changeHeader+": 1")
	if info := decode[actOnAllInfo](t, got); info.Done != 0 || info.Examined != 2 {
		t.Errorf("an action on all jobs that a list user does not see: %+v", info)
	}
	g.want(403, "POST", "/v1/search/actions", `{"action":"delete","body":"`+content+`"}`, asUser("desk"), changeHeader+": 1")
}

// TestWhatIsHidden: answers say that something is left out or replaced, and properties stay.
func TestWhatIsHidden(t *testing.T) {
	t.Parallel()
	g, ids := startLeaky(t)
	job := func(user string) jobWithBody {
		return decode[jobWithBody](t, g.want(200, "GET", "/v1/jobs/"+ids[1], "", asUser(user)))
	}
	if j := job("lister"); !j.Hidden || j.Redacted || j.Body != nil || j.Meta != nil || j.Reason != "" || j.Progress != "" || j.Key != "kburied" || j.Group != "g" || j.Size != len(leakyBody) || len(j.Attempts) != 1 || j.CheckpointBytes == 0 {
		t.Errorf("a lister sees %+v", j)
	}
	if j := job("reader"); j.Hidden || !j.Redacted || *j.Body != strings.Replace(leakyBody, canary, sight.Redacted, 1) || j.Meta["secret"] != sight.Redacted || j.Size != len(leakyBody) {
		t.Errorf("a reader sees %+v", j)
	}
	if j := job("root"); j.Hidden || j.Redacted || *j.Body != leakyBody {
		t.Errorf("root sees %+v", j)
	}
	records := decode[endedPage](t, g.want(200, "GET", "/v1/tubes/t/ended", "", asUser("lister"))).Ended
	if len(records) != 1 || !records[0].Hidden || records[0].Result != nil || records[0].Bytes != len(leakyBody) || records[0].Key != "kended" {
		t.Errorf("a lister sees the records %+v", records)
	}
	if e := decode[EndedInfo](t, g.want(200, "GET", "/v1/jobs/"+ids[2]+"/result", "", asUser("lister"))); !e.Hidden || e.Result != nil || e.How != "done" {
		t.Errorf("a lister sees the record %+v", e)
	}
	g.want(204, "DELETE", "/v1/jobs/"+ids[0], "", asUser("root"), changeHeader+": 1")
	go func() {
		lease := decode[[]leasedJob](t, g.call("POST", "/v1/reserve?tube=t&wait=1m", "", asUser("root")))[0]
		g.call("POST", fmt.Sprintf("/v1/jobs/%d/finish?lease=%s", lease.ID, lease.Lease), `{"result":`+leakyBody+`}`, asUser("root"))
	}()
	put := g.want(200, "POST", "/v1/tubes/t/jobs?wait=1m", `{"body":"x"}`, asUser("caller"))
	if strings.Contains(put.body, canary) || !strings.Contains(put.body, sight.Redacted) {
		t.Errorf("who waits for a result sees %s", put.body)
	}
}
