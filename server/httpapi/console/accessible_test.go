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

// check returns what a function of checks finds wrong.
func (b *tab) check(function string) []string {
	b.t.Helper()
	return eval[[]string](b, "check."+function+"()")
}

// named are the roles of elements that a screen reader has to have a name for.
var named = []string{"button", "link", "textbox", "searchbox", "combobox", "spinbutton", "checkbox", "tab", "grid", "dialog", "group", "tablist",
	"navigation", "image", "img", "columnheader", "DisclosureTriangle", "option", "heading", "RootWebArea"}

// nameless returns the elements without a name that need one.
func (b *tab) nameless() (wrong []string) {
	b.t.Helper()
	tree := send(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	for _, node := range tree.Nodes {
		if role := text(node.Role); !node.Ignored && slices.Contains(named, role) && text(node.Name) == "" {
			wrong = append(wrong, fmt.Sprintf("a %s has no name (node %d)", role, node.BackendDOMNodeID))
		}
	}
	return wrong
}

// views are all that can be seen of the console, and how to get there from an empty tab.
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
		b.click("input[aria-label='Mark all that are listed']")
		b.see("12 jobs marked")
	}},
	{"job", "#/tube/letters", "tube", func(b *tab) { b.look(b.s.jobs("letters", "ready")[0].ID) }},
	{"flush", "#/tube/invoices", "tube", func(b *tab) {
		b.act("flush")
		b.click("[data-do=ok]")
		b.see("The name is another one.")
	}},
	{"policy", "#/tube/invoices", "tube", func(b *tab) { b.act("policy"); b.dialog("policy") }},
	{"paused", "#/tube/thumbnails", "tube", func(b *tab) { b.see("paused for") }},
	{"put", "#/put/more", "put", func(b *tab) {
		b.moreTags()
		b.act("put")
		b.told("was put")
	}},
	{"failed", "#/put/no", "put", func(b *tab) {
		b.fill(putField("ttr"), "0s")
		b.act("put")
		b.await(`document.querySelector(".note.bad, .problem:not(:empty)")`)
	}},
	{"parked", "#/parked", "parked", func(b *tab) { b.awaitRows(3) }},
	{"server", "#/server", "server", nil},
	{"nothing", "#/nothing", "", func(b *tab) { b.see("There is no such page.") }},
}

// showAll opens each view in a tab that was prepared, and calls inspect with it.
func showAll(t *testing.T, s *site, prepare func(b *tab), inspect func(b *tab, view string)) {
	t.Helper()
	b := s.blank(t)
	b.excuse("status of 4")
	prepare(b)
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			defer b.lend(t)()
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

// lend gives a tab to a part of its test, until the function is called that it returns. Then the
// part has failed if the tab had problems.
func (b *tab) lend(t *testing.T) (back func()) {
	owner := b.t
	b.t = t
	return func() {
		b.pictureOfFailure()
		b.report()
		b.t = owner
	}
}

// furnished is a server that has something for all views.
func furnished(t *testing.T) *site {
	s := serve(t)
	shop(s)
	exhaust(s, "inventory", 3)
	s.put("letters", terms{"body": `{"to": "Ann", "n": 1.5, "ok": true, "none": null, "list": ["a"]}`, "key": "k", "max": 3, "retry": []string{"10s"}, "dead": "lost"})
	s.call("POST", tubePath("thumbnails")+"/pause?for=1h", nil, nil)
	s.call("PUT", tubePath("invoices")+"/policy", map[string]any{"max": 3}, nil)
	return s
}

var schemes = []string{"light", "dark"}

// TestAccessible: each view, in light and in dark, can be read by those who see little and by
// screen readers.
func TestAccessible(t *testing.T) {
	t.Parallel()
	showAll(t, furnished(t), func(b *tab) { b.theme("light") }, func(b *tab, view string) {
		for _, wrong := range slices.Concat(b.nameless(), b.check("structure")) {
			b.t.Error(wrong)
		}
		for _, scheme := range schemes {
			b.theme(scheme)
			b.picture(view + "-" + scheme)
			for _, wrong := range b.check("contrast") {
				b.t.Errorf("%s: %s", scheme, wrong)
			}
		}
		b.theme("light")
	})
}

// show opens a page in a tab that was prepared.
func (s *site) show(t *testing.T, page string, prepare func(b *tab)) *tab {
	t.Helper()
	b := s.blank(t)
	prepare(b)
	b.goTo(page)
	return b
}

// TestFocusSeen: whoever goes through a page by the tab key sees where they are, in light and in dark.
func TestFocusSeen(t *testing.T) {
	t.Parallel()
	b := furnished(t).blank(t)
	b.theme("light")
	for _, page := range []string{"", "#/tube/invoices", "#/put", "#/parked", "#/server"} {
		b.goTo("?" + url.QueryEscape(page) + page)
		b.await(`document.querySelector("#main[data-ready=true]")`)
		b.throughAll(page)
	}
}

// throughAll presses the tab key until it has led to everything.
func (b *tab) throughAll(page string) {
	b.t.Helper()
	seen := make(map[string]bool)
	for range mostStops {
		b.keys(kb.Tab)
		if eval[bool](b, "document.activeElement === document.body") {
			break
		}
		role, name := b.focused()
		if seen[role+name] && name == "Skip to the content" {
			break
		}
		seen[role+name] = true
		b.seenInAll(fmt.Sprintf("%q, the %s %q", page, role, name))
	}
	if len(seen) < 8 {
		b.t.Errorf("%q: the tab key leads to %d elements only: %v", page, len(seen), seen)
	}
}

// seenInAll fails the test if what has the focus does not show it in each of the schemes.
func (b *tab) seenInAll(what string) {
	b.t.Helper()
	for _, scheme := range schemes {
		for _, wrong := range eval[[]string](b, fmt.Sprintf("(document.documentElement.dataset.theme = %q, check.focus())", scheme)) {
			b.t.Errorf("%s, %s: %s", what, scheme, wrong)
		}
	}
}

// TestPhone: each view has room in a narrow window.
func TestPhone(t *testing.T) {
	t.Parallel()
	showAll(t, furnished(t), (*tab).phone, func(b *tab, view string) {
		b.picture(view + "-phone")
		for _, wrong := range b.check("narrow") {
			b.t.Error(wrong)
		}
	})
}
