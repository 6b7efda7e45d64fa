//go:build chromium

package console_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focused returns the role and the name of the focused element.
func (b *tab) focused() (role, name string) {
	b.t.Helper()
	e := send(b, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.activeElement"})
	no := false
	tree := send(b, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{ObjectID: e.Result.ObjectID, FetchRelatives: &no})
	if len(tree.Nodes) == 0 {
		return "", ""
	}
	return text(tree.Nodes[0].Role), text(tree.Nodes[0].Name)
}

// maxTabs is how often the tab key is pressed at most to reach an element.
const maxTabs = 60

// tabTo presses the tab key until an element has the focus.
func (b *tab) tabTo(role, name string) {
	b.t.Helper()
	var passed []string
	for range maxTabs {
		b.keys(kb.Tab)
		atRole, atName := b.focused()
		if atRole == role && (name == "" || atName == name) {
			return
		}
		passed = append(passed, atRole+" "+atName)
	}
	b.t.Fatalf("the tab key does not reach the %s %q, but %q", role, name, passed)
}

// back presses shift and tab.
func (b *tab) back() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))); err != nil {
		b.t.Fatal(err)
	}
}

// shortcut presses a key whose default action the page can prevent. chromedp would type it in any case.
func (b *tab) shortcut(key string) {
	b.t.Helper()
	send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key, UnmodifiedText: key})
	send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key})
}

// enter presses the enter key, whose default action the page can prevent as well.
func (b *tab) enter() {
	b.t.Helper()
	key := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r", UnmodifiedText: "\r", WindowsVirtualKeyCode: 13}
	send(b, input.DispatchKeyEvent, key)
	key.Type, key.Text, key.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	send(b, input.DispatchKeyEvent, key)
}

// awaitRowAt waits until a row is the current row of the table.
func (b *tab) awaitRowAt(row string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector(".row.at")?.dataset.id === %q`, row))
}

// TestKeys: the documented keyboard shortcuts work.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	putShopJobs(s)
	b := s.open(t, "")
	b.awaitTubes("emails", "invoices", "refunds", "thumbnails")
	b.keys("?")
	b.awaitText("refresh")
	b.screenshot("keys")
	b.keys(kb.Escape)
	b.awaitGone("dialog")
	for key, view := range map[string]string{"p": "parked", "c": "schedules", "w": "workers", "n": "put", "s": "server"} {
		b.keys("t")
		b.ready("overview")
		b.keys(key)
		b.ready(view)
		eval[bool](b, "(document.activeElement.blur(), true)") // the field of the body
	}
	b.keys("t")
	b.ready("overview")
	b.shortcut("/")
	b.keys("inv")
	b.awaitTubes("invoices")
	b.tabTo("grid", "Tubes")
	b.enter()
	b.ready("tube")
	if role, name := b.focused(); role == "" || role == "RootWebArea" {
		t.Errorf("the focus is on the %s %q when the view has changed", role, name)
	}
	b.shortcut("/")
	b.keys("xyz")
	b.enter()
	b.awaitText("Nothing was found.")
	eval[bool](b, "(document.activeElement.blur(), true)")
	b.keys(kb.Escape)
	b.ready("overview")
}

// TestKeyboardOnly goes from the first page to the deletion of jobs without a mouse.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	putShopJobs(s)
	b := s.open(t, "")
	b.awaitTubes("emails", "invoices", "refunds", "thumbnails")
	b.keys(kb.Tab)
	if role, name := b.focused(); role != "link" || name != "Skip to the content" {
		t.Errorf("the tab key leads to the %s %q first", role, name)
	}
	b.enter()
	b.tabTo("grid", "Tubes")
	b.keys(kb.End + kb.Home)
	for range 20 {
		if eval[bool](b, `document.querySelector(".row.at")?.dataset.id === "invoices"`) {
			break
		}
		b.keys(kb.ArrowDown)
	}
	b.awaitRowAt("invoices")
	b.enter()
	b.counts("ready", 12)
	b.awaitRows(12)
	b.tabTo("grid", "Jobs")
	b.keys("x" + kb.ArrowDown + "jx")
	b.awaitText("2 jobs selected")
	b.enter()
	b.dialog("job")
	b.keys(kb.Escape)
	b.awaitGone("dialog")
	if role, _ := b.focused(); role != "grid" {
		t.Errorf("the focus is on the %s when the job is closed", role)
	}
	b.deleteByKeys(s)
}

// deleteByKeys deletes the two selected invoices. The focus is on the table.
func (b *tab) deleteByKeys(s *testServer) {
	b.t.Helper()
	name := ""
	for i := 0; i < maxTabs && name != "Delete"; i++ {
		b.back()
		_, name = b.focused()
	}
	b.enter()
	b.dialog("delete")
	b.keys(kb.Escape)
	b.awaitGone("dialog")
	s.awaitTube("invoices", 12, 0, 0, 0)
	b.enter()
	b.dialog("delete")
	b.tabTo("button", "Delete")
	b.enter()
	s.awaitTube("invoices", 10, 0, 0, 0)
	if role, name := b.focused(); role == "" || role == "RootWebArea" {
		b.t.Errorf("the focus is on the %s %q when the jobs are gone", role, name)
	}
}
