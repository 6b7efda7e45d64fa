//go:build chromium

package console_test

import (
	"fmt"
	"testing"
)

// scheduleInfo is a schedule in the API.
type scheduleInfo struct {
	Tube, Cron, TZ, Overlap, Body, TTR string
	Max                                uint32
	Paused                             bool
	Put                                uint64
	LastID                             uint64 `json:"last_id"`
}

// setSchedules sets two schedules: nightly, and weekly, which is paused.
func setSchedules(s *testServer) {
	s.t.Helper()
	s.call("PUT", "/v1/schedules/nightly", terms{"tube": "reports", "cron": "30 2 * * *", "tz": "Asia/Kolkata", "body": "all", "max": 7}, nil)
	s.call("PUT", "/v1/schedules/weekly", terms{"tube": "reports", "every": "7d", "body": "sums"}, nil)
	s.call("POST", "/v1/schedules/weekly/pause", nil, nil)
}

// TestSchedules: the page lists schedules with their next times, and runs, pauses, edits, creates and deletes
// them.
func TestSchedules(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		b := s.open(t, "#/schedules")
		b.ready("schedules")
		b.awaitText("There is no schedule.")
		setSchedules(s)
		b.click("#read")
		b.awaitRows(2)
		b.awaitCell("nightly", "tz", "Asia/Kolkata")
		b.awaitCell("weekly", "next", "paused")
		b.awaitCellLike("nightly", "next", "^in ")
		b.awaitText("2 schedules: 1 paused.")
		b.aligned()

		b.openRow("schedule", "nightly")
		b.await("document.querySelectorAll('[data-times] tbody tr').length === 10")
		b.awaitText("02:30:00 +05:30")
		b.clickAction("run")
		b.awaitMessage("was put")
		id := get[scheduleInfo](s, "/v1/schedules/nightly").LastID
		b.awaitCell("nightly", "put", "1")
		b.awaitCell("nightly", "result", "put")
		b.followJob(id)
		b.changeSchedule(s)
		b.newSchedule(s)
	})
}

// followJob opens the job of the schedule nightly from its dialog, and goes back.
func (b *tab) followJob(id uint64) {
	b.t.Helper()
	b.openRow("schedule", "nightly")
	b.click(fmt.Sprintf("dialog a[href='#/job/%d']", id))
	b.awaitText("Schedule nightly")
	b.closeJob()
	b.goTo("#/schedules")
	b.ready("schedules")
}

// changeSchedule pauses, resumes and edits the schedule nightly.
func (b *tab) changeSchedule(s *testServer) {
	b.t.Helper()
	b.openRow("schedule", "nightly")
	b.clickAction("pause")
	b.awaitCell("nightly", "next", "paused")
	b.openRow("schedule", "nightly")
	b.clickAction("resume")
	b.awaitCellLike("nightly", "next", "^in ")

	b.openRow("schedule", "nightly")
	b.clickAction("edit")
	b.dialog("set")
	b.ignore("status of 422")
	b.fill(field("cron"), "61 2 * * *")
	b.awaitText("minute")
	b.click("[data-do=ok]")
	b.awaitText("cron: ")
	b.fill(field("cron"), "0 4 * * *")
	b.awaitText("04:00:00 +05:30")
	b.confirm("set")
	b.awaitCell("nightly", "times", "0 4 * * *")
	if got := get[scheduleInfo](s, "/v1/schedules/nightly"); got.Cron != "0 4 * * *" || got.TZ != "Asia/Kolkata" || got.Max != 7 || got.Body != "all" || got.TTR != "1m" || got.Put != 1 {
		b.t.Errorf("the schedule is %+v", got)
	}
}

// newSchedule creates a schedule, and deletes it.
func (b *tab) newSchedule(s *testServer) {
	b.t.Helper()
	b.awaitGone("dialog")
	b.clickAction("new")
	b.dialog("set")
	b.fill(field("name"), "a/b.c")
	b.fill(field("tube"), "new")
	b.fill(field("every"), "1h")
	b.choose(field("overlap"), "buffer-one")
	b.fill(field("body"), "hello")
	b.confirm("set")
	b.awaitRows(3)
	if got := get[scheduleInfo](s, "/v1/schedules/a%2Fb.c"); got.Tube != "new" || got.Overlap != "buffer-one" || got.Body != "hello" {
		b.t.Errorf("the schedule is %+v", got)
	}
	b.openRow("schedule", "a/b.c")
	b.clickAction("delete")
	b.confirm("delete")
	b.awaitRows(2)
}
