// Package queue is what all doors of a server share, on top of a storage.Store:
// who waits for which job, the store's timer, draining, the numbers of holders,
// the counters, and the stats pages as values. A door is whatever lets clients
// in: the beanstalk protocol in package server, others beside it.
//
// # What lives here
//
//   - Queue: one for each store. Its methods are the blocking API for callers
//     inside the process (jobs.go, reserve.go, call.go).
//   - Waiter: waits for a job on behalf of one holder, without a goroutine. The
//     loops of package server use it directly; Queue.Reserve is built on it.
//     wait.go has the way of a wait from its beginning to its end.
//   - waitlists: who waits, by tube and by arrival (waitlist.go).
//   - rounds: jobs are taken for waiters a batch at a time, first come first
//     served (round.go). Loops carry rounds out while one is awake, else the
//     usher does. A round may be foreseen: it goes to a shared store with the puts
//     whose jobs it is for (foresee.go).
//   - the timer of the store (timer.go).
//   - Counters, and the stats pages as values (stats.go).
//
// # What does not
//
// No network, no protocol, no engine: what a command is called and how a page is
// written is the doors' business. The package keeps nothing that cannot be lost:
// jobs and reservations are the store's.
//
// # Invariants
//
// Jobs of a tube go to those who wait for it in the order of their arrival. A
// wait ends exactly once: with a job, without one, or by being cancelled. A job
// that was taken for a caller who no longer wants it is given back. At most one
// round is under way at a time.
//
// waitlists.mu guards all waiting; it is held only for work in memory, never
// while the store or a notify function is called. No other lock is taken while it
// is held.
package queue
