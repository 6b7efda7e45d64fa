package schema

import (
	"strconv"
	"time"

	"redstalk/tube"
)

// NamedKinds are how the keys about named records begin, by their kind. lua/named reads and writes them.
var NamedKinds = [tube.NumRecordKinds]string{tube.Schedules: "schedule", tube.JobBatches: "job-batch"}

// NeverDue is when a named record is due that is not.
const NeverDue = "-"

// DueText returns when a named record is due, in ms, rounded up: nothing is ever early.
func DueText(due tube.Instant) string {
	if due == tube.Never {
		return NeverDue
	}
	return strconv.FormatInt((int64(due)+int64(time.Millisecond)-1)/int64(time.Millisecond), 10)
}

// instantOf returns a time in ms since the epoch.
func instantOf[T int64 | uint64](ms T) tube.Instant {
	return tube.Instant(ms) * tube.Instant(time.Millisecond)
}
