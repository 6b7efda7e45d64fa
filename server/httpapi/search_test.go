package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
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
	page := decode[foundPage](t, a.want(200, "GET", "/v1/tubes/t/search?state=ready&text=neEdle", ""))
	if len(page.Jobs) != 4 || page.Examined != n || page.Next != "" {
		t.Errorf("%d of %d jobs, then %q", len(page.Jobs), page.Examined, page.Next)
	}
	for _, job := range page.Jobs {
		if !needles[int(job.ID)-1] && job.ID != 1201 || job.State != "ready" || job.Excerpt == "" {
			t.Errorf("%+v", job)
		}
	}
	found, cursor := make(map[uint64]bool), ""
	for more := true; more; more = cursor != "" {
		page := decode[foundPage](t, a.want(200, "GET", "/v1/tubes/t/search?state=ready&text=o&cursor="+url.QueryEscape(cursor), ""))
		if cursor = page.Next; len(page.Jobs) >= maxFound+jobsPerCall {
			t.Errorf("a page has %d jobs", len(page.Jobs))
		}
		for _, job := range page.Jobs {
			if found[job.ID] {
				t.Fatalf("job %d was found twice", job.ID)
			}
			found[job.ID] = true
		}
	}
	if len(found) != n-len(needles) {
		t.Errorf("%d jobs contain an o", len(found))
	}
}

// TestParkedPages: the parked jobs of all tubes are found page after page, each once, and no job that a worker
// buried.
func TestParkedPages(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	all := 0
	for _, name := range []string{"a", "b", "c"} {
		all += a.putMany(name, 150, func(int) string { return `{"body":"x","max":1}` })
		for _, job := range a.reserve("tube=" + name + "&n=150") {
			a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", job.ID, job.Lease), "")
		}
		a.want(201, "POST", "/v1/tubes/"+name+"/jobs", `{"body":"only buried"}`)
		job := a.reserve("tube=" + name)[0]
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/bury?lease=%s", job.ID, job.Lease), "")
	}
	found, from, pages := make(map[uint64]bool), "?", 0
	for ; from != ""; pages++ {
		page := decode[parkedPage](t, a.want(200, "GET", "/v1/parked"+from, ""))
		if from = ""; page.NextTube != "" {
			from = "?from=" + page.NextTube + "&cursor=" + url.QueryEscape(page.Next)
		}
		for _, job := range page.Jobs {
			if found[job.ID] || job.Parked != "deliveries" {
				t.Fatalf("found again, or not parked: %+v", job)
			}
			found[job.ID] = true
		}
	}
	if len(found) != all || pages < 2 {
		t.Errorf("%d jobs were found on %d pages, there are %d", len(found), pages, all)
	}
	// The tube of the cursor can be gone.
	page := decode[parkedPage](t, a.want(200, "GET", "/v1/parked?from=bb&cursor=of+another+tube", ""))
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
		a.putMany("t", 130, func(int) string { return `{"body":"a letter","max":1,"dead":"` + dead + `"}` })
		for _, job := range a.reserve("tube=t&n=130") {
			a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", job.ID, job.Lease), "")
		}
	}
	page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/other/jobs?state=ready&limit=2", ""))
	a.act(fmt.Sprintf(`{"action":"bury","ids":[%d]}`, page.Jobs[0].ID))
	a.act(fmt.Sprintf(`{"action":"reschedule","ids":[%d],"in":"1h"}`, page.Jobs[1].ID))
	found, query, pages := make(map[uint64]bool), "", 0
	for more := true; more; pages++ {
		page := decode[parkedPage](t, a.want(200, "GET", "/v1/parked?dead_letters=true&excerpt=true"+query, ""))
		for _, job := range page.Jobs {
			if found[job.ID] || job.FromTube != "t" || job.Excerpt != "a letter" {
				t.Fatalf("found again, or no dead letter: %+v", job)
			}
			found[job.ID] = true
		}
		more = page.NextTube != ""
		query = "&" + url.Values{"from": {page.NextTube}, "state": {page.NextState}, "cursor": {page.Next}}.Encode()
	}
	if len(found) != 260 || pages < 2 {
		t.Errorf("%d jobs were found on %d pages", len(found), pages)
	}
	if page := decode[parkedPage](t, a.want(200, "GET", "/v1/parked", "")); len(page.Jobs) != 0 {
		t.Errorf("without dead letters: %+v", page)
	}
}
