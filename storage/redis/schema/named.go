package schema

import (
	"strconv"
	"time"

	"redstalk/tube"
)

// NamedKind is a kind of named records as it is in Redis: lua/named reads and writes it.
type NamedKind struct {
	Name    string // the keys with the names of the records begin so
	Records string // the key with the records

	// IsBroken returns whether the text of a record cannot be read.
	IsBroken func(name, record string) bool
}

var (
	Schedules  = &NamedKind{"schedule", "schedules", isBroken(ParseSchedule)}
	JobBatches = &NamedKind{"job-batch", "job-batches", isBroken(ParseJobBatch)}

	// NamedKinds are all kinds.
	NamedKinds = [tube.NumRecordKinds]*NamedKind{tube.Schedules: Schedules, tube.JobBatches: JobBatches}
)

func isBroken[T any](parse func(name, record string) (T, error)) func(name, record string) bool {
	return func(name, record string) bool {
		_, err := parse(name, record)
		return err != nil
	}
}

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
