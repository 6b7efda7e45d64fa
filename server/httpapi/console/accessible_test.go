//go:build chromium

package console_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp/kb"
)

// check returns the problems that a function of window.check finds.
func (b *tab) check(function string) []string {
	b.t.Helper()
	return eval[[]string](b, "check."+function+"()")
}

// rolesWithName are the roles of elements that need a name for screen readers.
var rolesWithName = []string{"button", "link", "textbox", "searchbox", "combobox", "spinbutton", "checkbox", "tab", "grid", "dialog", "group", "tablist",
	"navigation", "image", "img", "columnheader", "DisclosureTriangle", "option", "heading", "RootWebArea"}

// unnamed returns the elements that need a name and have none.
func (b *tab) unnamed() (wrong []string) {
	b.t.Helper()
	tree := send(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	for _, node := range tree.Nodes {
		if role := text(node.Role); !node.Ignored && slices.Contains(rolesWithName, role) && text(node.Name) == "" {
			wrong = append(wrong, fmt.Sprintf("a %s has no name (node %d)", role, node.BackendDOMNodeID))
		}
	}
	return wrong
}

// views are all views of the console, and how to open them in an empty tab.
var views = []struct {
	name, page, view string
	then             func(b *tab)
}{
	{"overview", "", "overview", func(b *tab) { b.awaitCell("invoices", "ready", "12") }},
	{"columns", "", "overview", func(b *tab) { b.click("#columns > summary"); b.find("[name=column-urgent]") }},
	{"keys", "", "overview", func(b *tab) { b.keys("?"); b.find("dialog[open] dl") }},
	{"tube", "#/tube/invoices", "tube", func(b *tab) { b.awaitRows(12) }},
	{"marked", "#/tube/invoices", "tube", func(b *tab) {
		b.awaitRows(12)
		b.click("input[aria-label='Select all listed']")
		b.awaitText("12 jobs selected")
	}},
	{"job", "#/tube/letters", "tube", func(b *tab) { b.openJob(b.s.jobs("letters", "ready")[0].ID) }},
	{"flush", "#/tube/invoices", "tube", func(b *tab) {
		b.clickAction("flush")
		b.click("[data-do=ok]")
		b.awaitText("The name does not match.")
	}},
	{"policy", "#/tube/invoices", "tube", func(b *tab) { b.clickAction("policy"); b.dialog("policy") }},
	{"paused", "#/tube/thumbnails", "tube", func(b *tab) { b.awaitText("paused for") }},
	{"put", "#/put/more", "put", func(b *tab) {
		b.moreTags()
		b.clickAction("put")
		b.awaitMessage("was put")
	}},
	{"failed", "#/put/no", "put", func(b *tab) {
		b.fill(putField("ttr"), "0s")
		b.clickAction("put")
		b.await(`document.querySelector(".note.bad, .problem:not(:empty)")`)
	}},
	{"groups", "#/tube/mails/groups", "tube", func(b *tab) { b.awaitCell("acme", "ready", "2") }},
	{"group", "#/tube/mails/groups/acme", "tube", func(b *tab) { b.dialog("group") }},
	{"limits", "#/tube/mails/groups/acme", "tube", func(b *tab) {
		b.dialog("group")
		b.clickAction("limits")
		b.dialog("limits")
	}},
	{"parked", "#/parked", "parked", func(b *tab) { b.awaitRows(3) }},
	{"search", "#/search/invoice", "search", func(b *tab) { b.find("[data-found=tubes] a") }},
	{"ended", "#/ended/invoices", "ended", func(b *tab) { b.awaitRows(1) }},
	{"schedules", "#/schedules", "schedules", func(b *tab) { b.awaitRows(2) }},
	{"schedule", "#/schedules/nightly", "schedules", func(b *tab) { b.dialog("schedule") }},
	{"set", "#/schedules/nightly", "schedules", func(b *tab) {
		b.dialog("schedule")
		b.clickAction("edit")
		b.dialog("set")
	}},
	{"batches", "#/batches", "batches", func(b *tab) { b.awaitRows(3) }},
	{"batch", "#/batches", "batches", func(b *tab) {
		b.awaitRows(3)
		b.openRow("batch", "thumbnails")
		b.await("document.querySelectorAll('[data-jobs=\"Jobs after it\"] tbody tr').length === 1")
	}},
	{"workers", "#/workers", "workers", func(b *tab) { b.awaitRows(2) }},
	{"client", "#/workers", "workers", func(b *tab) {
		b.awaitRows(2)
		b.openRow("client", b.clientRow("worker-1"))
	}},
	{"server", "#/server", "server", nil},
	{"nothing", "#/nothing", "", func(b *tab) { b.awaitText("There is no such page.") }},
}

// forEachView opens each view in a prepared tab and calls inspect with it.
func forEachView(t *testing.T, s *testServer, prepare func(b *tab), inspect func(b *tab, view string)) {
	t.Helper()
	b := s.blank(t)
	b.ignore("status of 4")
	prepare(b)
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			defer b.borrow(t)()
			b.goTo("?" + v.name + v.page)
			if v.view != "" {
				b.ready(v.view)
			}
			if v.then != nil {
				v.then(b)
			}
			inspect(b, v.name)
		})
	}
}

// borrow makes a tab report to a subtest, until the returned function is called. The subtest then fails if
// the tab had problems.
func (b *tab) borrow(t *testing.T) (back func()) {
	owner := b.t
	b.t = t
	return func() {
		b.failureScreenshot()
		b.report()
		b.t = owner
	}
}

// populated starts a server with data for all views.
func populated(t *testing.T) *testServer {
	s := startServer(t)
	putShopJobs(s)
	parkJobs(s, "inventory", 3)
	s.put("letters", terms{"body": `{"to": "Ann", "n": 1.5, "ok": true, "none": null, "list": ["a"]}`, "key": "k", "max": 3, "retry": []string{"10s"}, "dead": "lost"})
	connectWorkers(s)
	putMails(s)
	setSchedules(s)
	putBatches(s)
	s.call("POST", tubePath("thumbnails")+"/pause?for=1h", nil, nil)
	s.call("PUT", tubePath("invoices")+"/policy", map[string]any{"max": 3, "keep": "1h"}, nil)
	s.call("DELETE", fmt.Sprint("/v1/jobs/", s.put("invoices", manyJobs(1)...)[0]), nil, nil)
	return s
}

var schemes = []string{"light", "dark"}

// TestViews: each view has names, structure and contrast, fits into a narrow window, and shows where the focus is.
func TestViews(t *testing.T) {
	t.Parallel()
	s := populated(t)
	t.Run("accessible", func(t *testing.T) {
		t.Parallel()
		forEachView(t, s, func(b *tab) { b.theme("light") }, (*tab).checkAccessible)
	})
	t.Run("phone", func(t *testing.T) {
		t.Parallel()
		forEachView(t, s, (*tab).phone, func(b *tab, view string) {
			b.screenshot(view + "-phone")
			for _, wrong := range b.check("narrow") {
				b.t.Error(wrong)
			}
		})
	})
	t.Run("focus", func(t *testing.T) {
		t.Parallel()
		b := s.blank(t)
		b.theme("light")
		for _, page := range []string{"", "#/tube/invoices", "#/put", "#/parked", "#/schedules", "#/batches", "#/workers", "#/server"} {
			b.goTo("?" + url.QueryEscape(page) + page)
			b.await(`document.querySelector("#main[data-ready=true]")`)
			b.tabThroughAll(page)
		}
	})
}

// checkAccessible checks names and structure of a view, and its contrast in light and in dark.
func (b *tab) checkAccessible(view string) {
	for _, wrong := range slices.Concat(b.unnamed(), b.check("structure")) {
		b.t.Error(wrong)
	}
	for _, scheme := range schemes {
		b.theme(scheme)
		b.screenshot(view + "-" + scheme)
		for _, wrong := range b.check("contrast") {
			b.t.Errorf("%s: %s", scheme, wrong)
		}
	}
	b.theme("light")
}

// tabThroughAll presses the tab key until the focus has been on every element.
func (b *tab) tabThroughAll(page string) {
	b.t.Helper()
	seen := make(map[string]bool)
	for range maxTabs {
		b.keys(kb.Tab)
		if eval[bool](b, "document.activeElement === document.body") {
			break
		}
		role, name := b.focused()
		if seen[role+name] && name == "Skip to the content" {
			break
		}
		seen[role+name] = true
		b.checkFocusInAll(fmt.Sprintf("%q, the %s %q", page, role, name))
	}
	if len(seen) < 8 {
		b.t.Errorf("%q: the tab key reaches only %d elements: %v", page, len(seen), seen)
	}
}

// checkFocusInAll fails the test if the focused element does not show its focus in a color scheme.
func (b *tab) checkFocusInAll(what string) {
	b.t.Helper()
	for _, scheme := range schemes {
		for _, wrong := range eval[[]string](b, fmt.Sprintf("(document.documentElement.dataset.theme = %q, check.focus())", scheme)) {
			b.t.Errorf("%s, %s: %s", what, scheme, wrong)
		}
	}
}
