//go:build chromium

package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// address returns the part of the address after #.
func (b *tab) address() string { return eval[string](b, "location.hash") }

func (b *tab) awaitAddress(want string) {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("location.hash === %s", js(want)), b.address)
}

func (b *tab) goBack() { eval[bool](b, "(history.back(), true)") }

func (b *tab) awaitClosed() {
	b.t.Helper()
	b.awaitGone("dialog[open]")
}

// TestJobAddress: a job has an address, which opens it in the page of its tube. The browser's button to go back
// closes the job.
func TestJobAddress(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ids := s.put("invoices", manyJobs(3)...)
	job := fmt.Sprintf("#/job/%d", ids[1])
	b := s.open(t, job)
	b.dialog("job")
	b.awaitText(fmt.Sprintf("Job %d", ids[1]))
	b.awaitRows(3)
	b.closeJob()
	b.awaitAddress("#/tube/invoices")
	b.openJob(ids[0])
	b.awaitAddress(fmt.Sprintf("#/job/%d", ids[0]))
	b.keys("j")
	b.awaitAddress(job)
	b.awaitText(fmt.Sprintf("Job %d", ids[1]))
	eval[bool](b, "(window.here = true)")
	b.goBack()
	b.awaitClosed()
	b.awaitAddress("#/tube/invoices")
	eval[bool](b, "(history.forward(), true)")
	b.dialog("job")
	b.closeJob()
	b.awaitAddress("#/tube/invoices")
	b.ignore("status of 404")
	b.goTo("#/job/99")
	b.awaitText("There is no such job")
	b.goTo("#/job/x%2Fy")
	b.awaitText("There is no such job")
}

// TestFind: a job of any tube is found by its id or its key.
func TestFind(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := s.open(t, "#/")
	b.ready("overview")
	b.ignore("status of 404")
	ids := s.put("invoices", terms{"key": "order-7"}, terms{"key": "order-8"})
	s.put("refunds", terms{"key": "order-7"})
	search := func(text string) {
		b.fill("#find input", text)
		b.keys("\r")
	}
	search(fmt.Sprint(ids[1]))
	b.awaitAddress(fmt.Sprintf("#/job/%d", ids[1]))
	b.dialog("job")
	b.awaitText("order-8")
	b.closeJob()
	search("order-8")
	b.awaitAddress(fmt.Sprintf("#/job/%d", ids[1]))
	b.dialog("job")
	b.closeJob()
	search("order-7")
	b.awaitText("of refunds")
	b.awaitText("of invoices")
	search("nothing")
	b.awaitText("No job has this id or key.")
}

// TestDeadLetters: dead letters are listed with the beginnings of their bodies, and go back where they came from.
func TestDeadLetters(t *testing.T) {
	onEach(t, func(t *testing.T, s *testServer) {
		s.put("invoices", terms{"max": 1, "dead": "morgue", "body": "one"}, terms{"max": 1, "dead": "morgue", "body": "two"}, terms{"max": 1, "body": "three"})
		s.apply(s.reserve("invoices", 3), "release")
		s.awaitTube("morgue", 2, 0, 0, 0)
		b := s.open(t, "#/parked")
		b.awaitRows(3)
		letters := s.jobs("morgue", "ready")
		b.awaitCell(fmt.Sprint(letters[0].ID), "parked", "from invoices")
		b.awaitText("one")
		for _, width := range []int64{390, 820, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				b.theme(scheme)
				if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 844)); err != nil {
					t.Fatal(err)
				}
				b.screenshot(fmt.Sprintf("letters-%d-%s-%s", width, scheme, engineOf(t)))
			}
		}
		b.openJob(letters[0].ID)
		b.screenshot("letter-" + engineOf(t))
		b.clickAction("replay")
		b.confirm("replay")
		s.awaitTube("morgue", 1, 0, 0, 0)
		s.awaitTube("invoices", 1, 0, 0, 1)
		b.awaitRows(2)
		b.clickAction("replay")
		b.hits("2")
		b.fill(field("rate"), "50")
		b.confirm("replay")
		b.awaitMessage("2 jobs replayed.")
		s.awaitTube("invoices", 3, 0, 0, 0)
	})
}
