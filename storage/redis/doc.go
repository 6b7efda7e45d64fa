// Package redis is the engine that keeps the jobs in Redis: any number of
// redstalk instances serve the same jobs, and each of them may die.
//
// # What lives here
//
//   - lua/: the one script that carries out a batch of operations. It walks
//     tube's table of arrows and is the only code that changes keys. Its
//     opening comment (10_batch.lua) is the reference of the layout.
//   - partition: the goroutine that joins what all connections want into
//     batches, one script call at a time.
//   - encode and decode: operations to arguments, replies to answers.
//   - holdings and attendance: what the connections of this instance hold,
//     use and watch. Redis knows it too; here it saves asking.
//   - mail: how another instance tells this one that there is a job.
//
// # What does not
//
// Rules (package tube), waiting (package server), and any knowledge of keys
// outside of the script, but for the one that records the layout.
//
// # Invariants
//
// Everything that a batch changes is changed in one script call, so nobody
// sees half of it. Time is Redis's: due times are read off its clock and told
// to the caller as durations. All keys of a partition carry its number as hash
// tag, so that a partition lives on one node of a cluster, and an id tells
// its partition. Nothing here is needed to find a job again: an instance that
// is gone is noticed by its silence, and what it held is given back by any
// other.
package redis
