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

// This file has what tests do in a tab. Elements are found by attributes that are there for
// that: data-action of buttons, data-dialog of questions, names of fields. They are used as
// people use them, by mouse where they are seen, and by keyboard; so one that something lies
// upon makes a test fail.

// send sends a command of the browser's protocol.
func send[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return answer
}

// eval returns what an expression of JavaScript comes to in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := try[T](b, expression)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// try is eval for what may fail.
func try[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		err = fmt.Errorf("%s: %w", expression, err)
	}
	return value, err
}

// await waits until something holds that only a test can see.
func await(t *testing.T, what string, holds func() bool, more func() string) {
	t.Helper()
	for limit := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: this did not come about; there is\n%s", what, more())
		}
	}
}

// await waits until an expression of JavaScript is true, which may fail until then.
func (b *tab) await(expression string) {
	b.t.Helper()
	b.awaitOr(expression, b.text)
}

// awaitOr is await that says more if it fails.
func (b *tab) awaitOr(expression string, more func() string) {
	b.t.Helper()
	var last error
	await(b.t, expression, func() bool {
		var done bool
		done, last = try[bool](b, "help.until(() => "+expression+")") // fails while another page comes
		return done
	}, func() string { return fmt.Sprintf("%v\n%s", last, more()) })
}

// text is what can be read in the page.
func (b *tab) text() string { return eval[string](b, "document.body?.innerText ?? ''") }

// see waits until a text can be read.
func (b *tab) see(text string) {
	b.t.Helper()
	b.await("help.text().includes(" + js(text) + ")")
}

// seeNot waits until a text cannot be read any more.
func (b *tab) seeNot(text string) {
	b.t.Helper()
	b.await("!help.text().includes(" + js(text) + ")")
}

// told waits until the page has told of something, be it for how short a time.
func (b *tab) told(text string) {
	b.t.Helper()
	b.await("help.said.some(s => s.includes(" + js(text) + "))")
}

// js is a value as JavaScript writes it.
func js(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// squeeze has one space wherever there are several, or ends of lines.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// text is that of a value of the accessibility tree.
func text(v *accessibility.Value) (s string) {
	if v == nil || json.Unmarshal(v.Value, &s) != nil {
		return ""
	}
	return squeeze(s)
}

// target is where an element is that is looked for.
type target struct {
	Found bool // it stands still, and could be hit
	Count int  // of the elements that fit and are seen
	X, Y  float64
	Under string // what lies upon it, if something does
}

// find waits for the one element that fits a CSS selector, stands still and could be hit by a
// mouse, and returns where its middle is.
func (b *tab) find(selector string) (x, y float64) {
	b.t.Helper()
	return b.seek("find", selector)
}

// seek is find, by a function of the page's help.
func (b *tab) seek(function, selector string) (x, y float64) {
	b.t.Helper()
	var at target
	var last error
	await(b.t, selector+" is there once, to be clicked", func() bool {
		at, last = try[target](b, "help."+function+"("+js(selector)+")")
		return at.Found
	}, func() string { return fmt.Sprintf("%+v, %v\n%s", at, last, b.text()) })
	return at.X, at.Y
}

// click clicks on the element that fits a CSS selector. If it has moved away from under the mouse,
// nothing feels the click, and there is another one.
func (b *tab) click(selector string) {
	b.t.Helper()
	await(b.t, selector+" is clicked", func() bool {
		x, y := b.seek("aim", selector)
		b.press(x, y)
		b.release(x, y)
		hit, err := try[bool](b, "help.hit()")
		return hit || err != nil // then it led to another page
	}, b.text)
}

// act clicks on the button of an action, such as kick.
func (b *tab) act(action string) {
	b.t.Helper()
	b.click(fmt.Sprintf("[data-action=%q]", action))
}

// has tells whether something that fits a CSS selector is seen.
func (b *tab) has(selector string) bool {
	b.t.Helper()
	return eval[bool](b, "help.has("+js(selector)+")")
}

// lacks waits until nothing that fits a CSS selector is seen.
func (b *tab) lacks(selector string) {
	b.t.Helper()
	b.await("!help.has(" + js(selector) + ")")
}

// ready waits until a view has its data.
func (b *tab) ready(view string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#main[data-view=%s][data-ready=true]")`, view))
}

// dialog waits until a question is asked.
func (b *tab) dialog(name string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll("dialog[open]")].at(-1)?.dataset.dialog === %q`, name))
}

// sure waits until a question is asked, and says yes to it.
func (b *tab) sure(name string) {
	b.t.Helper()
	b.dialog(name)
	b.click("[data-do=ok]")
	b.lacks(fmt.Sprintf("dialog[data-dialog=%q]", name))
}

// hits waits until a question says how many jobs it will hit.
func (b *tab) hits(n string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`([...document.querySelectorAll("dialog[open] [data-hits]")].at(-1)?.innerText ?? "").includes(%q)`, n))
}

// press and release are what a mouse does.
func (b *tab) press(x, y float64) {
	b.t.Helper()
	send(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y})
	send(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
}

func (b *tab) release(x, y float64) {
	b.t.Helper()
	send(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
}

// keys presses keys, one after the other.
func (b *tab) keys(keys string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(keys)); err != nil {
		b.t.Fatal(err)
	}
}

// fill clicks on a field and types over what is in it.
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

// field is the selector of a field of a form or a question.
func field(name string) string { return fmt.Sprintf("[name=%q]", name) }

// choose chooses a value of a list.
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

// column returns a column of the table; row is what each row is of.
func (b *tab) column(key string) []string {
	b.t.Helper()
	return eval[[]string](b, "help.column("+js(key)+")")
}

// awaitColumn waits until a column of the table has these values.
func (b *tab) awaitColumn(key string, want ...string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("help.same(help.column(%s), %s)", js(key), js(want)), b.table)
}

// table is all that can be read in the table, and around it.
func (b *tab) table() string { return eval[string](b, "JSON.stringify(help.rows())") + "\n" + b.text() }

// awaitRows waits until the table has so many rows, seen or not.
func (b *tab) awaitRows(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#main [role=grid]").ariaRowCount === "%d"`, n+1))
}

// awaitCell waits until a row has a text in a column.
func (b *tab) awaitCell(row, key, want string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("help.cell(%s, %s) === %s", js(row), js(key), js(want)), b.table)
}
