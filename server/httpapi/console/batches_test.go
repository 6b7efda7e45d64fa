//go:build chromium

package console_test

import (
	"testing"
)

// batchInfo is a batch in the API.
type batchInfo struct {
	State   string
	Sealed  bool
	Pending uint64
	Gone    uint64
}

// putBatches puts three batches: thumbnails, with two members and a job after it; open, which is not sealed; and empty.
func putBatches(s *testServer) {
	s.t.Helper()
	member := terms{"tube": "images", "body": "resize"}
	s.call("POST", "/v1/batches", terms{"name": "thumbnails", "members": []terms{member, member}, "after": []terms{{"tube": "mails", "body": "done"}}}, nil)
	s.call("POST", "/v1/batches", terms{"name": "open", "members": []terms{member}, "seal": false}, nil)
	s.call("POST", "/v1/batches", terms{"name": "empty"}, nil)
}

// TestBatches: the page lists batches with their progress, shows their members and the jobs after them, seals and cancels.
func TestBatches(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		b := s.open(t, "#/batches")
		b.ready("batches")
		b.awaitText("There is no batch.")
		putBatches(s)
		b.click("#read")
		b.awaitRows(3)
		b.awaitCell("thumbnails", "state", "sealed")
		b.awaitCell("thumbnails", "pending", "2")
		b.awaitCell("thumbnails", "after", "1")
		b.awaitCell("open", "state", "open")
		b.awaitCell("empty", "state", "done")
		b.awaitText("3 batches: 0 with trouble.")
		b.aligned()
		b.fill("#filter", "HUMB")
		b.awaitColumn("name", "thumbnails")
		b.fill("#filter", "")
		b.click("[data-sort=pending]")
		b.awaitColumn("name", "thumbnails", "open", "empty")

		b.openRow("batch", "thumbnails")
		b.await("document.querySelectorAll('[data-jobs=\"Members that exist\"] tbody tr').length === 2")
		b.await("document.querySelectorAll('[data-jobs=\"Jobs after it\"] tbody tr').length === 1")
		b.awaitText("waits")
		b.clickAction("cancel")
		b.confirm("cancel")
		b.awaitMessage("2 members deleted")
		b.awaitCell("thumbnails", "state", "failed")
		b.awaitText("3 batches: 1 with trouble.")
		if got := get[batchInfo](s, "/v1/batches/thumbnails"); got.Pending != 0 || got.Gone != 2 {
			t.Errorf("the batch is %+v", got)
		}

		b.openRow("batch", "open")
		b.clickAction("seal")
		b.awaitCell("open", "state", "sealed")
		if got := get[batchInfo](s, "/v1/batches/open"); !got.Sealed || got.Pending != 1 {
			t.Errorf("the batch is %+v", got)
		}
	})
}
