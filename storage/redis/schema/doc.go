// Package schema is how the data of redstalk look in Redis, for all packages that read or write
// them: the engine, its scripts, and fsck. It makes no calls. lua/keys.md describes every key.
//
// # Reading order
//
//   - keys: the beginning of all keys, the ids of jobs in keys, and the partition of a tube.
//     namespace: which namespaces can be used.
//   - record: the record of a job. metadata, rules: what that of a job with tags has in addition.
//     states: the words for its state. policy: that of a tube.
//   - named: what the named records have in common. schedule and
//     jobbatch: the records of schedules and of batches.
//   - ended: the records of ended jobs.
//   - times: the histograms of a tube. heartbeats: when an instance is dead.
package schema
