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
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until something holds.
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
	await(b.t, expression, func() bool {
		return eval[bool](b, "(() => { try { return !!("+expression+"); } catch { return false; } })()")
	}, b.text)
}

// text is what can be read in the page.
func (b *tab) text() string { return eval[string](b, "document.body?.innerText ?? ''") }

// see waits until a text can be read.
func (b *tab) see(text string) {
	b.t.Helper()
	await(b.t, fmt.Sprintf("%q is seen", text), func() bool { return strings.Contains(squeeze(b.text()), text) }, b.text)
}

// seeNot waits until a text cannot be read any more.
func (b *tab) seeNot(text string) {
	b.t.Helper()
	await(b.t, fmt.Sprintf("%q is not seen", text), func() bool { return !strings.Contains(squeeze(b.text()), text) }, b.text)
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
	Count int // of the elements that fit and are seen
	X, Y  float64
	Under string // what lies upon it, if something does
}

// locate is a function of JavaScript that returns the target of a CSS selector. While a dialog
// is open, only what is in it counts.
const locate = `(selector => {
	const top = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
	const found = [...top.querySelectorAll(selector)].filter(e => e.checkVisibility());
	if (found.length !== 1) return { count: found.length };
	const e = found[0];
	e.scrollIntoView({ block: "nearest", inline: "nearest" });
	const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
	const hit = document.elementFromPoint(x, y);
	return { count: 1, x, y, under: hit && (e.contains(hit) || hit.contains(e)) ? "" : hit?.outerHTML.slice(0, 200) ?? "outside of the window" };
})`

// stands is how many looks one after the other must find an element in the same place: what
// comes above it while a page is being filled moves it away from under a mouse.
const stands = 4

// find waits for the one element that fits a CSS selector, stands still and could be hit by a
// mouse, and returns where its middle is.
func (b *tab) find(selector string) (x, y float64) {
	b.t.Helper()
	var at target
	same := 0
	await(b.t, selector+" is there once, to be clicked", func() bool {
		was := at
		if at = eval[target](b, fmt.Sprintf("%s(%q)", locate, selector)); at == was {
			same++
		} else {
			same = 1
		}
		return at.Count == 1 && at.Under == "" && same >= stands
	}, func() string { return fmt.Sprintf("%+v\n%s", at, b.text()) })
	return at.X, at.Y
}

// click clicks on the element that fits a CSS selector.
func (b *tab) click(selector string) {
	b.t.Helper()
	x, y := b.find(selector)
	b.press(x, y)
	b.release(x, y)
}

// act clicks on the button of an action, such as kick.
func (b *tab) act(action string) {
	b.t.Helper()
	b.click(fmt.Sprintf("[data-action=%q]", action))
}

// has tells whether something that fits a CSS selector is seen.
func (b *tab) has(selector string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.checkVisibility())", selector))
}

// lacks waits until nothing that fits a CSS selector is seen.
func (b *tab) lacks(selector string) {
	b.t.Helper()
	await(b.t, selector+" is gone", func() bool { return !b.has(selector) }, b.text)
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
		return
	}
	send(b, input.InsertText, input.InsertTextParams{Text: value})
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

// rows are the texts of the rows of a table that are there, by the keys of their columns.
func (b *tab) rows() (rows []map[string]string) {
	b.t.Helper()
	return eval[[]map[string]string](b, `[...document.querySelectorAll(".row[data-id]")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(r =>
		Object.fromEntries([["row", r.dataset.id], ...[...r.querySelectorAll("[data-column]")].map(c => [c.dataset.column, c.innerText.replace(/\s+/g, " ").trim()])]))`)
}

// column returns a column of the table; row is what each row is of.
func (b *tab) column(key string) (values []string) {
	b.t.Helper()
	for _, row := range b.rows() {
		values = append(values, row[key])
	}
	return values
}

// awaitColumn waits until a column of the table has these values.
func (b *tab) awaitColumn(key string, want ...string) {
	b.t.Helper()
	var got []string
	await(b.t, fmt.Sprintf("the column %s is %q", key, want), func() bool {
		got = b.column(key)
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, func() string { return fmt.Sprintf("%q", got) })
}

// awaitRows waits until the table has so many rows, seen or not.
func (b *tab) awaitRows(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#main [role=grid]").ariaRowCount === "%d"`, n+1))
}

// awaitCell waits until a row has a text in a column.
func (b *tab) awaitCell(row, key, want string) {
	b.t.Helper()
	got := ""
	await(b.t, fmt.Sprintf("%s of %s is %q", key, row, want), func() bool {
		for _, r := range b.rows() {
			if r["row"] == row {
				got = r[key]
			}
		}
		return got == want
	}, func() string { return fmt.Sprintf("%q", got) })
}
