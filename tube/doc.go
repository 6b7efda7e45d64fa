// Package tube holds the rules of the queue: what a job is, which states it can be
// in, which command moves it from one state to another, and in which order jobs
// come out.
//
// # Where to read
//
// The files are listed from top to bottom: a function calls what stands further down, and seldom something
// above it. Machine is built in floors, which are structs in machine.go. Each contains the one below it, and can call
// nothing above, which the compiler checks.
//
// The commands, on the top floor, Machine:
//
//   - arrows.go: the table of state transitions. One row for each way in which a job can move, with the
//     counter that grows and the terms that the job takes. Read it first.
//   - machine.go: the floors, and how a job moves along an arrow. ReleaseSome, KickSome and Tick with a limit
//     are parts of commands that can take long. They let an engine serve other commands in between.
//   - put.go: how a job is put. take.go: which job a reserve gets. tick.go: what happens when something is due.
//   - adjust.go: kicks, changes of priority and due time, and jobs that are buried whoever holds them.
//     flush.go and list.go run in parts.
//   - wallclock.go says which times are those of the wall clock. restore.go: how a Machine is restored.
//   - schedules.go: the records of schedules (schedule.go), and which are due. When that is, and which record comes next, is
//     decided elsewhere. settle.go: what becomes of the jobs that run after a batch.
//
// The floor times:
//
//   - movejobs.go: jobs that go to another tube. deadletters.go: retries, parking, expiry and dead letters. A job
//     that expires, and one that is set aside because an engine cannot read its body, have no row in the
//     table: they depend on no command.
//
// The floor queues:
//
//   - cold.go: delayed and ready jobs that the engine has on disk only.
//   - enqueue.go: the only functions that change a state, and how jobs come and go. tubes.go: how tubes
//     come and go, and their pauses. holding.go: the jobs that one holder has reserved, and leases.
//
// The floor members:
//
//   - members.go: which jobs are members of a batch, and which run after one. batches.go: the batches, and their
//     records (jobbatch.go). named.go: what schedules and batches have in
//     common as named records. due.go: which of them are due, and who has claimed one.
//
// The floor groups:
//
//   - stats.go: what is said of jobs and tubes. groups.go and grouplist.go: what is set for groups and said
//     of them. recheck.go: what happens when a policy changes.
//
// The floor turns:
//
//   - starts.go: whether a job may start. lanes.go: which group comes next. lanecount.go: what is counted
//     meanwhile. throttle.go: what restricts a group or a tube beyond its policy. takeable.go: the tubes
//     from which a job can be taken.
//   - Their data structures: eligible.go, lanetable.go and lanequeue.go, and window.go, the starts of a rate
//     (limits.go).
//
// The floor jobs, with its parts, and below it base:
//
//   - journal.go: what a Machine reports of its changes.
//   - metadata.go: what a job can have beyond beanstalkd, see Metadata. Most jobs have none, and cost nothing for it.
//   - lookup.go: reading without changing.
//   - notes.go, retry.go, expiry.go, keys.go, policies.go, tags.go and fields.go: the parts of metadata, and what
//     puts and policies say of them.
//   - checkpoint.go: what a worker reports of a job: its progress, and its checkpoint.
//   - ended.go: records of ended jobs, and which ends are awaited.
//   - tube.go: one tube. flow.go: what happened in it since the start, for metrics. tally.go: in an hour or a day.
//   - job.go: Job, State, and the constants of the rules. base.go: when something is due next.
//
// Data structures that know no more than jobs:
//
//   - iterate.go (queues in order, from any place), queue.go, ring.go and tree.go (jobs in order), index.go (jobs by id), slab.go
//     (memory of jobs).
//   - idqueue.go (ids in order of arrival), heap.go, sorted.go and parts.go (lists), instant.go (points in time).
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
//   - the order of buried jobs, but not that of the tubes,
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
