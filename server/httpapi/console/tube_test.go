//go:build chromium

package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// row is the selector of the row of a job.
func row(id uint64) string { return fmt.Sprintf(`.row[data-id="%d"]`, id) }

// inState shows the jobs of a state.
func (b *tab) inState(state string) {
	b.t.Helper()
	b.click("#tab-" + state)
	b.await(fmt.Sprintf(`document.querySelector("#tab-%s").ariaSelected === "true"`, state))
}

// counts waits until the tab of a state says how many jobs are in it.
func (b *tab) counts(state string, n int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#tab-%s").innerText.replace(/\s+/g, " ").trim().toLowerCase() === "%s %d"`, state, state, n))
}

// TestTube: the jobs of a tube are listed by their states, a page at a time.
func TestTube(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		s.put("work", many(450)...)
		s.put("work", terms{"delay": "1h", "key": "later"})
		s.with(s.reserve("work", 3), "bury")
		s.reserve("work", 2)
		b := s.open(t, "#/tube/work")
		b.ready("tube")
		b.see("Tubes / work")
		b.counts("ready", 445)
		b.counts("delayed", 1)
		b.awaitRows(200)
		b.click("#more")
		b.awaitRows(400)
		b.click("#more")
		b.awaitRows(445)
		b.lacks("#more")
		b.inState("delayed")
		b.awaitRows(1)
		b.await(`help.column("key")[0].startsWith("later")`)
		b.inState("buried")
		b.awaitRows(3)
		b.inState("reserved")
		b.awaitRows(2)
		s.reserve("work", 1)
		b.counts("reserved", 3)
		b.click("#read")
		b.awaitRows(3)
		b.picture("tube-" + engineOf(t))
	})
}

// TestCharts: a tube has charts of what was in it, as soon as there are two points.
func TestCharts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("work", many(7)...)
	b := s.open(t, "#/tube/work")
	b.await(`document.querySelector("figure[data-chart=jobs]")?.innerText.match(/ready\s+7/)`)
	b.await(`document.querySelector("figure[data-chart=rates] path")`)
	b.picture("charts")
}

// TestTubeOfNothing: a tube that is not there can be looked at.
func TestTubeOfNothing(t *testing.T) {
	t.Parallel()
	b := serve(t).open(t, "#/tube/none")
	b.see("No job is ready")
}

// look opens the dialog of a job that the table has.
func (b *tab) look(id uint64) {
	b.t.Helper()
	b.click(row(id) + " [data-column=id]")
	b.dialog("job")
	b.see(fmt.Sprintf("Job %d", id))
}

// closeJob closes it.
func (b *tab) closeJob() {
	b.t.Helper()
	b.click("[data-do=close]")
	b.lacks("dialog")
}

// TestForms: a body is shown as what it is, and as whatever people want it to be.
func TestForms(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ids := s.put("forms", terms{"body": "plain text"}, terms{"body": `{"to": {"name": "Ann", "list": [1, 2, {"deep": true}]}, "n": 12.5}`},
		terms{"body": `O:4:"User":2:{s:4:"name";s:4:"Zoë";s:2:"on";b:1;}`}, terms{"body": "aGVsbG8gd29ybGQ="}, terms{"body_base64": "AAH//kE="})
	b := s.open(t, "#/tube/forms")
	for i, test := range []struct{ pressed, shown, form, then string }{
		{"text", "plain text", "hex", "70 6c 61 69 6e 20 74 65"},
		{"json", `"Ann"`, "text", `{"to": {"name": "Ann"`},
		{"php", "Zoë", "base64", "Tzo0OiJVc2VyIjoyOntzOjQ6Im5hbWUi"},
		{"text", "aGVsbG8gd29ybGQ=", "base64", "hello world"},
		{"hex", "00 01 ff fe 41", "base64", "AAH//kE="},
	} {
		b.look(ids[i])
		b.await(fmt.Sprintf(`document.querySelector("dialog [aria-pressed=true][data-form=%s]")`, test.pressed))
		b.see(test.shown)
		if test.pressed == "json" {
			b.await(`!document.querySelector("dialog .body").innerText.includes("deep")`) // it is folded
			b.picture("forms-json")
		}
		b.click("[data-form=" + test.form + "]")
		b.see(test.then)
		b.click("[data-form=json]")
		b.click("[data-form=php]")
		b.closeJob()
	}
}

// TestTubeFirstState: of a tube without ready jobs others are shown first.
func TestTubeFirstState(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("work", terms{"delay": "1h"})
	b := s.open(t, "#/tube/work")
	b.await(`document.querySelector("#tab-delayed").ariaSelected === "true"`)
	b.awaitRows(1)
}

// TestNextJob: whoever looks through jobs goes from one to the next, and takes one as the
// beginning of a new one.
func TestNextJob(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ids := s.put("work", terms{"body": "first"}, terms{"body": "second", "priority": 2000, "key": "k-2", "max": 4}, terms{"body": "third", "priority": 3000})
	b := s.open(t, "#/tube/work")
	b.look(ids[0])
	b.see("1 of 3")
	b.click("[aria-label='The next job']")
	b.see("2 of 3")
	b.await(`document.querySelector("dialog .body").innerText.includes("second")`)
	b.keys(kb.ArrowRight)
	b.see("3 of 3")
	b.keys(kb.ArrowLeft)
	b.see("2 of 3")
	b.act("copy")
	b.ready("put")
	b.fill(putField("key"), "k-3")
	b.act("put")
	s.awaitTube("work", 4, 0, 0, 0)
	job := s.job(ids[2] + 1)
	if job.Body != "second" || job.Priority != 2000 || job.Max != 4 || job.Key != "k-3" {
		t.Errorf("the copy is %+v", job)
	}
}

// TestOneJob: what can be done with a job that is looked at.
func TestOneJob(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		s.put("work", many(1)...)
		s.with(s.reserve("work", 1), "bury")
		id := s.jobs("work", "buried")[0].ID
		b := s.open(t, "#/tube/work")
		b.ready("tube")
		b.afresh("buried", id)
		b.act("kick")
		b.sure("kick")
		s.awaitTube("work", 1, 0, 0, 0)

		b.afresh("ready", id)
		b.act("priority")
		b.fill(field("priority"), "17")
		b.sure("priority")
		b.afresh("ready", id)
		if got := s.job(id).Priority; got != 17 {
			t.Errorf("the priority is %d", got)
		}

		b.act("reschedule")
		b.fill(field("in"), "soon")
		b.click("[data-do=ok]")
		b.see("such as 90s")
		b.fill(field("in"), "2h")
		b.sure("reschedule")
		s.awaitTube("work", 0, 0, 1, 0)

		b.afresh("delayed", id)
		b.act("bury")
		b.sure("bury")
		s.awaitTube("work", 0, 0, 0, 1)

		b.afresh("buried", id)
		b.act("delete")
		b.dialog("delete")
		b.click("[data-do=cancel]")
		b.dialog("job")
		s.awaitTube("work", 0, 0, 0, 1)
		b.act("delete")
		b.sure("delete")
		s.awaitTube("work", 0, 0, 0, 0)

		held := s.put("work", many(1)...)[0]
		s.reserve("work", 1)
		b.afresh("reserved", held)
		for _, action := range []string{"kick", "bury", "delete", "priority", "reschedule", "move"} {
			if b.has(fmt.Sprintf("dialog [data-action=%s]", action)) {
				t.Errorf("a job that a worker holds can be: %s", action)
			}
		}
	})
}

// afresh reads the jobs of a state anew and opens one of them.
func (b *tab) afresh(state string, id uint64) {
	b.t.Helper()
	b.lacks("dialog")
	b.inState(state)
	b.click("#read")
	b.look(id)
}

// mark marks jobs in the table.
func (b *tab) mark(ids ...uint64) {
	b.t.Helper()
	for _, id := range ids {
		b.click(row(id) + " input[type=checkbox]")
	}
}

// marked is where the buttons are for what was marked.
const marked = "[role=group][aria-label='With the marked jobs']"

// TestMarked: the same is done to several jobs that were marked.
func TestMarked(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		ids := s.put("work", many(20)...)
		b := s.open(t, "#/tube/work")
		b.mark(ids[0], ids[1])
		b.see("2 jobs marked")
		b.click(marked + " [data-action=priority]")
		b.fill(field("priority"), "3")
		b.sure("priority")
		b.lacks(marked)
		await(t, "the priority is 3", func() bool { return s.job(ids[1]).Priority == 3 }, b.text)
		b.mark(ids[2], ids[3], ids[4])
		b.click(marked + " [data-action=reschedule]")
		b.fill(field("in"), "10m")
		b.sure("reschedule")
		s.awaitTube("work", 17, 0, 3, 0)
		b.lacks(marked)
		b.mark(ids[5], ids[6])
		b.click(marked + " [data-action=bury]")
		b.hits("2")
		b.sure("bury")
		s.awaitTube("work", 15, 0, 3, 2)
		b.lacks(marked)
		b.mark(ids[7], ids[8], ids[9])
		b.click(marked + " [data-action=delete]")
		b.hits("3")
		b.sure("delete")
		s.awaitTube("work", 12, 0, 3, 2)
		b.lacks(marked)

		b.inState("buried")
		b.awaitRows(2)
		b.click("input[aria-label='Mark all that are listed']")
		b.click(marked + " [data-action=kick]")
		b.sure("kick")
		s.awaitTube("work", 14, 0, 3, 0)
		b.lacks(marked)

		b.inState("ready")
		b.awaitRows(14)
		b.click("input[aria-label='Mark all that are listed']")
		s.reserve("work", 4) // which cannot be had any more
		b.picture("marked-" + engineOf(t))
		b.click(marked + " [data-action=delete]")
		b.hits("14")
		b.sure("delete")
		s.awaitTube("work", 0, 4, 3, 0)
		b.told("10 jobs done.")
	})
}

// TestMoveMarked: jobs that were marked are moved to another tube.
func TestMoveMarked(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		ids := s.put("work", many(5)...)
		b := s.open(t, "#/tube/work")
		b.mark(ids[1], ids[3])
		b.click(marked + " [data-action=move]")
		b.hits("2")
		b.fill(field("to"), "elsewhere")
		b.sure("move")
		s.awaitTube("elsewhere", 2, 0, 0, 0)
		s.awaitTube("work", 3, 0, 0, 0)
	})
}

// TestWholeTube: what can be done with many jobs of a tube at once.
func TestWholeTube(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		s.put("work", many(30)...)
		s.put("work", terms{"delay": "1h"}, terms{"delay": "1h"})
		s.with(s.reserve("work", 10), "bury")
		b := s.open(t, "#/tube/work")
		b.counts("buried", 10)
		b.act("kick")
		b.fill(field("n"), "4")
		b.hits("4")
		b.sure("kick")
		s.awaitTube("work", 24, 0, 2, 6)

		b.act("move")
		b.dialog("move")
		b.choose(field("state"), "buried")
		b.fill(field("to"), "elsewhere")
		b.fill(field("n"), "5")
		b.hits("5")
		b.sure("move")
		s.awaitTube("elsewhere", 0, 0, 0, 5)
		s.awaitTube("work", 24, 0, 2, 1)

		b.act("flush")
		b.dialog("flush")
		b.choose(field("state"), "ready")
		b.hits("24")
		b.fill(field("sure"), "wrok")
		b.click("[data-do=ok]")
		b.see("The name is another one.")
		s.awaitTube("work", 24, 0, 2, 1)
		b.picture("flush-" + engineOf(t))
		b.fill(field("sure"), "work")
		b.sure("flush")
		s.awaitTube("work", 0, 0, 2, 1)
	})
}

// TestPause: a tube is paused for a while with a reason that all can read, and goes on.
func TestPause(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		s.put("work", many(3)...)
		b := s.open(t, "#/tube/work")
		b.ready("tube")
		b.act("pause")
		b.fill(field("for"), "10m")
		b.fill(field("reason"), "the printer is <b>broken</b>")
		b.sure("pause")
		b.see("paused for")
		b.see("the printer is <b>broken</b>")
		if got := s.tube("work").Pause; got != 600 {
			t.Errorf("paused for %d s, want 600", got)
		}
		other := s.open(t, "#/tube/work")
		other.see("the printer is <b>broken</b>")
		b.act("pause")
		b.fill(field("for"), "0")
		b.sure("pause")
		b.seeNot("paused for")
		if got := s.tube("work").Pause; got != 0 {
			t.Errorf("paused for %d s, want 0", got)
		}
	})
}

// TestPolicy: a tube gets rules, and others.
func TestPolicy(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		s.put("work", many(3)...)
		b := s.open(t, "#/tube/work")
		b.ready("tube")
		b.act("policy")
		for name, value := range map[string]string{"retry": "5s, 1m", "max": "7", "dead": "dead", "quota_jobs": "1000"} {
			b.fill(field(name), value)
		}
		b.choose(field("on_duplicate"), "fail")
		b.picture("policy-" + engineOf(t))
		b.sure("policy")
		b.awaitPolicy("work", `{"dead":"dead","max":7,"on_duplicate":"fail","quota_jobs":1000,"retry":["5s","1m"]}`)
		b.act("policy")
		b.fill(field("max"), "")
		b.sure("policy")
		b.awaitPolicy("work", `{"dead":"dead","on_duplicate":"fail","quota_jobs":1000,"retry":["5s","1m"]}`)
	})
}

// awaitPolicy waits until a tube has a policy: JSON with its keys in order.
func (b *tab) awaitPolicy(tube, want string) {
	b.t.Helper()
	await(b.t, "the policy is "+want, func() bool {
		var p map[string]any
		if b.s.try("GET", tubePath(tube)+"/policy", nil, &p) != nil {
			return false
		}
		text, _ := json.Marshal(p)
		return string(text) == want
	}, b.text)
}

// TestSearch: jobs are found by what is in them, and how far was looked is said.
func TestSearch(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		jobs := many(300)
		jobs[123]["body"] = "an invoice for <b>Needle</b> & sons"
		jobs[250]["key"] = "needle-7"
		ids := s.put("work", jobs...)
		b := s.open(t, "#/tube/work")
		b.counts("ready", 300)
		b.fill("#search", "needle")
		b.enter()
		b.awaitColumn("row", fmt.Sprint(ids[123]), fmt.Sprint(ids[250]))
		b.see("300 jobs")
		if excerpt := b.column("key")[0]; !strings.Contains(excerpt, "<b>Needle</b> & sons") {
			t.Errorf("the excerpt is %q", excerpt)
		}
		b.picture("search-" + engineOf(t))
		if got := eval[string](b, `document.querySelector(".row mark").innerText`); !strings.EqualFold(got, "needle") {
			t.Errorf("%q is marked", got)
		}
		s.with(s.reserve("work", 125), "bury")
		b.choose("#search-in", "all")
		b.awaitRows(2)
		b.awaitCell(fmt.Sprint(ids[123]), "state", "buried")
		b.fill("#search", "not there")
		b.enter()
		b.see("Nothing was found.")
		b.fill("#search", "")
		b.enter()
		b.awaitRows(175)
	})
}
