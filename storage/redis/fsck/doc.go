// Package fsck checks and repairs the data in Redis: it compares the records of jobs with the
// queues, both ways, and the counters with what is there.
//
// # Reading order
//
//   - fsck: Check, in its steps. checker and partition: what is known of a check under way.
//   - scan: the keys of a server, and which of them are checked together. members: jobs as
//     members of queues. named: what is known of schedules and batches. jobbatches: members of batches. ended: records of ended jobs. workers: several scripts under way
//     at the same time.
//   - counts: counters, lease sets and timers of a partition. bytes: the bytes of each tube.
//   - prefixes: the policies that all partitions have.
//   - alive: no instance may be running during a repair.
//   - scripts: the calls of the scripts, which are in lua/check.
//
// # Invariants
//
// No script keeps Redis busy for long, however large the namespace is. What takes several
// scripts is reported only if no instance has changed it meanwhile.
package fsck
