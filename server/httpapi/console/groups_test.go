//go:build chromium

package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// groupInfo is a group in the API.
type groupInfo struct {
	Ready, Reserved, Concurrency, Weight uint32
	Rate, Held                           string
	PauseLeft                            int64 `json:"pause_left_ms"`
	Set                                  *struct{ TTL string }
}

// inGroups returns one job for each of the groups. A reservation outlasts the test, also on a busy machine.
func inGroups(groups ...string) (jobs []terms) {
	for i, group := range groups {
		jobs = append(jobs, terms{"body": fmt.Sprintf("mail %d", i), "group": group, "ttr": "1h"})
	}
	return jobs
}

// putMails puts jobs of two groups into the tube mails, of which one of each is reserved. No group can have two.
func putMails(s *testServer) (waiting uint64) {
	s.t.Helper()
	s.call("PUT", tubePath("mails")+"/policy", map[string]any{"group_concurrency": 1}, nil)
	ids := s.put("mails", inGroups("acme", "Ann & Co / é", "acme", "acme", "Ann & Co / é")...)
	s.reserve("mails", 2)
	return ids[2]
}

// TestGroups: a tube lists its groups, and a dialog sets, pauses and flushes one of them.
func TestGroups(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		id := putMails(s)
		b := s.open(t, "#/tube/mails")
		b.awaitText("group acme")
		b.awaitText("held: concurrency")
		b.openJob(id)
		b.wantProperties(map[string]string{"Group": "acme"})
		b.click("dialog a[href^='#/tube/mails/groups/']")
		b.awaitAddress("#/tube/mails/groups/acme")
		b.dialog("group")
		b.closeJob()
		b.awaitColumn("name", "acme", "Ann & Co / é")
		b.awaitCell("acme", "ready", "2")
		b.awaitCell("acme", "reserved", "1")
		b.awaitCell("acme", "concurrency", "1")
		b.awaitCell("acme", "held", "concurrency")
		b.awaitText("2 groups: 2 held.")
		b.aligned()
		b.limitGroup(s)
		b.pauseGroup(s)

		b.openRow("group", "Ann & Co / é")
		b.clickAction("flush")
		b.hits("1")
		b.confirm("flush")
		b.awaitCell("Ann & Co / é", "ready", "0")
		s.awaitTube("mails", 2, 2, 0, 0)
		b.inState("ready")
		b.awaitAddress("#/tube/mails")
		b.awaitRows(2)
	})
}

// limitGroup sets the limits of the group acme and removes them.
func (b *tab) limitGroup(s *testServer) {
	b.t.Helper()
	b.openRow("group", "acme")
	b.clickAction("limits")
	b.hits("1")
	for name, value := range map[string]string{"concurrency": "3", "rate": "100/m,1000/h", "weight": "2", "ttl": "7d"} {
		b.fill(field(name), value)
	}
	b.confirm("limits")
	b.awaitCell("acme", "concurrency", "3")
	b.awaitCell("acme", "rate", "100/m,1000/h")
	b.awaitCell("acme", "weight", "2")
	b.awaitCell("acme", "held", "–")
	if g := get[groupInfo](s, tubePath("mails")+"/groups/acme"); g.Set == nil || g.Set.TTL != "7d" || g.Concurrency != 3 {
		b.t.Errorf("the group is %+v", g)
	}
	b.openRow("group", "acme")
	b.awaitText("at most 3 reserved, at most 100/m,1000/h, weight 2, kept for 7d")
	b.clickAction("remove-limits")
	b.confirm("remove-limits")
	b.awaitCell("acme", "concurrency", "1")
	if g := get[groupInfo](s, tubePath("mails")+"/groups/acme"); g.Set != nil {
		b.t.Errorf("the group is %+v", g)
	}
	b.clickAction("group-limits")
	b.fill(field("name"), "new")
	b.fill(field("weight"), "5")
	b.confirm("limits")
	b.awaitCell("new", "weight", "5")
}

// pauseGroup pauses the group acme and resumes it.
func (b *tab) pauseGroup(s *testServer) {
	b.t.Helper()
	b.openRow("group", "acme")
	b.clickAction("pause")
	b.hits("2")
	b.fill(field("for"), "soon")
	b.click("[data-do=ok]")
	b.awaitText("such as 90s")
	b.fill(field("for"), "2h")
	b.confirm("pause")
	b.awaitCell("acme", "held", "paused")
	b.awaitCellLike("acme", "pause", "^1 h 59 m$")
	b.openRow("group", "acme")
	b.clickAction("resume")
	b.awaitCell("acme", "held", "concurrency")
	if g := get[groupInfo](s, tubePath("mails")+"/groups/acme"); g.PauseLeft != 0 {
		b.t.Errorf("the group is %+v", g)
	}
}

// TestManyGroups: groups are read page by page, filtered, sorted, and opened with the keyboard.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	names := []string{"Acme", "Acme"}
	for i := range 1100 {
		names = append(names, fmt.Sprintf("customer %04d", i))
	}
	s.put("mails", inGroups(append(names, "..")...)...)
	b := s.open(t, "#/tube/mails")
	b.awaitRows(200)
	b.click("#tab-ready")
	b.keys(kb.ArrowLeft)
	b.awaitText("1,102 groups: 0 held.")
	b.click("[data-sort=ready]")
	b.await(`help.column("name")[0] === "Acme"`)
	b.shortcut("/")
	b.keys("R 109")
	b.awaitRows(10)
	b.fill("#group-filter", "none of them")
	b.awaitText("No group matches the filter.")
	b.fill("#group-filter", "ACME")
	b.awaitColumn("name", "Acme")
	b.tabTo("grid", "Groups")
	b.enter()
	b.dialog("group")
	b.awaitText("Ready 2")
	b.closeJob()
	b.fill("#group-filter", "..") // browsers would pause the tube instead
	b.openRow("group", "..")
	b.awaitText("Use the command line.")
	if b.has("dialog [data-action]") {
		t.Error("the group .. has actions")
	}
}
