// Package tube holds the rules of the queue: what a job is, which states it
// can be in, which command moves it from where to where, and in which order
// jobs come out. It is the whole truth about these things; engines keep what
// it decides, the server asks for it, neither adds a rule of its own.
//
// # What lives here
//
//   - Job, State and the table of arrows (arrows.go): one row for each way a
//     job can move. The Go Machine walks the table, and so does the Lua of
//     the Redis engine, to which it travels as data.
//   - Machine: all jobs of one server in memory, obeying the table.
//   - Parts of what may be very long (KickSome, LeaveSome, Tick with a limit), for
//     engines in which others must not wait for all of it.
//   - SetAside, the one change of state that no row of the table is about: an
//     engine buries a job whose body it cannot read. Nothing is counted.
//   - The constants of the rules: Margin, UrgentBelow, MinTTR.
//
// # What does not
//
// No bytes of the wire, no clock, no disk, no goroutine and no lock. Every
// method that depends on time takes now; whoever calls a Machine makes sure
// that one caller is inside at a time.
//
// # Invariants
//
// A job that exists is in exactly one of four places: the ready, delayed or
// buried queue of its tube, or the reserved queue of its holder. Its place
// follows from State alone, and only Machine.settle changes State. Ready jobs
// come out by (priority, id), delayed and reserved ones by (due time, id),
// buried ones by the order of burying.
//
// A tube exists while somebody uses or watches it or a job is in it; then it
// vanishes with its counters and its pause. The tube "default" stays.
//
// # What survives a restart
//
// A durable engine keeps everything except reservations: states, priorities
// as the last release or bury set them, delays as absolute due times, the
// order of buried jobs, the five counters of a job, the pauses of tubes that
// have jobs, and the next id. A job that was reserved is ready. An id is never
// used twice.
//
// # Adding a command that moves a job
//
// Add a Move and its rows to the table; give it a session method in server
// and a transcript. No engine changes.
package tube
