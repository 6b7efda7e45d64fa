// Package redis is the engine that keeps the jobs in Redis. Any number of redstalk instances
// serve the same jobs, and any of them may die at any time.
//
// # Reading order
//
// Begin with lua/keys.md (the keys) and lua/main.lua (the script that carries out a call, with its
// operations). The script walks tube's table of arrows and is the only code that changes the
// keys of jobs, apart from the checks of fsck (lua/check). Then read the Go side:
//
//   - store and options: the [storage.Store]. placement, route and search: which partitions a
//     batch concerns, in which order it goes through them, and takes from tubes of several.
//   - partition: joins what all connections want into calls of the script, one call at a time.
//     unit: what is queued. inbox: the queue, and which goroutine makes the calls. pipeline:
//     how calls overlap with other work. call: one call, and the adaptive size of its steps.
//   - encode: operations become arguments. reply: its fields become answers. For each
//     kind of operation its encoder and its decoder stand together: puts, takes, moves, stats.
//     Package schema has the records of jobs, and their keys.
//   - tagged and import: operations on jobs with tags, policies and leases, and jobs of other
//     servers. deadletter: how an exhausted job reaches another partition.
//   - groups: operations on groups. What a take or a move knows of groups is in lua/groups.
//     groupnames: pages of groups. limitstats: figures about them.
//   - jobreports: checkpoints and progress of jobs.
//   - ended: operations on records of ended jobs. waits: how an instance learns that an awaited job has ended.
//   - named: what schedules and batches of jobs have in common as named records. schedules: other operations on schedules. A put
//     of one is a put with tags. jobbatches: other operations on batches of jobs. lua/jobbatches counts these.
//   - flushlist and movejobs: flushes, lists, and moves to another tube, in steps.
//   - large: how the records of large jobs bypass the script.
//   - send: how a call is sent and its reply received. Package conn below has the connections.
//   - recover, abandon and errors: what happens when a call fails, what is given back, and what
//     each error of Redis means for a call. registration: how Redis learns of this instance, and
//     a paused instance hands out no job that has since been reassigned. placement also says how
//     ids keep growing after Redis has gone back in time.
//   - background: background work by partition, that is, heartbeats and what is due. heartbeat:
//     the name of this instance, and what it knows of the others and of time. reports: what goes
//     out with a heartbeat. keepalive: heartbeats beside a call that takes long.
//   - holdings and holding: what the connections of this instance have reserved. refs: how many
//     of them use and watch each tube, and what they have done. bodycache: bodies of jobs that
//     this instance has put.
//   - tallies: what happened in hours and days.
//   - wakeups: how an instance learns that a tube has a job for a client that waits here.
//   - peers: questions of instances to each other.
//   - topology: servers and instances.
//   - startcheck: what is checked before anything is used. servercheck: what a server allows. evictions:
//     keys that Redis has evicted. upgrade:
//     from the layout of an older version.
//
// Not here: rules (package tube) and waiting (package server/queue). Only the scripts know the
// keys, except for the keys of layout, instances and versions, and the kinds that fsck scans for.
//
// # Invariants
//
// Partitions are independent: each has its own calls on its own connection, and its own
// heartbeats under its own name, and it fails by itself. Only a batch that concerns several
// partitions goes through them one after the other.
//
// Everything that a batch changes in a partition is changed in one script call, so nobody sees
// half of it. It is changed once, however often the call is sent. A record that is staged
// before a call is invisible, and expires if no call takes it over. Time is that of Redis: due
// times are computed from its clock and reported to the caller as durations. All keys of a
// partition have its number as their hash tag, so that a partition is on one node of a cluster,
// and an id says its partition. Nothing in memory is needed to find a job again: an instance
// that dies is noticed when its heartbeats stop, and any other instance gives back what it held.
package redis
