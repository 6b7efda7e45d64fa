// Package tube holds the rules of the queue: what a job is, which states it can be
// in, which command moves it from one state to another, and in which order jobs
// come out.
//
// # Where to read
//
// Read arrows.go first: it is the table of state transitions. Then job.go, machine.go
// (all jobs in memory, and how a job moves along an arrow), enqueue.go (the only
// functions that change a state) and take.go (which job a reserve gets).
//
//   - Job, State and the table of arrows (arrows.go): one row for each way in which
//     a job can move, with the counter that grows and the terms that the job takes.
//   - Machine: all jobs of one server in memory. It follows the table. Its floors are in machine.go, the lowest one in
//     base.go. tube.go: one tube. holding.go:
//     the jobs that one holder has reserved. lookup.go: reading without changing.
//   - kick.go, adjust.go, setaside.go: kicks, changes of priority and due time, and jobs that are buried
//     whoever holds them.
//   - KickSome, ReleaseSome and Tick with a limit are parts of commands that can
//     take long. They let an engine serve other commands in between.
//   - journal.go: what a Machine reports of its changes, and how it is restored from that.
//   - tick.go: what is done when something is due; alarms.go: when that is next. due.go: named records that are due, and who has claimed one.
//   - flow.go: what happened in a tube since the start, for metrics.
//   - Metadata is what a job can have beyond beanstalkd (tags.go, metadata.go, notes.go): its key
//     (keys.go), its retries and dead letters (retry.go, deadletters.go, replay.go) and its lease
//     (lease.go). puttagged.go puts such a job. Tubes can have policies (policies.go). Most jobs have
//     no metadata, and cost nothing for it.
//   - Limits and groups: limits.go has what can be set, window.go the starts of a rate, throttle.go
//     what restricts a group or a tube beyond its policy, starts.go whether a job may start, lanes.go
//     and eligible.go which group comes next (lanetable.go and lanequeue.go are their data structures),
//     groups.go, grouplist.go and limitstats.go what is said of groups.
//   - Job batches: jobbatch.go has the record, members.go counts members and after-jobs, settle.go what becomes of
//     the after-jobs.
//   - Schedule is the record of a schedule (schedule.go), and schedules.go says which are due. When that
//     is, and which record comes next, is decided elsewhere.
//   - Of the times, wallclock.go says which are those of the wall clock.
//   - Flushes, moves and listings run in parts too (flush.go, movejobs.go, list.go).
//   - A job whose time is over is deleted or parked (expiry.go), and SetAside buries a
//     job whose body an engine cannot read. These have no row in the table: they
//     depend on no command.
//   - Margin, UrgentBelow, MinTTR and Default are the constants of the rules.
//   - The data structures are in slab.go (memory of jobs), index.go (jobs by id),
//     queue.go, ring.go and tree.go (jobs in order), iterate.go (queues in order, from any place), idqueue.go
//     (ids in order of arrival), heap.go, sorted.go and parts.go (lists).
//
// # Who uses it
//
// The embedded engine is a Machine with a journal: it adds no rule. The Redis
// engine has no Machine, because its jobs are in Redis. What both need as data is
// written once, here: the constants and the table of arrows (Arrows), which is
// passed to the Lua script. The other rules, above all the order of jobs, are
// written twice, in Go and in Lua. The test suite in storage/storetest checks that
// both engines behave the same.
//
// # What does not belong here
//
// No bytes of the protocol, no clock, no disk, no goroutine and no lock. Methods that
// depend on time take now. Only one goroutine may be in a Machine at a time; the
// engine takes care of that.
//
// # Invariants
//
// A job that exists is in exactly one of four queues: the ready, delayed or buried
// queue of its tube, or the reserved queue of its holder. Its State says which one.
// Only the functions in enqueue.go change the State.
//
// Ready jobs come out by (priority, id), delayed and reserved jobs by (due time,
// id), buried jobs in the order in which they were buried.
//
// A tube exists while a connection uses or watches it, or while it has a job. After
// that it is removed with its counters and its pause. The tube "default" always exists.
//
// # What survives a restart
//
// A durable engine keeps all of these:
//
//   - the jobs with their bodies, their states, and their priorities as last set by
//     a release or bury,
//   - delays, as absolute due times,
//   - the order of buried jobs,
//   - the five counters of a job,
//   - the pauses of tubes that have jobs,
//   - the largest id. No id is used twice,
//   - keys, tags, failures and deliveries, and why a job is parked,
//   - tombstones: keys that stay taken after their jobs are gone, with their end,
//   - policies,
//   - the records of schedules, but not who has claimed one,
//   - leases, with their tokens and deadlines.
//
// It does not keep other reservations: a job that was reserved is ready again. That counts as
// a delivery without a result, so a job that has used up its deliveries is parked.
//
// # Adding a command that moves a job
//
// Add a Move with its name and its rows in the table. Then the server needs a verb
// and a handler, and the tests a transcript. No engine changes, provided that the
// table can express what the move does.
package tube
