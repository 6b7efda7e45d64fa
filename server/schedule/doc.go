// Package schedule runs the schedules of a store: it decides when their jobs are put, and which of
// the missed ones are.
//
// # Where to read
//
//   - times.go: the times of a schedule.
//   - examine.go: what is done when a schedule is due.
//   - runner.go: Service.Run, which does it.
//   - setback.go: what is done when the clock of the store is set back.
//   - service.go: the calls that set, change and list schedules.
//
// # No leader
//
// Every server on a store runs all of its schedules. Storage hands out a due record to one of them at
// a time, and accepts the next record only from a caller who has read the latest one, in the same
// step in which it puts the job. So a server that is slow, frozen or repeated changes nothing, and
// another one takes over when the claim of a dead one ends.
package schedule
