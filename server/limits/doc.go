// Package limits has the limits that all listeners of a process share: on connections, on
// bytes that clients have not read yet, and on bytes of bodies that are being received. It
// also has Shares, the limit of what the clients of one listener do at the same time.
//
// # Reading order
//
//   - limits.go: Limits, the one value that every listener gets; it counts connections.
//   - unread.go: Reader is a client that has something to read, as its listener knows it.
//     The guard cuts off the worst of them if too much is unread.
//   - incoming.go: Arrival is a body that has arrived in part. A client that has begun to
//     send a large one may have to wait for room, or to give way.
//   - shares.go: Shares limit requests that run, so that no client gets all of them.
//   - trim.go: when many connections have ended, their memory is returned to the operating
//     system.
//
// # What is elsewhere
//
// Closing a connection, and what a client is sent then, is up to its listener.
//
// # Invariants
//
// All methods are safe for concurrent use. Those of Limits and Arrival can be called on nil:
// then there is no limit.
package limits
