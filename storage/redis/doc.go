// Package redis is the engine that keeps the jobs in Redis: any number of
// redstalk instances serve the same jobs, and each of them may die.
//
// # What lives here
//
//   - lua/: the script that carries out a batch of operations (batch.lua). It
//     walks tube's table of arrows, and is the only code that changes keys, apart
//     from the checks of fsck (check/). keys.md describes the keys.
//   - script and luadata: how the scripts are put together, and what Go and Lua
//     both know, which is written once, in Go.
//   - store: the storage.Store. route, search and place: which partitions a batch
//     concerns, in what order it goes through them, and takes from tubes of several.
//   - partition: joins what all connections want into calls of the script, one at a
//     time. unit is what it is handed over, inbox where units wait and who makes the
//     calls, pipeline in what order that is done, call a call.
//   - encode, encodeops and encodeupkeep: how operations become arguments; reply and
//     decode: how what is returned becomes answers; record and keys: the record of a
//     job, and its key.
//   - facts: what the record of a job with tags has besides; tagged: the operations about
//     such jobs, and about policies (policy) and leases; luafacts: what Lua knows of them;
//     deadletter: how an exhausted job gets into another partition.
//   - many and moving: flushes, lists, and moves to another tube, in parts; pace: how large
//     these and other steps are.
//   - staged and fetch: how the records of large jobs go past the script.
//   - send: how a call is sent and its answer received; socket, resp and outgoing: by
//     which connection, and in which bytes; conn and direct: with which deadlines, and
//     how the answer is waited for. address and link: what a URL says, and on which
//     server a partition is, be it alone, the primary of sentinels, or a node of a
//     cluster.
//   - recover, abandon and errors: what is done when a call fails, and what each answer of Redis
//     means; departure: that connections are given up. registration: how
//     Redis gets to know an instance; rollback: that ids go on after Redis has gone
//     back in time; stale: that nobody gets a job from an instance that has been
//     declared dead.
//   - upkeep: heartbeats, and what is due, by partition. instance, heartbeat and
//     clock: what a partition has to know for that. pulse: heartbeats beside a call
//     that takes long.
//   - holdings and attendance: what the connections of this instance hold,
//     use and watch; bodycache: bodies of jobs that it has put.
//   - notifications: how another instance tells this one that there is a job.
//   - guard, namespace, layout and alive: what is checked before anything is touched; fitness:
//     what a server allows, which is looked at again when it may be another one;
//     check and check_counts: what is compared when somebody asks for it (redstalkd
//     fsck), in steps; discreet: no password is told.
//
// # What does not
//
// Rules (package tube), waiting (package server), and any knowledge of keys
// outside of the scripts, but for the one that records the layout and the kinds
// that check looks for.
//
// # Invariants
//
// Nothing that one partition does waits for another: each has its own calls by its own
// connection, and its own heartbeats under a name of its own; it fails by itself. Only a batch that
// concerns several goes through them one after the other.
//
// Everything that a batch changes is changed in one script call, so nobody
// sees half of it; and it is changed once, however often the batch is sent. What is
// staged before a call is seen by nobody, and expires if no call takes it over.
// Time is Redis's: due times are read off its clock and told to the caller as
// durations. All keys of a partition carry its number as hash tag, so that a
// partition lives on one node of a cluster, and an id tells its partition.
// Nothing here is needed to find a job again: an instance that is gone is
// noticed by its silence, and what it held is given back by any other.
package redis
