// Package server serves the beanstalk protocol. It plans the commands of each connection as
// operations on the store of a queue.Queue, and answers them with the results. No other package
// translates between the commands of the protocol and operations on jobs.
//
// # Reading order
//
//   - session.go, run.go: session, one connection, as a state machine that never blocks. It reads
//     what has come, plans all complete commands as operations, submits them to the store in one
//     batch, and answers in order with one write. Whatever signals it runs it.
//   - plan.go, answer.go: how commands become operations, and answers become replies.
//   - verbs.go: the table of verbs. Each row has two functions: how the verb is planned, and
//     how it is answered. The rows stand with these functions in jobs.go, tubes.go, stats.go,
//     reserve.go, lease.go, batch.go, groups.go, schedules.go, jobbatches.go, history.go, manage.go, policy.go, fields.go,
//     ended.go, endwait.go (wait-job), checkpoints.go, auth.go, clients.go and connection.go.
//   - server.go, serve.go, handshake.go: Server: accepting, limits on connections, TLS
//     handshakes, shutdown.
//   - principal.go, grants.go, permission.go, lookups.go: the user that a session acts as, and
//     what it may do.
//   - timelimits.go, unread.go, incoming.go: limits on idle and stalled connections, on replies
//     that are not read, and on bodies that have come in part.
//   - read.go, sessionend.go: reading from a connection, and its end.
//   - question.go: commands that ask other servers or take several steps in the store, on a goroutine
//     of their own. inquiry.go: what a connection says of itself.
//   - audit.go: administrative acts for the audit log.
//   - watchlist.go, counting.go: the tubes that a connection watches; counters.
//
// Files call only what stands below them: run.go is at the top of a session, verbs.go and
// session.go at the bottom.
//
// # Hidden flow: the replies of a loop iteration
//
// Package netpoll runs sessions in loop iterations. A session does not call the store. It submits
// its batch to the current iteration (or to its wire, which passes it to the next iteration, if
// something other than the loop runs it). At the end of the iteration the loop passes the batches
// of all sessions to the store together. The store calls Done of each batch, which signals its
// session, and the session answers. Neither is its write a system call yet: the reply waits in
// the wire until the end of the iteration, or until the store begins something slow. Then all
// replies of the iteration leave with one system call. See package netpoll.
//
// # What is elsewhere
//
// Parsing commands and formatting replies (package protocol), sockets (package server/netpoll),
// the rules for jobs (package tube), waiters, counters and draining (package server/queue), and
// engines. The server has no state that must survive it: it knows its connections and what they
// are doing.
//
// # Invariants
//
// Only one goroutine at a time runs a session: that of a loop, or the one that calls Done of its
// batch or ends its wait. The replies of a connection have the order of its commands, and each is
// written after the store has acknowledged the operation. While a reserve may have to wait, only
// further reserves of the connection are planned: other commands after it are held until it is
// answered; while a wait-job waits, none is. A connection that ends
// releases what it holds, whatever the reason. The cost of whatever grows with the number of a
// connection's tubes is linear in it, and is submitted to the store in pieces.
//
// A session has no lock, and the store is called without any lock of this package.
//
// # Adding a command
//
// Add it to the verb table of package protocol, and its row, with its plan and its answer, to a file
// of its family here. docs/CONTRIBUTING.md has the whole list.
package server
