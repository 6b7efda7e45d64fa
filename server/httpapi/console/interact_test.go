//go:build chromium

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// This file has the interactions of tests with a tab. Elements are found by attributes that exist for this
// purpose: data-action of buttons, data-dialog of dialogs, names of fields. Tests use real mouse and keyboard
// events, so an element that is covered by another one makes a test fail.

// send sends a command of the DevTools protocol.
func send[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return answer
}

// eval returns the value of a JavaScript expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := try[T](b, expression)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// try is eval for expressions that can fail.
func try[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		err = fmt.Errorf("%s: %w", expression, err)
	}
	return value, err
}

// await waits until a condition of the test holds.
func await(t *testing.T, what string, holds func() bool, more func() string) {
	t.Helper()
	for limit := time.Now().Add(timeout); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timeout waiting for: %s; the page has\n%s", what, more())
		}
	}
}

// await waits until a JavaScript expression is true. Until then it can throw.
func (b *tab) await(expression string) {
	b.t.Helper()
	b.awaitOr(expression, b.text)
}

// awaitOr is await with a description of the page for the failure.
func (b *tab) awaitOr(expression string, more func() string) {
	b.t.Helper()
	var last error
	await(b.t, expression, func() bool {
		var done bool
		done, last = try[bool](b, "help.until(() => "+expression+")") // fails while another page loads
		return done
	}, func() string { return fmt.Sprintf("%v\n%s", last, more()) })
}

// text returns the visible text of the page.
func (b *tab) text() string { return eval[string](b, "document.body?.innerText ?? ''") }

// awaitText waits until a text is visible.
func (b *tab) awaitText(text string) {
	b.t.Helper()
	b.await("help.text().includes(" + js(text) + ")")
}

// awaitNoText waits until a text is no longer visible.
func (b *tab) awaitNoText(text string) {
	b.t.Helper()
	b.await("!help.text().includes(" + js(text) + ")")
}

// awaitMessage waits until the page has shown a message or a status, even if only for a moment.
func (b *tab) awaitMessage(text string) {
	b.t.Helper()
	b.await("help.messages.some(s => s.includes(" + js(text) + "))")
}

// js returns a value as a JavaScript literal.
func js(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// squeeze replaces each run of white space by one space.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// text returns the text of a value of the accessibility tree.
func text(v *accessibility.Value) (s string) {
	if v == nil || json.Unmarshal(v.Value, &s) != nil {
		return ""
	}
	return squeeze(s)
}

// target is the position of an element.
type target struct {
	Found bool // the element does not move and can be clicked
	Count int  // how many visible elements match
	X, Y  float64
	Under string // the element that covers it, if there is one
}

// find waits until exactly one element matches a CSS selector, does not move and can be clicked. It returns
// the center of the element.
func (b *tab) find(selector string) (x, y float64) {
	b.t.Helper()
	return b.seek("find", selector)
}

// seek is find with a function of window.help.
func (b *tab) seek(function, selector string) (x, y float64) {
	b.t.Helper()
	var at target
	var last error
	await(b.t, selector+" is there once and can be clicked", func() bool {
		at, last = try[target](b, "help."+function+"("+js(selector)+")")
		return at.Found
	}, func() string { return fmt.Sprintf("%+v, %v\n%s", at, last, b.text()) })
	return at.X, at.Y
}

// click clicks on the element that matches a CSS selector. If the element moves away before the click, the
// click is suppressed and repeated.
func (b *tab) click(selector string) {
	b.t.Helper()
	await(b.t, selector+" is clicked", func() bool {
		x, y := b.seek("aim", selector)
		b.press(x, y)
		b.release(x, y)
		hit, err := try[bool](b, "help.hit()")
		return hit || err != nil // an error means that the click led to another page
	}, b.text)
}

// clickAction clicks on the button of an action, such as kick.
func (b *tab) clickAction(action string) {
	b.t.Helper()
	b.click(fmt.Sprintf("[data-action=%q]", action))
}

// has reports whether an element that matches a CSS selector is visible.
func (b *tab) has(selector string) bool {
	b.t.Helper()
	return eval[bool](b, "help.has("+js(selector)+")")
}

// awaitGone waits until no element that matches a CSS selector is visible.
func (b *tab) awaitGone(selector string) {
	b.t.Helper()
	b.await("!help.has(" + js(selector) + ")")
}

// ready waits until a view has loaded its data.
func (b *tab) ready(view string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#main[data-view=%s][data-ready=true]")`, view))
}

// dialog waits until a dialog is open.
func (b *tab) dialog(name string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll("dialog[open]")].at(-1)?.dataset.dialog === %q`, name))
}

// confirm waits until a dialog is open, and confirms it.
func (b *tab) confirm(name string) {
	b.t.Helper()
	b.dialog(name)
	b.click("[data-do=ok]")
	b.awaitGone(fmt.Sprintf("dialog[data-dialog=%q]", name))
}

// hits waits until a dialog says how many jobs the action affects.
func (b *tab) hits(n string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`([...document.querySelectorAll("dialog[open] [data-hits]")].at(-1)?.innerText ?? "").includes(%q)`, n))
}

// press moves the mouse to a point and presses its button; release releases it.
func (b *tab) press(x, y float64) {
	b.t.Helper()
	send(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y})
	send(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
}

func (b *tab) release(x, y float64) {
	b.t.Helper()
	send(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
}

// keys types keys, one after the other.
func (b *tab) keys(keys string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(keys)); err != nil {
		b.t.Fatal(err)
	}
}

// fill clicks on a field and replaces its text.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	b.click(selector)
	eval[bool](b, "(document.activeElement.select?.(), true)")
	if value == "" {
		b.keys(kb.Backspace)
	} else {
		send(b, input.InsertText, input.InsertTextParams{Text: value})
	}
	b.await(fmt.Sprintf("[...document.querySelectorAll(%s)].at(-1).value === %s", js(selector), js(value)))
}

// field returns the selector of a field of a form or a dialog.
func field(name string) string { return fmt.Sprintf("[name=%q]", name) }

// choose chooses a value of a select element.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	b.find(selector)
	found := eval[bool](b, fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%q)].at(-1);
		e.focus();
		e.value = %q;
		e.dispatchEvent(new Event("input", { bubbles: true }));
		e.dispatchEvent(new Event("change", { bubbles: true }));
		return e.value === %q;
	})()`, selector, value, value))
	if !found {
		b.t.Fatalf("the list %s has no %q", selector, value)
	}
}

// column returns the texts of a column of the table. The column "row" has the ids of the rows.
func (b *tab) column(key string) []string {
	b.t.Helper()
	return eval[[]string](b, "help.column("+js(key)+")")
}

// awaitColumn waits until a column of the table has these texts.
func (b *tab) awaitColumn(key string, want ...string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("help.same(help.column(%s), %s)", js(key), js(want)), b.table)
}

// table returns the visible text of the table and of the page.
func (b *tab) table() string { return eval[string](b, "JSON.stringify(help.rows())") + "\n" + b.text() }

// awaitRows waits until the table has n rows, visible or not.
func (b *tab) awaitRows(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#main [role=grid]").ariaRowCount === "%d"`, n+1))
}

// awaitCell waits until a cell has a text.
func (b *tab) awaitCell(row, key, want string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("help.cell(%s, %s) === %s", js(row), js(key), js(want)), b.table)
}

// awaitCellLike waits until a cell has a text that matches a pattern.
func (b *tab) awaitCellLike(row, key, pattern string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("new RegExp(%s).test(help.cell(%s, %s))", js(pattern), js(row), js(key)), b.table)
}

// openRow opens the dialog of a row of the table.
func (b *tab) openRow(dialog, row string) {
	b.t.Helper()
	b.awaitGone("dialog")
	b.click(fmt.Sprintf(".row[data-id=%q] [data-column=name]", row))
	b.dialog(dialog)
}
