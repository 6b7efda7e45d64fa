// Package jobbatch finds out when batches have ended, and lets their after-jobs run.
//
// # Where to read
//
//   - decide.go: what is known of a batch from the records of all parts of the store.
//   - runner.go: Service.Run, which examines batches that are due and tells the parts the verdict.
//   - service.go: the calls that seal, cancel and list batches.
//
// # No leader
//
// Every server on a store does this for all batches. Storage counts the members and keeps the after-jobs,
// in the same step that changes a job. A verdict counts in a part of the store only if no member has come
// since its record was read, and an after-job that runs is held no more: so it runs once, however many
// servers say so and however often.
package jobbatch
