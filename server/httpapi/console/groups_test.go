//go:build chromium

package console_test

import (
	"fmt"
	"net/url"
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

func (s *testServer) group(tube, name string) (g groupInfo) {
	s.t.Helper()
	s.call("GET", tubePath(tube)+"/groups/"+url.PathEscape(name), nil, &g)
	return g
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

// openGroup opens the dialog of a group in the table.
func (b *tab) openGroup(name string) {
	b.t.Helper()
	b.awaitGone("dialog")
	b.click(fmt.Sprintf(".row[data-id=%q] [data-column=name]", name))
	b.dialog("group")
}

// TestGroups: a tube lists its groups, and a dialog sets, pauses and flushes one of them.
func TestGroups(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		id := putMails(s)
		b := s.open(t, "#/tube/mails")
		b.awaitText("group acme")
		b.awaitText("held: concurrency")
		b.screenshots("groups-jobs-" + engineOf(t))
		b.openJob(id)
		b.wantProperties(map[string]string{"Group": "acme"})
		b.click("dialog a[href^='#/tube/mails/groups/']")
		b.awaitAddress("#/tube/mails/groups/acme")
		b.dialog("group")
		b.closeJob()
		b.awaitColumn("name", "Ann & Co / é", "acme")
		b.awaitCell("acme", "ready", "2")
		b.awaitCell("acme", "reserved", "1")
		b.awaitCell("acme", "concurrency", "1")
		b.awaitCell("acme", "held", "concurrency")
		b.awaitText("2 groups: 2 held.")
		b.aligned()
		b.screenshots("groups-" + engineOf(t))
		b.limitGroup(s)
		b.pauseGroup(s)

		b.openGroup("Ann & Co / é")
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
	b.openGroup("acme")
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
	if g := s.group("mails", "acme"); g.Set == nil || g.Set.TTL != "7d" || g.Concurrency != 3 {
		b.t.Errorf("the group is %+v", g)
	}
	b.openGroup("acme")
	b.awaitText("at most 3 reserved, at most 100/m,1000/h, weight 2, kept for 7d")
	b.clickAction("remove-limits")
	b.confirm("remove-limits")
	b.awaitCell("acme", "concurrency", "1")
	if g := s.group("mails", "acme"); g.Set != nil {
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
	b.openGroup("acme")
	b.clickAction("pause")
	b.hits("2")
	b.fill(field("for"), "soon")
	b.click("[data-do=ok]")
	b.awaitText("such as 90s")
	b.fill(field("for"), "2h")
	b.confirm("pause")
	b.awaitCell("acme", "held", "paused")
	b.awaitCellLike("acme", "pause", "^1 h 59 m$")
	b.openGroup("acme")
	b.screenshots("group-" + engineOf(b.t))
	b.clickAction("resume")
	b.awaitCell("acme", "held", "concurrency")
	if g := s.group("mails", "acme"); g.PauseLeft != 0 {
		b.t.Errorf("the group is %+v", g)
	}
}

// TestGroupPolicy: the policy form has the limits. The groups are shown as soon as a policy or a job has one.
func TestGroupPolicy(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.put("mails", manyJobs(1)...)
	b := s.open(t, "#/tube/mails")
	b.awaitRows(1)
	b.awaitGone("#tab-groups")
	b.clickAction("policy")
	b.dialog("policy")
	for name, value := range map[string]string{"group_concurrency": "2", "group_rate": "100/m", "concurrency": "50", "rate": "10/s"} {
		b.fill(field(name), value)
	}
	b.choose(field("group_order"), "strict")
	b.screenshots("groups-policy")
	b.confirm("policy")
	b.awaitText("at most 2 reserved jobs of each group · at most 100/m reserves of each group · strict order of groups · at most 50 reserved jobs · at most 10/s reserves")
	var policy map[string]any
	s.call("GET", tubePath("mails")+"/policy", nil, &policy)
	if got := fmt.Sprint(policy); got != "map[concurrency:50 group_concurrency:2 group_order:strict group_rate:100/m rate:10/s]" {
		t.Error(got)
	}
	b.click("#tab-groups")
	b.awaitText("No job has a group, and nothing is set for a group.")
	b.screenshot("groups-empty")
	s.put("mails", inGroups("acme")...) // the page follows without a click
	b.awaitCell("acme", "ready", "1")
}

// TestManyGroups: groups are read page by page, filtered, sorted, and opened with the keyboard.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	names := []string{"acme", "acme"}
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
	b.await(`help.column("name")[0] === "acme"`)
	b.shortcut("/")
	b.keys("R 109")
	b.awaitRows(10)
	b.fill("#group-filter", "none of them")
	b.awaitText("No group matches the filter.")
	b.fill("#group-filter", "ACME")
	b.awaitColumn("name", "acme")
	b.tabTo("grid", "Groups")
	b.enter()
	b.dialog("group")
	b.awaitText("Ready 2")
	b.closeJob()
	b.fill("#group-filter", "..") // browsers would pause the tube instead
	b.openGroup("..")
	b.awaitText("Use the command line.")
	if b.has("dialog [data-action]") {
		t.Error("the group .. has actions")
	}
}

// TestGroupsOfUser: the dialog has the actions for which the user has the right.
func TestGroupsOfUser(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t, user{"viewer", "mails", "read"}, user{"worker", "mails", "read, work"})
	putMails(s)
	for name, actions := range map[string][]string{"viewer": nil, "worker": {"pause"}, "root": {"flush", "limits", "pause"}} {
		b := s.signIn(t, "#/tube/mails", name)
		b.click("#tab-groups")
		b.awaitCell("acme", "ready", "2")
		if name != "root" {
			b.wantActions()
		}
		b.openGroup("acme")
		got := eval[string](b, `[...document.querySelectorAll("dialog [data-action]")].map(e => e.dataset.action).sort().join(" ")`)
		if want := fmt.Sprint(actions); "["+got+"]" != want {
			t.Errorf("%s has the actions %s, want %s", name, got, want)
		}
	}
}
