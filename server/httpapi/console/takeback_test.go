//go:build chromium

package console_test

import (
	"fmt"
	"testing"
	"time"
)

// TestTakeBack: a job is taken back in its dialog, and its worker has lost it.
func TestTakeBack(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.put("reminders", terms{"body": "remind Ann"})
		worker := s.named("worker-1", "reminders")
		held := worker.reserve()
		b := s.open(t, fmt.Sprintf("#/job/%d", held))
		b.dialog("job")
		b.awaitText("Held by worker-1")
		b.awaitNoText("undefined")
		b.clickAction("take-back")
		b.awaitText("Its worker loses it at once and can no longer finish it. It counts as a timeout: without a retry delay it is ready now.")
		b.screenshot("take-back")
		b.confirm("take-back")
		b.awaitMessage("Take back: 1 job.")
		worker.send("delete %d\r\n", held)
		worker.flush()
		worker.read("NOT_FOUND")
		b.goTo(fmt.Sprintf("?after#/job/%d", held))
		b.dialog("job")
		b.awaitText("taken back")
		s.named("worker-2", "reminders").reserve()
	})
}

// TestDisconnect: a connection is closed in its dialog, and its job is ready.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	connectWorkers(s)
	b := s.open(t, "#/workers")
	b.openRow("client", b.clientRow("worker-1"))
	b.screenshot("client-admin")
	b.clickAction("disconnect")
	b.confirm("disconnect")
	b.awaitMessage("worker-1 was disconnected.")
	b.awaitRows(1)
	b.clientRow("worker-2") // it waited for the job
	b.awaitText("1 with jobs")
}

// TestHungJob: the overview names a job that is touched for more than ten times its TTR, also if nothing else changes, and the list of workers
// marks who holds it.
func TestHungJob(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.put("reminders", terms{"body": "remind Ann", "ttr": "2s"})
	worker := s.named("worker-1", "reminders")
	held := worker.reserve()
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(200 * time.Millisecond) {
			fmt.Fprintf(worker.raw, "touch %d\r\n", held)
		}
	}()
	b := s.open(t, "")
	b.awaitText("The worker of a job probably hangs")
	b.screenshot("hung")
	b.phone()
	b.screenshot("hung-phone")
	b.desktop()
	b.goTo("?workers#/workers")
	b.awaitCell(b.clientRow("worker-1"), "waiting", "hangs")
	b.awaitText("The worker of a job probably hangs")
	b.screenshot("hung-workers")
	b.checkAccessible("hung-workers")
	b.fill("#filter", "hangs")
	b.awaitRows(1)
	b.openRow("client", b.clientRow("worker-1"))
	b.awaitText(fmt.Sprintf("Probably hangs %d for", held))
	b.closeJob()
	b.click("[data-column=waiting] a")
	b.dialog("job")
	b.find("[data-action=take-back]")
}
