//go:build chromium

package console_test

import (
	"fmt"
	"strings"
	"testing"
)

// shop puts jobs into some tubes: 3 emails and 12 invoices are ready, 2 thumbnails delayed, 1
// refund is buried, and 1 reserved.
func shop(s *site) {
	s.put("emails", many(3)...)
	s.put("invoices", many(12)...)
	s.put("thumbnails", terms{"delay": "1h"}, terms{"delay": "2h"})
	s.put("refunds", many(2)...)
	s.with(s.reserve("refunds", 1), "bury")
	s.reserve("refunds", 1)
}

// awaitTubes waits until these are the tubes of the table, beside default, in their order.
func (b *tab) awaitTubes(want ...string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf(`help.same(help.column("row").filter(n => n !== "default"), %s)`, js(want)), b.table)
}

// engineOf is the last part of the name of a test.
func engineOf(t *testing.T) string { return t.Name()[strings.LastIndexByte(t.Name(), '/')+1:] }

// TestOverview: all tubes are seen, with what happens to them.
func TestOverview(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		shop(s)
		b := s.open(t, "")
		b.ready("overview")
		b.awaitCell("emails", "ready", "3")
		b.awaitCell("invoices", "ready", "12")
		b.awaitCell("thumbnails", "delayed", "2")
		b.awaitCell("refunds", "buried", "1")
		b.awaitCell("refunds", "reserved", "1")
		b.see("15 ready")
		b.see("2 delayed")

		eval[bool](b, "window.same = true")
		s.put("emails", terms{"priority": 3})
		s.put("reports", terms{"body": "new"})
		b.awaitCell("emails", "ready", "4")
		b.awaitCell("emails", "urgent", "1")
		b.awaitCell("reports", "ready", "1")
		b.see("17 ready")
		s.call("POST", tubePath("emails")+"/pause?for=10m", nil, nil)
		s.call("PUT", tubePath("invoices")+"/policy", map[string]any{"max": 3}, nil)
		b.see("emails paused")
		b.see("invoices policy")
		s.call("DELETE", tubePath("reports")+"/jobs", nil, nil)
		b.awaitTubes("emails", "invoices", "refunds", "thumbnails")
		if !eval[bool](b, "window.same") {
			t.Error("the page was loaded again")
		}
		b.aligned()
		b.picture("overview-" + engineOf(t))
	})
}

// aligned fails the test if the heads of columns do not stand above their columns.
func (b *tab) aligned() {
	b.t.Helper()
	wrong := eval[string](b, `(() => {
		const side = (e, s) => Math.round(e.getBoundingClientRect()[s]);
		const head = [...document.querySelectorAll("[role=columnheader]")].filter(e => e.checkVisibility());
		const cells = [...document.querySelector(".row[data-id]").querySelectorAll("[role=gridcell], [role=rowheader]")].filter(e => e.checkVisibility());
		if (head.length !== cells.length) return head.length + " heads over " + cells.length + " columns";
		return head.filter((h, i) => side(h, "left") !== side(cells[i], "left") || side(h, "right") !== side(cells[i], "right"))
			.map(h => h.innerText).join(", ");
	})()`)
	if wrong != "" {
		b.t.Errorf("these columns do not stand below their heads: %s", wrong)
	}
}

// TestOverviewChoices: the table is filtered, sorted, and its columns are chosen; all of which
// the browser remembers.
func TestOverviewChoices(t *testing.T) {
	t.Parallel()
	s := serve(t)
	shop(s)
	b := s.open(t, "")
	b.ready("overview")
	b.fill("#filter", "IN")
	b.awaitTubes("invoices")
	b.fill("#filter", "/^(in|th)/")
	b.awaitTubes("invoices", "thumbnails")
	b.fill("#filter", "nothing has this")
	b.see("No tube fits the filter.")
	b.fill("#filter", "")
	b.awaitTubes("emails", "invoices", "refunds", "thumbnails")

	b.click("[data-sort=ready]")
	b.awaitTubes("invoices", "emails", "refunds", "thumbnails")
	b.click("[data-sort=ready]")
	b.await(`document.querySelector("[aria-sort=ascending] [data-sort=ready]")`)
	b.await(`help.column("row").at(-1) === "invoices"`) // which has the most
	b.click("[data-sort=delayed]")
	b.await(`help.column("row")[0] === "thumbnails"`)

	b.click("#busy")
	b.awaitTubes("thumbnails", "emails", "invoices", "refunds")
	b.click("#columns > summary")
	b.click("[name=column-urgent]")
	b.click("[name=column-total]")
	b.again()
	b.ready("overview")
	b.awaitTubes("thumbnails", "emails", "invoices", "refunds")
	b.awaitCell("invoices", "total", "12")
	b.lacks("[data-column=urgent]")
}

// TestMarkedTubes: the same is done to several tubes.
func TestMarkedTubes(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		shop(s)
		b := s.open(t, "")
		b.awaitCell("invoices", "ready", "12")
		for _, name := range []string{"emails", "invoices"} {
			b.click(fmt.Sprintf(".row[data-id=%q] input[type=checkbox]", name))
		}
		b.see("2 tubes marked")
		b.act("pause")
		b.fill(field("for"), "10m")
		b.fill(field("reason"), "stocktaking")
		b.hits("15 ready jobs")
		b.sure("pause")
		b.see("invoices paused")
		if s.tube("emails").Pause != 600 || s.tube("thumbnails").Pause != 0 {
			t.Error("other tubes are paused than those that were marked")
		}
		b.act("resume")
		b.seeNot("invoices paused")
		b.act("flush")
		b.choose(field("state"), "ready")
		b.hits("15")
		b.fill(field("sure"), "3")
		b.click("[data-do=ok]")
		b.see("another number")
		s.awaitTube("invoices", 12, 0, 0, 0)
		b.fill(field("sure"), "2")
		b.sure("flush")
		s.awaitTube("invoices", 0, 0, 0, 0)
		s.awaitTube("emails", 0, 0, 0, 0)
		s.awaitTube("thumbnails", 0, 0, 2, 0)
		b.awaitTubes("refunds", "thumbnails")
		b.awaitCell("thumbnails", "delayed", "2")
		b.click(`.row[data-id="thumbnails"] input[type=checkbox]`)
		b.act("kick")
		b.hits("2")
		b.sure("kick")
		s.awaitTube("thumbnails", 2, 0, 0, 0)
	})
}

// TestFollow: whoever wants to read in peace stops the changes, and sees them all later.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := serve(t)
	shop(s)
	b := s.open(t, "")
	b.awaitCell("emails", "ready", "3")
	b.click("#follow")
	b.await(`document.querySelector("#live").dataset.state === "paused"`)
	counts := func() string { return fmt.Sprint(b.column("row"), b.column("ready"), b.column("total")) }
	before := counts()
	other := s.open(t, "") // which hears of everything, and of each later than the first would
	for i, name := range []string{"zebras", "zebus"} {
		s.put("emails", many(1)...)
		s.put(name, many(1)...)
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

// TestSlowClick: a link works for people whose button is down for longer than it takes until
// the numbers change.
func TestSlowClick(t *testing.T) {
	t.Parallel()
	s := serve(t)
	shop(s)
	b := s.open(t, "")
	b.awaitCell("invoices", "ready", "12")
	x, y := b.seek("aim", `.row[data-id="invoices"] a`)
	b.press(x, y)
	s.put("invoices", many(1)...)
	b.awaitCell("invoices", "ready", "13")
	b.release(x, y)
	b.ready("tube")
}

// TestServerAway: the page says that it hears nothing, and goes on when the server is back.
func TestServerAway(t *testing.T) {
	t.Parallel()
	s := serveAt(t, lasting(t), "--store", "embedded:"+t.TempDir())
	shop(s)
	b := s.open(t, "")
	b.awaitCell("emails", "ready", "3")
	b.await(`document.querySelector("#live").dataset.state === "live"`)
	b.excuse("ERR_|Failed to load resource")
	s.end()
	b.await(`document.querySelector("#live").dataset.state === "lost"`)
	s.begin(strings.TrimPrefix(s.url, "http://"))
	s.put("emails", many(2)...)
	b.awaitCell("emails", "ready", "5")
	b.await(`document.querySelector("#live").dataset.state === "live"`)
}
