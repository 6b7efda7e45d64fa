package differ

import (
	"slices"
	"strings"
)

// alikeBeyond makes equal on two pages what servers with extensions may report in different ways.
func (e *episode) alikeBeyond(a *sentCommand, want, got *page) {
	switch a.verb {
	case "stats":
		own := func(l pageLine) bool { return strings.HasPrefix(l.key, "redstalk-") }
		want.lines = slices.DeleteFunc(want.lines, own)
		got.lines = slices.DeleteFunc(got.lines, own)
	case "stats-job":
		if e.sameJob(want.value("from-id"), got.value("from-id")) {
			got.set("from-id", want.value("from-id"))
		}
		if j := e.jobs[e.byLabelOfJudge(want.value("id"))]; j != nil && j.at && within(want.value("delay"), got.value("delay"), 1+e.stalled) {
			got.set("delay", want.value("delay"))
		}
	}
}
