// Package queue is what all listeners of a server share, on top of a storage.Store: the
// waitlists, the store's timer, draining, holder numbers, counters, and the stats pages
// as values. A listener is what lets clients in: package server with the beanstalk
// protocol, and others such as the HTTP API.
//
// # Reading order
//
//   - queue.go: Queue, one for each store. Its methods are the blocking API for callers in
//     the process: call.go (Do), jobs.go (one call for each beanstalk command), reserve.go,
//     extensions.go (tags, keys, policies, leases), leased.go (many leases at once), groups.go,
//     records.go (schedules and job batches), ends.go (records of ended jobs, and waiting for the end of a job), tallies.go, deadletters.go and backup.go.
//   - wait.go: Waiter waits for a job on behalf of one holder, without a goroutine. The
//     loops of package server use it directly; Queue.Reserve is built on it. The file
//     follows a wait from its beginning to its end; waitlimit.go is what happens at its limit.
//   - waitlist.go: who waits, by tube and in order of arrival.
//   - dispatch.go: dispatches take jobs for many waiters in one store call, first
//     come first served. Loops carry them out while one is awake, else the dispatcher does.
//   - watch.go: Watcher, for the webhooks, which take jobs of very many tubes.
//   - timer.go: the timer of the store.
//   - clients.go, holders.go, takers.go: the connections of all servers on the store, and who
//     holds a job or has taken its lease.
//   - stats.go, report.go: counters and the stats pages as values. machine_linux.go: what the
//     system says about the machine.
//
// # What is elsewhere
//
// The package knows no network, no protocol and no engine: the names of commands and the
// format of a page are up to the listeners. It holds no state that must survive: jobs and
// reservations are in the store.
//
// # Invariants
//
// Jobs of a tube go to its waiters in the order of their arrival. A wait ends exactly once:
// with a job, without one, or by being cancelled. A job that was taken for a caller who no
// longer wants it is given back. At most one dispatch is under way at a time.
//
// waitlists.mu guards all waiting. It is held only for work in memory, never while the
// store or a notify function is called. No other lock is taken while it is held.
package queue
