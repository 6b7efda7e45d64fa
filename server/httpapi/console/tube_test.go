//go:build chromium

package console_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// row returns the selector of the row of a job.
func row(id uint64) string { return fmt.Sprintf(`.row[data-id="%d"]`, id) }

// inState shows the jobs of a state.
func (b *tab) inState(state string) {
	b.t.Helper()
	b.click("#tab-" + state)
	b.await(fmt.Sprintf(`document.querySelector("#tab-%s").ariaSelected === "true"`, state))
}

// counts waits until the tab of a state shows the number of its jobs.
func (b *tab) counts(state string, n int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#tab-%s").innerText.replace(/\s+/g, " ").trim().toLowerCase() === "%s %d"`, state, state, n))
}

// TestTube: the jobs of a tube are listed by state, in pages.
func TestTube(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("work", manyJobs(450)...)
		s.put("work", terms{"delay": "1h", "key": "later"})
		s.apply(s.reserve("work", 3), "bury")
		s.reserve("work", 2)
		b := s.open(t, "#/tube/work")
		b.ready("tube")
		b.awaitText("Tubes / work")
		b.counts("ready", 445)
		b.counts("delayed", 1)
		b.awaitRows(200)
		b.click("#more")
		b.awaitRows(400)
		b.click("#more")
		b.awaitRows(445)
		b.awaitGone("#more")
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
	})
}

// openJob opens the dialog of a job in the table.
func (b *tab) openJob(id uint64) {
	b.t.Helper()
	b.click(row(id) + " [data-column=id]")
	b.dialog("job")
	b.awaitText(fmt.Sprintf("Job %d", id))
}

// closeJob closes the dialog of a job.
func (b *tab) closeJob() {
	b.t.Helper()
	b.click("[data-do=close]")
	b.awaitGone("dialog")
}

// TestBodyFormats: a body is shown in the most suitable format, and in any format that is chosen.
func TestBodyFormats(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ids := s.put("forms", terms{"body": "plain text"}, terms{"body": `{"to": {"name": "Ann", "list": [1, 2, {"deep": true}]}, "n": 12.5}`},
		terms{"body": `O:4:"User":2:{s:4:"name";s:4:"Zoë";s:2:"on";b:1;}`}, terms{"body": "aGVsbG8gd29ybGQ="}, terms{"body_base64": "AAH//kE="},
		terms{"body": strings.Repeat("[", 5000) + strings.Repeat("]", 5000)}) // too deep for a tree
	b := s.open(t, "#/tube/forms")
	for i, test := range []struct{ pressed, shown, form, then string }{
		{"text", "plain text", "hex", "70 6c 61 69 6e 20 74 65"},
		{"json", `"Ann"`, "text", `{"to": {"name": "Ann"`},
		{"php", "Zoë", "base64", "Tzo0OiJVc2VyIjoyOntzOjQ6Im5hbWUi"},
		{"text", "aGVsbG8gd29ybGQ=", "base64", "hello world"},
		{"hex", "00 01 ff fe 41", "base64", "AAH//kE="},
		{"text", "[[[[", "hex", "5b 5b 5b"},
	} {
		b.openJob(ids[i])
		b.await(fmt.Sprintf(`document.querySelector("dialog [aria-pressed=true][data-form=%s]")`, test.pressed))
		b.awaitText(test.shown)
		if test.pressed == "json" {
			b.await(`!document.querySelector("dialog .body").innerText.includes("deep")`) // it is folded
		}
		b.click("[data-form=" + test.form + "]")
		b.awaitText(test.then)
		b.click("[data-form=json]")
		b.click("[data-form=php]")
		b.closeJob()
	}
}

// TestPackedBody: what gzip or zlib has packed is shown, as much as a page can show of it.
func TestPackedBody(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	pack := func(w func(io.Writer) io.WriteCloser, text string) terms {
		var out bytes.Buffer
		packer := w(&out)
		if _, err := io.WriteString(packer, text); err != nil {
			t.Fatal(err)
		}
		if err := packer.Close(); err != nil {
			t.Fatal(err)
		}
		return terms{"body_base64": base64.StdEncoding.EncodeToString(out.Bytes())}
	}
	withGzip, withZlib := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	ids := s.put("packed", pack(withGzip, `{"to": "Ann"}`), pack(withZlib, "plain text"), pack(withGzip, strings.Repeat("bomb ", 4<<20)), terms{"body_base64": "H4sIAAAA"})
	b := s.open(t, "#/tube/packed")
	for i, shown := range []string{`"Ann"`, "plain text", "The first MiB", "cannot be unpacked"} {
		b.openJob(ids[i])
		b.await(`document.querySelector("dialog [aria-pressed=true][data-form=unpacked]")`)
		b.awaitText(shown)
		b.click("[data-form=hex]")
		b.awaitText("000000")
		b.closeJob()
	}
}

// TestEditAndRequeue: a job that has failed is put again with another body, and then deleted. A dead letter goes back to its tube.
func TestEditAndRequeue(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		parked := parkJobs(s, "mails", 1)[0]
		dead := s.put("lost", terms{"body": "with a key", "key": "k"})[0]
		b := s.open(t, "#/tube/mails")
		b.ignore("status of 404") // the job with a key was replaced already
		b.awaitRows(1)
		b.openJob(parked)
		b.clickAction("edit")
		b.ready("put")
		b.awaitText("is deleted when this one was put")
		b.fill(putField("body"), "mended")
		b.clickAction("put")
		b.awaitMessage("is deleted.")
		b.dialog("job")
		b.awaitText("mended")
		if got := s.tube("mails"); got.Ready != 1 || got.Buried != 0 {
			t.Errorf("tube %+v", got)
		}
		b.goTo(fmt.Sprint("#/job/", dead))
		b.dialog("job")
		b.clickAction("edit")
		b.ready("put")
		b.fill(putField("body"), "replaced")
		b.clickAction("put")
		b.awaitMessage("is deleted.")
		b.dialog("job")
		b.awaitText("replaced") // else the console goes to this job after the test has gone elsewhere
		if got := s.tube("lost"); got.Ready != 1 {
			t.Errorf("tube %+v", got)
		}
		s.put("source", terms{"retry": []string{"0s", "1s"}, "jitter": 7, "max": 1, "dead": "morgue", "body": "letter"})
		for _, action := range []string{"replay", "requeue"} { // what the job was put with applies again
			s.apply(s.reserve("source", 1), "release")
			s.awaitTube("morgue", 1, 0, 0, 0)
			letter := s.jobs("morgue", "ready")[0].ID
			if action == "replay" {
				s.call("POST", fmt.Sprintf("/v1/jobs/%d/replay", letter), nil, nil)
				continue
			}
			b.goTo(fmt.Sprint("#/job/", letter))
			b.dialog("job")
			b.awaitText("retry delays 0s, 1s · delays spread by 7 % · at most 1 delivery · dead-letter tube morgue")
			b.clickAction("edit")
			b.ready("put")
			b.clickAction("put")
			b.awaitMessage("is deleted.")
		}
		s.apply(s.reserve("source", 1), "release")
		s.awaitTube("morgue", 1, 0, 0, 0)
	})
}

// TestTubeFirstState: if a tube has no ready jobs, another state is shown first; a tube that does not exist can be opened.
func TestTubeFirstState(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.put("work", terms{"delay": "1h"})
	b := s.open(t, "#/tube/work")
	b.await(`document.querySelector("#tab-delayed").ariaSelected === "true"`)
	b.awaitRows(1)
	b.goTo("#/tube/none")
	b.awaitText("There is no such tube")
}

// TestNextJob: the dialog goes to the next and the previous job, and copies a job to the put form.
func TestNextJob(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ids := s.put("work", terms{"body": "first"}, terms{"body": "second", "priority": 2000, "key": "k-2", "max": 4}, terms{"body": "third", "priority": 3000})
	b := s.open(t, "#/tube/work")
	b.openJob(ids[0])
	b.awaitText("1 of 3")
	b.click("[aria-label='Next job']")
	b.awaitText("2 of 3")
	b.await(`document.querySelector("dialog .body").innerText.includes("second")`)
	b.keys(kb.ArrowRight)
	b.awaitText("3 of 3")
	b.keys(kb.ArrowLeft)
	b.awaitText("2 of 3")
	b.clickAction("copy")
	b.ready("put")
	b.fill(putField("key"), "k-3")
	b.clickAction("put")
	s.awaitTube("work", 4, 0, 0, 0)
	job := s.job(ids[2] + 1)
	if job.Body != "second" || job.Priority != 2000 || job.Max != 4 || job.Key != "k-3" {
		t.Errorf("the copy is %+v", job)
	}
}

// TestOneJob: the dialog of a job has the actions on selected jobs that its state allows.
func TestOneJob(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		id := s.put("work", manyJobs(2)...)[1]
		held := s.reserve("work", 1)[0].ID
		b := s.open(t, "#/tube/work")
		b.openJob(id)
		b.clickAction("reschedule")
		b.fill(field("in"), "soon")
		b.click("[data-do=ok]")
		b.awaitText("such as 90s")
		b.fill(field("in"), "2h")
		b.confirm("reschedule")
		s.awaitTube("work", 0, 1, 1, 0)

		b.reopenJob("delayed", id)
		b.clickAction("delete")
		b.dialog("delete")
		b.click("[data-do=cancel]")
		b.dialog("job")
		s.awaitTube("work", 0, 1, 1, 0)
		b.clickAction("delete")
		b.confirm("delete")
		s.awaitTube("work", 0, 1, 0, 0)
		b.reopenJob("reserved", held)
		b.wantActions("take-back")
	})
}

// reopenJob refreshes the jobs of a state and opens one of them.
func (b *tab) reopenJob(state string, id uint64) {
	b.t.Helper()
	b.awaitGone("dialog")
	b.inState(state)
	b.click("#read")
	b.openJob(id)
}

// selectJobs selects jobs in the table.
func (b *tab) selectJobs(ids ...uint64) {
	b.t.Helper()
	for _, id := range ids {
		b.click(row(id) + " input[type=checkbox]")
	}
}

// selectionBar is the selector of the buttons for selected jobs.
const selectionBar = "[role=group][aria-label='Selected jobs']"

// TestSelectedJobs: an action applies to all selected jobs.
func TestSelectedJobs(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		ids := s.put("work", manyJobs(22)...)
		b := s.open(t, "#/tube/work")
		b.selectJobs(ids[0], ids[1])
		b.awaitText("2 jobs selected")
		b.click(selectionBar + " [data-action=priority]")
		b.fill(field("priority"), "3")
		b.confirm("priority")
		b.awaitGone(selectionBar)
		await(t, "the priority is 3", func() bool { return s.job(ids[1]).Priority == 3 }, b.text)
		b.selectJobs(ids[2], ids[3])
		b.click(selectionBar + " [data-action=move]")
		b.hits("2")
		b.fill(field("to"), "elsewhere")
		b.confirm("move")
		s.awaitTube("elsewhere", 2, 0, 0, 0)
		b.awaitGone(selectionBar)
		b.selectJobs(ids[4], ids[5], ids[6])
		b.click(selectionBar + " [data-action=reschedule]")
		b.fill(field("in"), "10m")
		b.confirm("reschedule")
		s.awaitTube("work", 17, 0, 3, 0)
		b.awaitGone(selectionBar)
		b.selectJobs(ids[7], ids[8])
		b.click(selectionBar + " [data-action=bury]")
		b.hits("2")
		b.confirm("bury")
		s.awaitTube("work", 15, 0, 3, 2)
		b.awaitGone(selectionBar)
		b.selectJobs(ids[9], ids[10], ids[11])
		b.click(selectionBar + " [data-action=delete]")
		b.hits("3")
		b.confirm("delete")
		s.awaitTube("work", 12, 0, 3, 2)
		b.awaitGone(selectionBar)

		b.inState("buried")
		b.awaitRows(2)
		b.click("input[aria-label='Select all listed']")
		b.click(selectionBar + " [data-action=kick]")
		b.confirm("kick")
		s.awaitTube("work", 14, 0, 3, 0)
		b.awaitGone(selectionBar)

		b.inState("ready")
		b.awaitRows(14)
		b.click("input[aria-label='Select all listed']")
		s.reserve("work", 4) // these are skipped
		b.click(selectionBar + " [data-action=delete]")
		b.hits("14")
		b.confirm("delete")
		s.awaitTube("work", 0, 4, 3, 0)
		b.awaitMessage("Delete: 10 jobs.")
	})
}

// TestWholeTube: the actions on all jobs of a tube.
func TestWholeTube(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("work", manyJobs(30)...)
		s.put("work", terms{"delay": "1h"}, terms{"delay": "1h"})
		s.apply(s.reserve("work", 10), "bury")
		b := s.open(t, "#/tube/work")
		b.counts("buried", 10)
		b.clickAction("kick")
		b.fill(field("n"), "4")
		b.hits("4")
		b.confirm("kick")
		s.awaitTube("work", 24, 0, 2, 6)

		b.clickAction("move")
		b.dialog("move")
		b.choose(field("state"), "buried")
		b.fill(field("to"), "elsewhere")
		b.fill(field("n"), "5")
		b.hits("5")
		b.confirm("move")
		s.awaitTube("elsewhere", 0, 0, 0, 5)
		s.awaitTube("work", 24, 0, 2, 1)

		b.clickAction("flush")
		b.dialog("flush")
		b.choose(field("state"), "ready")
		b.hits("24")
		b.fill(field("sure"), "wrok")
		b.click("[data-do=ok]")
		b.awaitText("The name does not match.")
		s.awaitTube("work", 24, 0, 2, 1)
		b.fill(field("sure"), "work")
		b.confirm("flush")
		s.awaitTube("work", 0, 0, 2, 1)
	})
}

// TestPause: a tube is paused with a reason that all users see, and is resumed.
func TestPause(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("work", manyJobs(3)...)
		b := s.open(t, "#/tube/work")
		b.ready("tube")
		b.clickAction("pause")
		b.fill(field("for"), "10m")
		b.fill(field("reason"), "the printer is <b>broken</b>")
		b.confirm("pause")
		b.awaitText("paused for")
		b.awaitText("the printer is <b>broken</b>")
		if got := s.tube("work").Pause; got != 600 {
			t.Errorf("paused for %d s, want 600", got)
		}
		other := s.open(t, "#/tube/work")
		other.awaitText("the printer is <b>broken</b>")
		b.clickAction("pause")
		b.fill(field("for"), "0")
		b.confirm("pause")
		b.awaitNoText("paused for")
		if got := s.tube("work").Pause; got != 0 {
			t.Errorf("paused for %d s, want 0", got)
		}
	})
}

// TestPolicy sets and changes the policy of a tube. The groups are shown as soon as a policy or a job has one.
func TestPolicy(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("work", manyJobs(3)...)
		b := s.open(t, "#/tube/work")
		b.awaitRows(3)
		b.awaitGone("#tab-groups")
		b.clickAction("policy")
		for name, value := range map[string]string{
			"retry": "5s, 1m", "max": "7", "dead": "dead", "quota_jobs": "1000", "jitter": "0", "expire": "36h",
			"group_concurrency": "2", "group_rate": "100/m", "concurrency": "50", "rate": "10/s",
		} {
			b.fill(field(name), value)
		}
		for name, value := range map[string]string{"on_duplicate": "fail", "on_expire": "park", "group_order": "strict"} {
			b.choose(field(name), value)
		}
		b.confirm("policy")
		b.awaitPolicy("work", `{"concurrency":50,"dead":"dead","expire":"36h","group_concurrency":2,"group_order":"strict","group_rate":"100/m",`+
			`"jitter":0,"max":7,"on_duplicate":"fail","on_expire":"park","quota_jobs":1000,"rate":"10/s","retry":["5s","1m"]}`)
		for _, text := range []string{
			"delays spread by 0 %", "parked if not done within 36h",
			"at most 2 reserved jobs of each group · at most 100/m reserves of each group · strict order of groups · at most 50 reserved jobs · at most 10/s reserves",
		} {
			b.awaitText(text)
		}
		b.click("#tab-groups")
		b.awaitText("No job has a group, and nothing is set for a group.")
		s.put("work", inGroups("acme")...) // the page follows without a click
		b.awaitCell("acme", "ready", "1")
		b.clickAction("policy")
		for _, name := range []string{"max", "jitter", "expire", "group_concurrency", "group_rate", "concurrency", "rate"} {
			b.fill(field(name), "")
		}
		b.choose(field("on_expire"), "")
		b.choose(field("group_order"), "")
		b.confirm("policy")
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

// TestSearch: jobs are found by their bodies and keys, and the page says how many it examined.
func TestSearch(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		jobs := manyJobs(300)
		jobs[123]["body"] = "an invoice for <b>Needle</b> & sons"
		jobs[250]["key"] = "needle-7"
		ids := s.put("work", jobs...)
		b := s.open(t, "#/tube/work")
		b.counts("ready", 300)
		b.fill("#search", "needle")
		b.enter()
		b.awaitColumn("row", fmt.Sprint(ids[123]), fmt.Sprint(ids[250]))
		b.awaitText("300 jobs")
		if excerpt := b.column("key")[0]; !strings.Contains(excerpt, "<b>Needle</b> & sons") {
			t.Errorf("the excerpt is %q", excerpt)
		}
		if got := eval[string](b, `document.querySelector(".row mark").innerText`); !strings.EqualFold(got, "needle") {
			t.Errorf("%q is highlighted", got)
		}
		s.apply(s.reserve("work", 125), "bury")
		b.choose("#search-in", "all")
		b.awaitRows(2)
		b.awaitCell(fmt.Sprint(ids[123]), "state", "buried")
		b.fill("#search", "not there")
		b.enter()
		b.awaitText("Nothing was found.")
		b.fill("#search", "")
		b.enter()
		b.awaitRows(175)
	})
}

// TestHistory: a tube has charts of this hour, a day, a week and a quarter, and the page of the server those of all tubes. The browser stores
// which were shown last.
func TestHistory(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("work", manyJobs(7)...)
		s.put("other", manyJobs(2)...)
		b := s.open(t, "#/tube/work")
		b.await(`document.querySelector("figure[data-chart=jobs]")?.innerText.match(/ready\s+7/)`)
		b.await(`document.querySelector("figure[data-chart=rates] path")`)
		b.click("[data-range=day]")
		b.await(`document.querySelector("figure[data-chart=times] path")`)
		b.click("[data-range=quarter]")
		for try := `[data-range=week]`; !eval[bool](b, `/put\s+7/.test(document.querySelector("figure[data-chart=history]")?.innerText)`); {
			b.click(try) // it is written after some seconds, and the page reads it every ten
			b.click("[data-range=quarter]")
		}
		b.await(`document.querySelectorAll("figure[data-chart]").length === 2`)
		b.goTo("#/server")
		b.await(`/put\s+9/.test(document.querySelector("figure[data-chart=history]")?.innerText)`)
		b.await(`document.querySelector("[data-range=quarter]").ariaPressed === "true" && !document.querySelector("[data-range=hour]")`)
	})
}
