//go:build chromium

package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"testing"
)

// address returns the part of the address after #.
func (b *tab) address() string { return eval[string](b, "location.hash") }

func (b *tab) awaitAddress(want string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("location.hash === %s", js(want)), b.address)
}

func (b *tab) goBack() { eval[bool](b, "(history.back(), true)") }

func (b *tab) awaitClosed() {
	b.t.Helper()
	b.awaitGone("dialog[open]")
}

// delayCloseEvents lets the page have the close events of dialogs late, as they are on a busy machine, and counts
// them in closeEvents.
func (b *tab) delayCloseEvents() {
	b.t.Helper()
	eval[bool](b, `(window.closeEvents = 0, addEventListener("close", event => {
		event.stopImmediatePropagation();
		setTimeout(() => {
			event.target.dispatchEvent(new Event("close"));
			closeEvents++;
		}, 300);
	}, { capture: true, once: true }), true)`)
}

// TestJobAddress: a job has an address, which opens it in the page of its tube. The browser's button to go back
// closes the job.
func TestJobAddress(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ids := s.put("invoices", manyJobs(3)...)
	job := fmt.Sprintf("#/job/%d", ids[1])
	b := s.open(t, job)
	b.dialog("job")
	b.awaitText(fmt.Sprintf("Job %d", ids[1]))
	b.awaitRows(3)
	b.closeJob()
	b.awaitAddress("#/tube/invoices")
	b.openJob(ids[0])
	b.awaitAddress(fmt.Sprintf("#/job/%d", ids[0]))
	b.keys("j")
	b.awaitAddress(job)
	b.awaitText(fmt.Sprintf("Job %d", ids[1]))
	b.delayCloseEvents()
	b.goBack()
	b.awaitClosed()
	b.awaitAddress("#/tube/invoices")
	eval[bool](b, "(history.forward(), true)")
	b.dialog("job")
	b.await("closeEvents === 1")
	b.awaitAddress(job)
	b.closeJob()
	b.awaitAddress("#/tube/invoices")
	b.ignore("status of 404")
	b.goTo("#/job/99")
	b.awaitText("There is no such job")
	b.goTo("#/job/x%2Fy")
	b.awaitText("There is no such job")
}

// TestFind: a search over all tubes shows what it finds by what it is, and tells the job with an id from jobs of others that have the same number
// in their group, key or body.
func TestFind(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		b := s.open(t, "#/")
		b.ready("overview")
		b.ignore("status of 404")
		s.put("invoices", manyJobs(30)...)
		stranger := s.put("refunds", terms{"body": "of somebody else"})[0]
		customer := fmt.Sprintf("customer-%d", stranger)
		bills := s.put("bills", terms{"group": customer, "body": "<b>first</b>"}, terms{"group": customer, "delay": "1h"})
		other := s.put("mails", terms{"body": terms{"customer": stranger, "x": 1}}, terms{"meta": terms{"about": customer}}, terms{"key": customer}, terms{"key": "of-" + customer, "group": customer})
		search := func(text string) {
			b.fill("#find input", text)
			b.keys("\r")
			b.await(fmt.Sprintf(`document.querySelector("#search").value === %s && document.querySelector("#stop").hidden`, js(text)))
			b.ready("search")
		}
		search(fmt.Sprint(stranger))
		b.awaitAddress(fmt.Sprintf("#/search/%d", stranger))
		want := map[string][]uint64{"id": {stranger}, "key": {other[2], other[3]}, "group": {bills[1], bills[0], other[3]}, "meta": {other[1]}, "body": {other[0]}}
		if got := b.found(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("found %v, want %v", got, want)
		}
		b.awaitText(fmt.Sprintf("%s in bills 2", customer))
		b.screenshot("search")
		b.phone()
		b.screenshot("search-phone")
		b.desktop()
		b.click(fmt.Sprintf("[data-found=group] tr[data-id='%d'] a[href^='#/job']", bills[0]))
		b.dialog("job")
		b.awaitText("2 of 3")
		b.closeJob()
		b.awaitAddress(fmt.Sprintf("#/search/%d", stranger))
		search(fmt.Sprintf(`{ "customer": %d.0 }`, stranger))
		if got, want := b.found(), map[string][]uint64{"body": {other[0]}}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("found %v, want %v", got, want)
		}
		search("refund")
		b.awaitText("Tubes 1")
		b.find("[data-found=tubes] a[href='#/tube/refunds']")
		search("nothing has this")
		b.awaitText("Nothing was found.")
		b.goTo("#/")
		b.ready("overview")
		b.fill("#filter", customer)
		b.awaitText("No tube matches the filter. Search jobs for " + customer)
		b.click(".empty a")
		b.ready("search")
		b.awaitText(customer + " in bills 2")
	})
}

// found returns the jobs on the page of a search, by the place where the text is.
func (b *tab) found() map[string][]uint64 {
	b.t.Helper()
	return eval[map[string][]uint64](b, `Object.fromEntries([...document.querySelectorAll("[data-found]")].filter(s => s.querySelector("tr[data-id]")).map(s => [s.dataset.found, [...s.querySelectorAll("tr[data-id]")].map(r => Number(r.dataset.id))]))`)
}

// properties returns the properties in the dialog of a job, by their names.
func (b *tab) properties() map[string]string {
	b.t.Helper()
	return eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll("dialog dl.properties > div")].map(d => [d.children[0].innerText, d.children[1].innerText.replace(/\s+/g, " ")]))`)
}

// wantProperties fails the test unless the dialog of a job has properties that match patterns.
func (b *tab) wantProperties(want map[string]string) {
	b.t.Helper()
	got := b.properties()
	for name, pattern := range want {
		if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(got[name]) {
			b.t.Errorf("%s is %q, want %s", name, got[name], pattern)
		}
	}
}

// TestJobSaysMore: the dialog of a job says why and when it failed, who holds it, what it was put with and when it expires.
func TestJobSaysMore(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		const when = `[0-9]+ (?:ms|s) ago 20\d\d.\d\d.\d\d \d\d:\d\d:\d\d GMT.*`
		id := s.put("invoices", terms{"body": "one", "retry": []string{"1h"}, "jitter": 20, "expire": "2h", "on_expire": "park", "meta": map[string]string{"user": "Zoë <b>"}})[0]
		lease := s.reserve("invoices", 1)[0]
		b := s.open(t, fmt.Sprintf("#/job/%d", id))
		b.dialog("job")
		b.wantProperties(map[string]string{"Held by": "a lease", "Header user": "Zoë <b>", "Parked in": "1 h 59 m .*", "Retry delays": "1h, spread by 20 %", "Reason": "", "Failed": ""})
		b.closeJob()
		s.call("POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s&reason=%s", id, lease.Lease, url.QueryEscape(`550 no "such" <i>user</i>`)), nil, nil)
		b.goTo(fmt.Sprintf("?released#/job/%d", id))
		b.dialog("job")
		b.wantProperties(map[string]string{"Reason": `550 no "such" <i>user</i>`, "Failed": when, "Failures": "1", "Held by": ""})
		b.closeJob()
		s.call("POST", fmt.Sprintf("/v1/jobs/%d/kick", id), nil, nil)
		c := s.named("mailer", "invoices")
		if got := c.reserve(); got != id {
			t.Fatalf("reserved job %d, want %d", got, id)
		}
		b.goTo(fmt.Sprintf("?held#/job/%d", id))
		b.dialog("job")
		b.wantProperties(map[string]string{"Held by": "mailer " + regexp.QuoteMeta(c.raw.LocalAddr().String()) + ".*", "Reason": "550 .*"})
		b.showsReports(c, id)
		c.send("bury %d 0 reason:gone\r\n", id)
		c.flush()
		c.read("BURIED")
		b.goTo(fmt.Sprintf("?failed#/job/%d", id))
		b.dialog("job")
		want := []string{"buried mailer gone", `released  550 no "such" <i>user</i>`}
		if got := eval[[]string](b, `[...document.querySelectorAll("[data-table=attempts] tbody tr")].map(r => [...r.children].slice(1).map(c => c.innerText).join(" "))`); !slices.Equal(got, want) {
			t.Errorf("attempts: %q, want %q", got, want)
		}
		b.asksForCheckpoint(s, id)
	})
}

// showsReports checks what the dialog and the list say of what c, which holds a job, reports of it.
func (b *tab) showsReports(c *conn, id uint64) {
	b.t.Helper()
	c.send("touch %d progress:\"row 9 of 2026/11: 450/1,000\"\r\ncheckpoint %d 5\r\n\x00row9\r\n", id, id)
	c.flush()
	c.read("TOUCHED")
	c.read("SAVED")
	b.goTo(fmt.Sprintf("?reported#/job/%d", id))
	b.dialog("job")
	b.wantProperties(map[string]string{"Progress": "row 9 of 2026/11: 450/1,000", "Checkpoint": "5 B"})
	if got := eval[string](b, `document.querySelector("dialog [role=progressbar]").getAttribute("aria-valuenow")`); got != "45" {
		b.t.Errorf("the bar is at %s", got)
	}
	shares := eval[[]any](b, `import("/console/ui.js").then(ui => ["45 %", "12.5% of it", "120 %, then 1/2", "1,000/4,000 rows", "3 / 8", "8/3", "0/0", "2026/11/28", "half"].map(ui.shareIn))`)
	if want := []any{0.45, 0.125, 0.5, 0.25, 0.375, nil, nil, nil, nil}; !slices.Equal(shares, want) {
		b.t.Errorf("shares: %v, want %v", shares, want)
	}
	b.screenshot("job-progress")
	b.closeJob()
	b.awaitText("450/1,000")
}

// asksForCheckpoint kicks a buried job in its dialog: with its checkpoint, and then without. A job that has none is not asked about it.
func (b *tab) asksForCheckpoint(s *testServer, id uint64) {
	b.t.Helper()
	for _, keep := range []string{"keep", ""} {
		b.clickAction("kick")
		b.dialog("kick")
		b.choose("[name=keep_checkpoint]", keep)
		b.confirm("kick")
		b.awaitMessage("Kick: 1 job.")
		if job := s.job(id); job.State != "ready" || (job.CheckpointBytes == 5) != (keep != "") {
			b.t.Errorf("kicked, with %q: %+v", keep, job)
		}
		s.call("POST", "/v1/jobs/actions", map[string]any{"action": "bury", "ids": []uint64{id}}, nil)
		b.goTo(fmt.Sprintf("?again%s#/job/%d", keep, id))
		b.dialog("job")
	}
	b.clickAction("kick")
	b.dialog("kick")
	if b.has("[name=keep_checkpoint]") {
		b.t.Error("a job without a checkpoint can keep it")
	}
}

// TestDeadLetters: dead letters are listed with the beginnings of their bodies, and go back where they came from.
func TestDeadLetters(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("invoices", terms{"max": 1, "dead": "morgue", "body": "one"}, terms{"max": 1, "dead": "morgue", "body": "two"}, terms{"max": 1, "body": "three"})
		s.apply(s.reserve("invoices", 3), "release")
		s.awaitTube("morgue", 2, 0, 0, 0)
		b := s.open(t, "#/parked")
		b.awaitRows(3)
		letters := s.jobs("morgue", "ready")
		b.awaitCell(fmt.Sprint(letters[0].ID), "parked", "from invoices")
		b.awaitText("one")
		b.awaitCellLike(fmt.Sprint(letters[0].ID), "since", `^\d+ m?s$`)
		b.awaitCellLike(fmt.Sprint(s.jobs("invoices", "buried")[0].ID), "since", `^\d+ m?s$`)
		b.openJob(letters[0].ID)
		b.clickAction("replay")
		b.confirm("replay")
		s.awaitTube("morgue", 1, 0, 0, 0)
		s.awaitTube("invoices", 1, 0, 0, 1)
		b.awaitRows(2)
		b.clickAction("replay")
		b.hits("2")
		b.fill(field("rate"), "50")
		b.confirm("replay")
		b.awaitMessage("2 jobs replayed.")
		s.awaitTube("invoices", 3, 0, 0, 0)
	})
}
