//go:build chromium

package console_test

import (
	"fmt"
	"strings"
	"testing"

	"redstalk/tools/conformance/child"
)

// putShopJobs puts jobs into some tubes: 3 emails and 12 invoices are ready, 2 thumbnails are delayed, 1 refund
// is buried and 1 is reserved.
func putShopJobs(s *testServer) {
	s.put("emails", manyJobs(3)...)
	s.put("invoices", manyJobs(12)...)
	s.put("thumbnails", terms{"delay": "1h"}, terms{"delay": "2h"})
	s.put("refunds", manyJobs(2)...)
	s.apply(s.reserve("refunds", 1), "bury")
	s.reserve("refunds", 1)
}

// awaitTubes waits until the table has exactly these tubes in this order, besides default.
func (b *tab) awaitTubes(want ...string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf(`help.same(help.column("row").filter(n => n !== "default"), %s)`, js(want)), b.table)
}

// TestOverview: the overview shows all tubes and their changes.
func TestOverview(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		putShopJobs(s)
		b := s.open(t, "")
		b.ready("overview")
		b.awaitCell("emails", "ready", "3")
		b.awaitCell("invoices", "ready", "12")
		b.awaitCell("thumbnails", "delayed", "2")
		b.awaitCell("refunds", "buried", "1")
		b.awaitCell("refunds", "reserved", "1")
		b.awaitText("15 ready")
		b.awaitText("2 delayed")

		eval[bool](b, "window.same = true")
		s.put("emails", terms{"priority": 3})
		s.put("reports", terms{"body": "new"})
		b.awaitCell("emails", "ready", "4")
		b.awaitCell("emails", "urgent", "1")
		b.awaitCell("reports", "ready", "1")
		b.awaitText("17 ready")
		s.call("POST", tubePath("emails")+"/pause?for=10m", nil, nil)
		s.call("PUT", tubePath("invoices")+"/policy", map[string]any{"max": 3}, nil)
		b.awaitText("emails paused")
		b.awaitText("invoices policy")
		s.call("DELETE", tubePath("reports")+"/jobs", nil, nil)
		b.awaitTubes("emails", "invoices", "refunds", "thumbnails")
		if !eval[bool](b, "window.same") {
			t.Error("the page was loaded again")
		}
		b.aligned()
	})
}

// aligned fails the test if the headers of columns are not above their columns.
func (b *tab) aligned() {
	b.t.Helper()
	wrong := eval[string](b, `(() => {
		const side = (e, s) => Math.round(e.getBoundingClientRect()[s]);
		const head = [...document.querySelectorAll("[role=columnheader]")].filter(e => e.checkVisibility());
		const cells = [...document.querySelector(".row[data-id]").querySelectorAll("[role=gridcell], [role=rowheader]")].filter(e => e.checkVisibility());
		if (head.length !== cells.length) return head.length + " headers over " + cells.length + " columns";
		return head.filter((h, i) => side(h, "left") !== side(cells[i], "left") || side(h, "right") !== side(cells[i], "right"))
			.map(h => h.innerText).join(", ");
	})()`)
	if wrong != "" {
		b.t.Errorf("these columns are not below their headers: %s", wrong)
	}
}

// TestOverviewChoices: the filter, the order and the columns can be chosen, and the browser remembers them.
func TestOverviewChoices(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	putShopJobs(s)
	b := s.open(t, "")
	b.ready("overview")
	b.fill("#filter", "IN")
	b.awaitTubes("invoices")
	b.fill("#filter", "/^(in|th)/")
	b.awaitTubes("invoices", "thumbnails")
	b.fill("#filter", "nothing has this")
	b.awaitText("No tube matches the filter.")
	b.fill("#filter", "")
	b.awaitTubes("emails", "invoices", "refunds", "thumbnails")

	b.click("[data-sort=ready]")
	b.awaitTubes("invoices", "emails", "refunds", "thumbnails")
	b.click("[data-sort=ready]")
	b.await(`document.querySelector("[aria-sort=ascending] [data-sort=ready]")`)
	b.await(`help.column("row").at(-1) === "invoices"`) // the tube with the most ready jobs
	b.click("[data-sort=delayed]")
	b.await(`help.column("row")[0] === "thumbnails"`)

	b.click("#busy")
	b.awaitTubes("thumbnails", "emails", "invoices", "refunds")
	b.click("#columns > summary")
	b.click("[name=column-urgent]")
	b.click("[name=column-total]")
	b.reload()
	b.ready("overview")
	b.awaitTubes("thumbnails", "emails", "invoices", "refunds")
	b.awaitCell("invoices", "total", "12")
	b.awaitGone("[data-column=urgent]")
}

// TestOrderOfNames: numbers in names are compared as numbers.
func TestOrderOfNames(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, name := range []string{"mailer-10", "mailer-2", "Mailer-1"} {
		s.put(name, manyJobs(1)...)
	}
	b := s.open(t, "")
	b.awaitTubes("Mailer-1", "mailer-2", "mailer-10")
}

// TestSelectedTubes: an action applies to all selected tubes.
func TestSelectedTubes(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		putShopJobs(s)
		b := s.open(t, "")
		b.awaitCell("invoices", "ready", "12")
		for _, name := range []string{"emails", "invoices"} {
			b.click(fmt.Sprintf(".row[data-id=%q] input[type=checkbox]", name))
		}
		b.awaitText("2 tubes selected")
		b.clickAction("pause")
		b.fill(field("for"), "10m")
		b.fill(field("reason"), "stocktaking")
		b.hits("15 ready jobs")
		b.confirm("pause")
		b.awaitText("invoices paused")
		if s.tube("emails").Pause != 600 || s.tube("thumbnails").Pause != 0 {
			t.Error("the paused tubes are not the selected ones")
		}
		b.clickAction("resume")
		b.awaitNoText("invoices paused")
		b.clickAction("flush")
		b.choose(field("state"), "ready")
		b.hits("15")
		b.fill(field("sure"), "3")
		b.click("[data-do=ok]")
		b.awaitText("does not match")
		s.awaitTube("invoices", 12, 0, 0, 0)
		b.fill(field("sure"), "2")
		b.confirm("flush")
		s.awaitTube("invoices", 0, 0, 0, 0)
		s.awaitTube("emails", 0, 0, 0, 0)
		s.awaitTube("thumbnails", 0, 0, 2, 0)
		b.awaitTubes("refunds", "thumbnails")
		b.awaitCell("thumbnails", "delayed", "2")
		b.click(`.row[data-id="thumbnails"] input[type=checkbox]`)
		b.clickAction("kick")
		b.hits("2")
		b.confirm("kick")
		s.awaitTube("thumbnails", 2, 0, 0, 0)
	})
}

// TestPauseUpdates: updates can be paused; after they are resumed, all changes are shown.
func TestPauseUpdates(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	putShopJobs(s)
	b := s.open(t, "")
	b.awaitCell("emails", "ready", "3")
	b.click("#follow")
	b.await(`document.querySelector("#live").dataset.state === "paused"`)
	counts := func() string { return fmt.Sprint(b.column("row"), b.column("ready"), b.column("total")) }
	before := counts()
	other := s.open(t, "") // a second page, which shows when the changes have arrived
	for i, name := range []string{"zebras", "zebus"} {
		s.put("emails", manyJobs(1)...)
		s.put(name, manyJobs(1)...)
		other.awaitCell(name, "ready", "1")
		other.awaitCell("emails", "ready", fmt.Sprint(4+i))
	}
	if got := counts(); got != before {
		t.Errorf("the table has changed from %v to %v", before, got)
	}
	b.click("#follow")
	b.awaitCell("emails", "ready", "5")
	b.awaitCell("zebras", "ready", "1")
}

// TestSlowClick: a link works even if the numbers change while the mouse button is down.
func TestSlowClick(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	putShopJobs(s)
	b := s.open(t, "")
	b.awaitCell("invoices", "ready", "12")
	x, y := b.seek("aim", `.row[data-id="invoices"] a`)
	b.press(x, y)
	s.put("invoices", manyJobs(1)...)
	b.awaitCell("invoices", "ready", "13")
	b.release(x, y)
	b.ready("tube")
}

// TestServerAway: the page shows that the connection is lost, and continues when the server is back.
func TestServerAway(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "127.0.0.1:"+child.FreePort(), "--store", "embedded:"+t.TempDir())
	putShopJobs(s)
	b := s.open(t, "")
	b.awaitCell("emails", "ready", "3")
	b.await(`document.querySelector("#live").dataset.state === "live"`)
	b.ignore("ERR_|Failed to load resource")
	s.Kill()
	b.await(`document.querySelector("#live").dataset.state === "lost"`)
	b.awaitText("connection lost since ")
	b.await(`document.querySelector("main").hasAttribute("data-old")`)
	s.start(strings.TrimPrefix(s.url, "http://"))
	s.put("emails", manyJobs(2)...)
	b.awaitCell("emails", "ready", "5")
	b.await(`document.querySelector("#live").dataset.state === "live"`)
	b.await(`!document.querySelector("main").hasAttribute("data-old")`)
}
