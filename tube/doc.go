// Package tube holds the rules of the queue: what a job is, which states it can be
// in, which command moves it from where to where, and in which order jobs come
// out.
//
// # What lives here
//
//   - Job, State and the table of arrows (arrows.go): one row for each way in which
//     a job can move, with the counter that grows and the terms that the job takes
//     over.
//   - Machine: all jobs of one server in memory. It obeys the table.
//   - Parts of commands that may be very long (KickSome, LeaveSome, Tick with a
//     limit), for an engine that serves others in between.
//   - What a job may know beyond beanstalkd (tags.go, facts.go): its key (keys.go), how it
//     comes back when it fails (comeback.go), its lease (lease.go); and the policies of tubes
//     (policies.go). Most jobs have none of it, and pay for none of it.
//   - Flushes, moves and lists, in parts (flush.go, movejobs.go, list.go).
//   - SetAside: an engine buries a job whose body it cannot read. This is the one
//     change of state that has no row in the table.
//   - The constants of the rules: Margin, UrgentBelow, MinTTR, Default.
//
// # Who uses it
//
// The embedded engine is a Machine with a journal: it adds no rule. The Redis
// engine has no Machine, because its jobs are in Redis. What both need as data is
// written once, here: the table of arrows (Arrows), which travels to its Lua, and
// the constants. The rest of the rules, above all the order of jobs, is written
// twice, in Go and in Lua. The suite in storage/storetest holds both engines to the
// same behaviour.
//
// # What does not live here
//
// No bytes of the wire, no clock, no disk, no goroutine and no lock. Methods that
// depend on time take now. Only one goroutine may be in a Machine at a time; the
// engine sees to that.
//
// # Invariants
//
// A job that exists is in exactly one of four queues: the ready, delayed or buried
// queue of its tube, or the reserved queue of its holder. Which one follows from its
// State. Only the functions in place.go change the State.
//
// Ready jobs come out by (priority, id), delayed and reserved jobs by (due time,
// id), buried jobs by the order of burying.
//
// A tube exists while a connection uses or watches it, or while a job is in it. Then
// it vanishes with its counters and its pause. The tube "default" always exists.
//
// # What survives a restart
//
// A durable engine keeps all of these:
//
//   - the jobs with their bodies, their states, and their priorities as the last
//     release or bury has set them,
//   - delays, as absolute due times,
//   - the order of buried jobs,
//   - the five counters of a job,
//   - the pauses of tubes that have jobs,
//   - the largest id. No id is used twice,
//   - keys, tags, failures and deliveries, and why a job is parked,
//   - keys that stay taken though their jobs are gone, with the instant when they are free,
//   - policies,
//   - leases, with their tokens and deadlines.
//
// It does not keep other reservations: a job that was reserved is ready again. That counts as
// a delivery without result, so a job that has had its last one is parked.
//
// # Adding a command that moves a job
//
// Add a Move with its name and its rows in the table. Then the server needs a verb
// and a handler, and the tests a transcript. No engine changes, as long as the table
// can say what the move does.
package tube
