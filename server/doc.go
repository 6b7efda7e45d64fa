// Package server speaks the beanstalk protocol to connections and turns their
// commands into operations on a storage.Store. It is the only translator
// between the words of the wire and the words of jobs.
//
// # What lives here
//
//   - Server: accepting, draining, stopping, and the figures of the stats page.
//   - session: one connection. Its goroutine reads what has come, plans every
//     whole command in it as an operation, hands all of them to the store at
//     once, and answers in order with one write.
//   - hall: who waits for a job, first come first served, and the usher who
//     takes jobs for them.
//   - bell: the one timer.
//
// # What does not
//
// Bytes (package protocol), rules (package tube), and any particular engine.
// The server keeps nothing that cannot be lost: it knows its connections, who
// of them waits, and counters.
//
// # Invariants
//
// A reply goes out in the order of its command, after the store has
// acknowledged the operation. A reserve that finds nothing ends its burst: no
// later command of the connection is planned before it is answered. A
// connection that ends gives back what it holds, whatever the reason.
//
// # Adding a command
//
// Add it to protocol's verb table and a row to handlers (verbs.go): how it is
// planned, how it is answered.
package server
