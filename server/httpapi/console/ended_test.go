//go:build chromium

package console_test

import (
	"fmt"
	"testing"
)

// TestEnded: the page of a tube's ended jobs shows their records, filters them, and opens one; so does the page of a job that has ended.
func TestEnded(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		s.call("PUT", tubePath("mail")+"/policy", terms{"keep": "1h"}, nil)
		ids := s.put("mail", manyJobs(4)...)
		held := s.reserve("mail", 1)[0]
		s.call("DELETE", fmt.Sprintf("/v1/jobs/%d?lease=%s", held.ID, held.Lease), nil, nil)
		s.call("DELETE", fmt.Sprintf("/v1/jobs/%d", ids[2]), nil, nil)

		b := s.open(t, "#/tube/mail")
		b.ready("tube")
		b.click("[data-page=ended]")
		b.ready("ended")
		b.awaitRows(2)
		b.awaitCell(fmt.Sprint(ids[0]), "how", "done")
		b.awaitCell(fmt.Sprint(ids[2]), "how", "deleted")
		b.choose("#how", "deleted")
		b.awaitRows(1)
		b.choose("#how", "expired")
		b.awaitText("No record matches the filter.")

		b.ignore("status of 404") // the job itself is gone
		b.goTo("#/job/" + fmt.Sprint(ids[0]))
		b.awaitText("Total")
		b.awaitText("done")
	})
}
