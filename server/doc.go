// Package server is the beanstalk door: it speaks the beanstalk protocol to
// connections and turns their commands into operations on the store of a
// queue.Queue. It is the only translator between the words of the wire and the words
// of jobs.
//
// # What lives here
//
//   - Server: accepting, limits on connections, stopping (server.go, accept.go).
//   - session: one connection, as a state machine that never blocks. It reads
//     what has come, plans every whole command in it as an operation, hands
//     all of them to the store at once, and answers in order with one write.
//     Whoever signals it runs it (session.go; then plan.go, answer.go, reserve.go,
//     end.go).
//   - handlers: how each verb is planned and answered (verbs.go, reserve.go,
//     stats.go).
//   - loop: watches many connections with epoll. What all its sessions want in
//     one turn goes to the store in one call (loop_linux.go, turn.go).
//   - sends: what the connections of a loop are sent at the end of a turn, with one
//     system call for all of them (sends_linux.go).
//   - wire: the bytes of a connection as its session sees them. Either a loop
//     watches it (epollwire_linux.go), or it is a pump, with goroutines of its own
//     (pump.go).
//   - watchlist: the tubes that a connection watches.
//   - sweeper: has sessions check now and then whether they are idle or stuck.
//
// # What does not
//
// Bytes of commands and replies (package protocol), rules (package tube), who waits
// for which job, counters and draining (package server/queue), and any particular
// engine. The server keeps nothing that cannot be lost: it knows its connections
// and what they are doing.
//
// # Invariants
//
// One goroutine runs a session at a time: a loop's, or whoever ends its batch or
// its wait. A reply goes out in the order of its command, after the store has
// acknowledged the operation. A reserve that finds nothing ends its burst: no
// later command of the connection is planned before it is answered. A
// connection that ends gives back what it holds, whatever the reason. Whatever
// grows with the number of tubes of a connection is linear in it, and is handed
// to the store in pieces.
//
// Locks are taken in this order, and none while the store is called: loop.mu, then
// that of a wire, then sends.mu; or those of package queue. A session has none.
//
// # Adding a command
//
// Add it to protocol's verb table and a row to handlers (verbs.go): how it is
// planned, how it is answered.
package server
