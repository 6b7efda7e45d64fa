// Package server speaks the beanstalk protocol to connections and turns their
// commands into operations on a storage.Store. It is the only translator
// between the words of the wire and the words of jobs.
//
// # What lives here
//
//   - Server: accepting, draining, stopping, and the figures of the stats page.
//   - session: one connection, as a state machine that never blocks. It reads
//     what has come, plans every whole command in it as an operation, hands
//     all of them to the store at once, and answers in order with one write.
//     Whoever signals it runs it.
//   - loop: watches many connections with epoll. What all its sessions want in
//     one turn goes to the store in one call.
//   - pump: the same for connections that no loop can watch. Sessions see
//     either as a wire.
//   - hall: who waits for a job, first come first served. Jobs are taken for
//     them in rounds, by loops, or if all sleep by the usher. A wait with a limit
//     ends after one more tick and take.
//   - watchlist: the tubes that a connection watches.
//   - bell: the timer of the store.
//   - sweeper: has sessions look now and then whether they are idle or stuck.
//
// # What does not
//
// Bytes (package protocol), rules (package tube), and any particular engine.
// The server keeps nothing that cannot be lost: it knows its connections, who
// of them waits, and counters.
//
// # Invariants
//
// One goroutine runs a session at a time: a loop's, or whoever ends its batch.
// A reply goes out in the order of its command, after the store has
// acknowledged the operation. A reserve that finds nothing ends its burst: no
// later command of the connection is planned before it is answered. A
// connection that ends gives back what it holds, whatever the reason. Whatever
// grows with the number of tubes of a connection is linear in it, and is handed
// to the store in pieces.
//
// # Adding a command
//
// Add it to protocol's verb table and a row to handlers (verbs.go): how it is
// planned, how it is answered.
package server
