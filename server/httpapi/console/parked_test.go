//go:build chromium

package console_test

import (
	"fmt"
	"testing"
)

// parkJobs puts jobs that can be delivered only once, and has them parked.
func parkJobs(s *testServer, tube string, n int) []uint64 {
	s.t.Helper()
	jobs := manyJobs(n)
	for _, job := range jobs {
		job["max"] = 1
	}
	ids := s.put(tube, jobs...)
	s.apply(s.reserve(tube, n), "release")
	s.awaitTube(tube, 0, 0, 0, uint64(n))
	return ids
}

// TestParked: the page shows the parked jobs of all tubes with their reasons, and replays them at a rate.
func TestParked(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		b := s.open(t, "#/parked")
		b.ready("parked")
		b.awaitText("Nothing is parked.")
		s.put("refunds", manyJobs(1)...)
		s.apply(s.reserve("refunds", 1), "bury") // buried by a worker, so not parked
		invoices := parkJobs(s, "invoices", 4)
		s.put("emails", terms{"retry": []string{"1s"}})
		s.apply(s.reserve("emails", 1), "release")
		s.apply(s.reserve("emails", 1), "release")
		b.click("#read")
		b.awaitRows(5)
		b.awaitCell(fmt.Sprint(invoices[0]), "parked", "deliveries")
		b.awaitCell(fmt.Sprint(s.jobs("emails", "buried")[0].ID), "parked", "retries")
		b.awaitCell(fmt.Sprint(invoices[3]), "tube", "invoices")

		b.selectJobs(invoices[0], invoices[2])
		b.clickAction("replay")
		b.hits("2")
		b.fill(field("rate"), "0")
		b.click("[data-do=ok]")
		b.dialog("replay")
		s.awaitTube("invoices", 0, 0, 0, 4)
		b.fill(field("rate"), "1")
		b.confirm("replay")
		b.awaitMessage("Replayed 1 of 2.")
		b.awaitMessage("2 jobs replayed.")
		s.awaitTube("invoices", 2, 0, 0, 2)
		if got := s.job(invoices[0]); got.Parked != "" || got.Deliveries != 0 {
			t.Errorf("a job that was replayed is %+v", got)
		}
	})
}

// TestParkedOfOne: the parked jobs of one tube can be filtered, opened and deleted.
func TestParkedOfOne(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	invoices := parkJobs(s, "invoices", 3)
	parkJobs(s, "refunds", 2)
	b := s.open(t, "#/parked")
	b.awaitRows(5)
	b.click("[data-tube=invoices]")
	b.awaitRows(3)
	b.openJob(invoices[1])
	b.awaitText("parked: deliveries")
	b.closeJob()
	b.selectJobs(invoices[0], invoices[1])
	b.clickAction("delete")
	b.hits("2")
	b.confirm("delete")
	s.awaitTube("invoices", 0, 0, 0, 1)
	s.awaitTube("refunds", 0, 0, 0, 2)
	b.awaitRows(1)
	b.click("[data-tube='']")
	b.awaitRows(3)
}

// failFor puts jobs that become dead letters, with a reason.
func (s *testServer) failFor(tube, dead, reason string, n int) {
	s.t.Helper()
	jobs := manyJobs(n)
	for _, job := range jobs {
		job["max"], job["dead"] = 1, dead
	}
	s.put(tube, jobs...)
	for _, job := range s.reserve(tube, n) {
		s.call("POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s&reason=%s", job.ID, job.Lease, reason), nil, nil)
	}
}

// TestReplayOneReason: of the dead letters of a tube, all with one reason are replayed, more than are listed, and no others.
func TestReplayOneReason(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.failFor("bills", "unpaid", "card_declined", 333)
		s.failFor("bills", "unpaid", "timeout", 120)
		s.failFor("mails", "late", "card_declined", 4)
		b := s.open(t, "#/parked")
		b.ready("parked")
		b.awaitText("found 457.")
		b.awaitText("card_declined 337")
		b.awaitText("timeout 120")
		b.click("[data-tube=unpaid]")
		b.awaitText("card_declined 333")
		b.click("[data-reason=card_declined]")
		b.await(`document.querySelector("[data-action=replay]").textContent === "Replay all 333 jobs"`)
		b.await(`help.rows().length > 0 && help.rows().every(r => r.parked.includes("card_declined"))`)
		b.screenshot("parked-reason")
		b.phone()
		b.await(`help.rows().length > 0`)
		b.screenshot("parked-reason-phone")
		b.desktop()
		b.click("input[aria-label='Select all listed']")
		b.clickAction("every")
		b.awaitText("All 333 jobs that match are selected.")
		b.clickAction("replay")
		b.awaitText("Filter: reason “card_declined”, tube unpaid. Parked jobs")
		b.hits("333")
		b.fill(field("rate"), "1000")
		b.confirm("replay")
		b.awaitMessage("333 jobs replayed.")
		s.awaitTube("bills", 333, 0, 0, 0)
		s.awaitTube("unpaid", 120, 0, 0, 0)
		s.awaitTube("late", 4, 0, 0, 0)
		b.click("[data-reason='']")
		b.awaitText("found 124.")
		b.fill("#filter", "nothing has this")
		b.enter()
		b.awaitText("No job matches the filter.")
		b.goTo("#/parked/late")
		b.awaitText("found 4.")
		b.awaitRows(4)
	})
}

// TestSelectRange: with the shift key all jobs between two are selected.
func TestSelectRange(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ids := parkJobs(s, "invoices", 9)
	b := s.open(t, "#/parked")
	b.awaitRows(9)
	b.selectJobs(ids[2])
	eval[bool](b, fmt.Sprintf(`document.querySelector(".rows .row[data-id='%d'] input").dispatchEvent(new MouseEvent("click", { shiftKey: true, bubbles: true, cancelable: true }))`, ids[6]))
	b.await(`document.querySelector("[data-action=replay]").textContent === "Replay 5 jobs"`)
	b.clickAction("delete")
	b.hits("5")
	b.confirm("delete")
	s.awaitTube("invoices", 0, 0, 0, 4)
	b.awaitRows(4)
}

// TestDeleteAllThatMatch: all jobs that match are deleted, also those that are not listed.
func TestDeleteAllThatMatch(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.failFor("bills", "unpaid", "card_declined", 500)
	s.failFor("bills", "unpaid", "timeout", 5)
	b := s.open(t, "#/parked/unpaid")
	b.awaitText("found 505.")
	b.click("[data-reason=card_declined]")
	b.await(`document.querySelector("[data-action=replay]").textContent === "Replay all 500 jobs"`)
	b.click("input[aria-label='Select all listed']")
	b.clickAction("every")
	b.clickAction("delete")
	b.hits("all 500 jobs")
	b.confirm("delete")
	b.awaitMessage("500 jobs deleted.")
	s.awaitTube("unpaid", 5, 0, 0, 0)
}

// TestReplayStopped: during a replay the jobs that are left are counted, and it can be stopped.
func TestReplayStopped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const n = 150 // the replay takes as many seconds, which is longer than any click takes
	parkJobs(s, "invoices", n)
	b := s.open(t, "#/parked")
	b.awaitRows(n)
	b.clickAction("replay")
	b.hits(fmt.Sprint(n))
	b.fill(field("rate"), "1")
	b.confirm("replay")
	b.awaitMessage(fmt.Sprintf("Replayed 1 of %d.", n))
	b.await(fmt.Sprintf(`help.rows().length > 0 && Number(/found (\d+)/.exec(help.text())[1]) < %d && document.querySelector("[data-action=replay]").textContent === "Stop"`, n))
	b.clickAction("replay")
	b.awaitMessage("replayed.")
	if ready := s.tube("invoices").Ready; ready == 0 || ready == n {
		t.Errorf("%d jobs were replayed", ready)
	}
}

// TestServer: the page shows the instance and its store, and drains the instance.
func TestServer(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		putShopJobs(s)
		b := s.open(t, "#/server")
		b.ready("server")
		b.awaitText(fmt.Sprint(s.Pid()))
		for _, card := range []string{"instance", "store", "engine"} {
			b.find(fmt.Sprintf("section[data-card=%s]", card))
		}
		b.clickAction("drain")
		b.confirm("drain")
		b.awaitText("no, draining")
		s.awaitDraining(true)
		b.clickAction("drain")
		s.awaitDraining(false)
		b.awaitNoText("no, draining")
	})
}

func (s *testServer) awaitDraining(want bool) {
	s.t.Helper()
	await(s.t, fmt.Sprintf("draining is %v", want), func() bool {
		var info struct{ Draining bool }
		s.call("GET", "/v1/server", nil, &info)
		return info.Draining == want
	}, func() string { return "" })
}

// TestCluster: the page shows all instances on a Redis, and the Redis nodes.
func TestCluster(t *testing.T) {
	t.Parallel()
	store := engines["redis"](t)
	a := startServer(t, "--store", store)
	other := startServer(t, "--store", store)
	b := a.open(t, "#/server")
	instances, nodes := "section[data-card=instances]", "section[data-card=nodes]"
	b.await(fmt.Sprintf(`document.querySelectorAll("%s tbody tr").length === 2`, instances))
	b.awaitText("Instances: 2 alive")
	b.await(fmt.Sprintf(`document.querySelector("%s").innerText.includes("master")`, nodes))
	other.Kill()
	b.await(fmt.Sprintf(`!document.querySelector("%s").innerText.includes("2 alive")`, instances))
}
