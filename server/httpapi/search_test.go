package httpapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/engines"
)

// putMany puts n jobs and returns n. job returns the JSON of each.
func (a *harness) putMany(tube string, n int, job func(i int) string) int {
	a.t.Helper()
	for from := 0; from < n; from += 1000 {
		var all []string
		for i := from; i < min(from+1000, n); i++ {
			all = append(all, job(i))
		}
		if got := a.want(200, "POST", "/v1/tubes/"+tube+"/jobs/batch", "["+strings.Join(all, ",")+"]"); strings.Count(got.body, `"status":201`) != len(all) {
			a.t.Fatal(got.body)
		}
	}
	return n
}

// TestSearch: jobs in a state are found by their bodies and keys, in upper and lower case, page after page.
func TestSearch(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	needles := map[int]bool{7: true, 707: true, 1407: true}
	n := a.putMany("t", 1500, func(i int) string {
		switch {
		case needles[i]:
			return `{"body":"here is a NEEDLE in it"}`
		case i == 1200:
			return `{"body":"nothing","key":"a-Needle"}`
		}
		return `{"body":"nothing"}`
	})
	a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"needle","delay":"1h"}`)
	page := decode[foundPage](t, a.want(200, "GET", "/v1/search?tube=t&state=ready&text=neEdle&excerpt=true", ""))
	if len(page.Jobs) != 4 || page.Found != 4 || page.Examined != n || *page.Total != uint64(n) || page.Next != "" {
		t.Errorf("%d of %d jobs, then %q", len(page.Jobs), page.Examined, page.Next)
	}
	for _, job := range page.Jobs {
		in := map[bool]string{true: "key", false: "body"}[job.ID == 1201]
		if !needles[int(job.ID)-1] && job.ID != 1201 || job.State != "ready" || job.Excerpt == "" || job.In != in {
			t.Errorf("%+v", job)
		}
	}
	if found, _ := a.searchAll("tube=t&state=ready&text=o"); len(found) != n-len(needles) {
		t.Errorf("%d jobs contain an o", len(found))
	}
	if found, _ := a.searchAll("text=nEEdle"); len(found) != 5 {
		t.Errorf("%d jobs in all states", len(found))
	}
}

// searchAll searches page after page. It fails if a job is found twice or a page is too long.
func (a *harness) searchAll(query string) (found map[uint64]FoundJob, pages int) {
	a.t.Helper()
	found, cursor := make(map[uint64]FoundJob), ""
	for more := true; more; pages++ {
		page := decode[foundPage](a.t, a.want(200, "GET", "/v1/search?"+query+"&cursor="+url.QueryEscape(cursor), ""))
		if len(page.Jobs) >= 200+maxBatch || page.Found != len(page.Jobs) || (page.Total != nil) != (cursor == "") {
			a.t.Fatalf("a page has %d jobs of %d, total %v", len(page.Jobs), page.Found, page.Total)
		}
		for _, job := range page.Jobs {
			if _, again := found[job.ID]; again {
				a.t.Fatalf("job %d was found twice", job.ID)
			}
			found[job.ID] = job
		}
		cursor = page.Next
		more = cursor != ""
	}
	return found, pages
}

// park puts n jobs, with further options, and has them fail for good with a reason.
func (a *harness) park(tube string, n int, options, reason string) {
	a.t.Helper()
	a.putMany(tube, n, func(int) string { return `{"body":"a letter","max":1` + options + `}` })
	for _, job := range a.reserve(fmt.Sprintf("tube=%s&n=%d", tube, n)) {
		query := url.Values{"lease": {job.Lease}}
		if reason != "" {
			query.Set("reason", reason)
		}
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?%s", job.ID, query.Encode()), "")
	}
}

// TestFailedPages: the parked jobs of all tubes are found page after page, each once, and no job that a worker
// buried.
func TestFailedPages(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for _, name := range []string{"a", "b", "c"} {
		a.park(name, 150, "", "")
		a.want(201, "POST", "/v1/tubes/"+name+"/jobs", `{"body":"only buried"}`)
		job := a.reserve("tube=" + name)[0]
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/bury?lease=%s", job.ID, job.Lease), "")
	}
	found, pages := a.searchAll("failed=true")
	for _, job := range found {
		if job.Parked != "deliveries" {
			t.Fatalf("not parked: %+v", job)
		}
	}
	if len(found) != 450 || pages < 2 {
		t.Errorf("%d jobs were found on %d pages", len(found), pages)
	}
	// The tube of the cursor can be gone.
	page := decode[foundPage](t, a.want(200, "GET", "/v1/search?failed=true&cursor=buried+1.2+bb", ""))
	if len(page.Jobs) != 150 || page.Jobs[0].Tube != "c" {
		t.Errorf("after bb there are %d", len(page.Jobs))
	}
}

// TestDeadLetters: dead letters are listed beside parked jobs, in every state but reserved, each once.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(201, "POST", "/v1/tubes/morgue/jobs", `{"body":"a put of its own","priority":0}`)
	a.want(204, "PUT", "/v1/tubes/named/policy", `{"dead":"morgue"}`)
	for _, dead := range []string{"morgue", "other"} {
		a.park("t", 130, `,"dead":"`+dead+`"`, "")
	}
	page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/other/jobs?state=ready&limit=2", ""))
	a.act(fmt.Sprintf(`{"action":"bury","ids":[%d]}`, page.Jobs[0].ID))
	a.act(fmt.Sprintf(`{"action":"reschedule","ids":[%d],"in":"1h"}`, page.Jobs[1].ID))
	found, pages := a.searchAll("failed=true&excerpt=true")
	for _, job := range found {
		if job.FromTube != "t" || job.Excerpt != "a letter" {
			t.Fatalf("no dead letter: %+v", job)
		}
	}
	if len(found) != 260 || pages < 2 {
		t.Errorf("%d jobs were found on %d pages", len(found), pages)
	}
}

// TestFilter: each option of a search decides, alone and together, on each engine.
func TestFilter(t *testing.T) {
	t.Parallel()
	engines.Each(t, engines.All, tryFilters)
}

func tryFilters(t *testing.T, store storage.Store) {
	a := startOn(t, store, Config{})
	a.want(201, "POST", "/v1/tubes/mails/jobs", `{"body":{"customer":4711},"group":"customer-4711","key":"k1","meta":{"team":"a","region":"eu"}}`)
	a.want(201, "POST", "/v1/tubes/mails/jobs", `{"body":"4711 is here","batch":"import"}`)
	a.want(201, "POST", "/v1/tubes/bills/jobs", `{"body":"x","delay":"1h","group":"customer-4712"}`)
	a.park("bills", 2, "", "card declined")
	a.park("bills", 1, `,"dead":"late"`, "timeout")
	for query, want := range map[string]string{
		"": "1 2 3 4 5 7", "tube=mails": "1 2", "tube=mails&tube=late": "1 2 7", "state=delayed": "3", "state=delayed&state=buried": "3 4 5",
		"text=4711": "1 2", "text=customer-47": "1 3", "text=3": "3", "text=CARD": "4 5", "text=team": "1", "text=import": "2",
		"group=customer-4711": "1", "group=customer-471": "", "key=k1": "1", "batch=import": "2", "reason=CARD": "4 5", "reason=letter": "", "whole_reason=card": "", "whole_reason=card%20declined": "4 5",
		"attempts=1": "4 5 7", "attempts=2": "", "meta=team%3Da": "1", "meta=team%3Da&meta=region%3Dus": "", "meta=team%3Da&meta=region%3Deu": "1",
		"body=HERE": "2", `body={"customer":4.711e3}`: "1", "failed=true": "4 5 7", "failed=true&text=late": "", "failed=true&tube=late": "7", "text=6": "7",
		"since=1": "1 2 3 4 5 7", "until=1": "", fmt.Sprint("since=", time.Now().Add(time.Minute).UnixMilli()): "", fmt.Sprint("until=", time.Now().Add(time.Minute).UnixMilli()): "1 2 3 4 5 7",
	} {
		found, _ := a.searchAll(strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22").Replace(query))
		ids := fmt.Sprint(slices.Sorted(maps.Keys(found)))
		if ids = strings.Trim(ids, "[]"); ids != want {
			t.Errorf("%s: %q, want %q", query, ids, want)
		}
	}
	page := decode[foundPage](t, a.want(200, "GET", "/v1/search?failed=true&limit=0", ""))
	if len(page.Jobs) != 0 || page.Found != 3 || fmt.Sprint(page.Counts) != "[{bills card declined 2} {late timeout 1}]" {
		t.Errorf("only counts: %+v", page)
	}
	a.want(422, "GET", "/v1/search?meta=team", "")
	a.want(422, "GET", "/v1/search?tube=a%20b", "")
}

// actOnAll applies an action step by step, and returns how many jobs were changed and missed.
func (a *harness) actOnAll(body string) (done, missed, steps int) {
	a.t.Helper()
	for cursor := ""; ; {
		info := decode[actOnAllInfo](a.t, a.want(200, "POST", "/v1/search/actions", fmt.Sprintf(`{"cursor":%q,%s}`, cursor, body)))
		counted := 0
		for _, c := range info.Counts {
			counted += c.Count
		}
		if counted != info.Done+info.Missed {
			a.t.Errorf("%d are counted by reason: %+v", counted, info)
		}
		done, missed, steps = done+info.Done, missed+info.Missed, steps+1
		if cursor = info.Next; cursor == "" {
			return done, missed, steps
		}
	}
}

// TestActOnAll: an action changes all jobs that match, and no others, in steps, on each engine.
func TestActOnAll(t *testing.T) {
	t.Parallel()
	engines.Each(t, engines.All, tryActionsOnAll)
}

func tryActionsOnAll(t *testing.T, store storage.Store) {
	a := startOn(t, store, Config{})
	a.park("bills", 233, `,"dead":"late"`, "card_declined")
	a.park("bills", 120, `,"dead":"late"`, "timeout")
	a.park("mails", 40, "", "card_declined")
	if done, missed, steps := a.actOnAll(`"action":"replay","failed":true,"tube":["late"],"reason":"card_declined","limit":50`); done != 233 || missed != 0 || steps < 3 || steps > 6 {
		t.Errorf("%d replayed, %d missed, in %d steps", done, missed, steps)
	}
	if found, _ := a.searchAll("tube=bills&state=ready"); len(found) != 233 {
		t.Errorf("%d jobs are back", len(found))
	}
	if found, _ := a.searchAll("failed=true"); len(found) != 160 {
		t.Errorf("%d jobs are left", len(found))
	}
	if done, missed, _ := a.actOnAll(`"action":"move","to":"other","tube":["late"],"text":"TIME"`); done != 120 || missed != 0 {
		t.Errorf("%d moved, %d missed", done, missed)
	}
	if done, _, _ := a.actOnAll(`"action":"kick","reason":"card"`); done != 40 {
		t.Errorf("%d kicked", done)
	}
	a.reserve("tube=mails&n=15")
	if done, missed, _ := a.actOnAll(`"action":"delete","tube":["mails","other"]`); done != 25+120 || missed != 0 {
		t.Errorf("%d deleted, %d missed", done, missed)
	}
	if done, missed, _ := a.actOnAll(`"action":"replay","tube":["bills"]`); done != 0 || missed != 233 {
		t.Errorf("of jobs that have not failed, %d were replayed, and %d missed", done, missed)
	}
	for _, body := range []string{`{"action":"bury"}`, `{"action":"move"}`, `{"action":"move","to":"a b"}`, `{"action":"delete","grupo":"x"}`, `{"action":"delete","meta":["x"]}`} {
		a.want(422, "POST", "/v1/search/actions", body)
	}
}
