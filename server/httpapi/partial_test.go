package httpapi

import (
	"strings"
	"testing"

	"redstalk/storage"
	"redstalk/storage/embedded"
)

// failsBetweenParts is a store whose operations on many jobs fail after their first batch of jobs.
type failsBetweenParts struct{ storage.Store }

func (s failsBetweenParts) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		done := b.Done
		b.Done = func() {
			for i := range b.Ops {
				switch b.Ops[i].Kind {
				case storage.Kick, storage.Flush, storage.MoveJobs:
					b.Ops[i].Answer.Err = storage.ErrUnavailable
				}
			}
			done()
		}
	}
	s.Store.Do(batches...)
}

// TestFailsBetweenParts: the problem says how many jobs were processed before the failure.
func TestFailsBetweenParts(t *testing.T) {
	a := startOn(t, failsBetweenParts{embedded.NewMemory()}, Config{})
	for range 3 {
		a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"x","delay":"1h"}`)
	}
	for _, test := range []struct{ method, path, want string }{
		{"POST", "/v1/tubes/t/move?state=delayed&to=other&n=1", `"done":1`},
		{"POST", "/v1/tubes/t/kick?n=1", `"done":1`},
		{"DELETE", "/v1/tubes/t/jobs", `"done":2`},
	} {
		got := a.want(503, test.method, test.path, "").body
		if !strings.Contains(got, test.want) {
			t.Errorf("%s %s: %s", test.method, test.path, got)
		}
	}
	if got := a.want(503, "DELETE", "/v1/tubes/t/jobs", "").body; strings.Contains(got, `"done"`) {
		t.Errorf("nothing was done: %s", got)
	}
}
