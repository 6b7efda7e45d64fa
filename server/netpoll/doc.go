// Package netpoll moves the bytes of connections for event-driven sessions: epoll loops,
// buffered non-blocking writes, batched sends, TLS. It knows no command and no reply.
//
// # Interfaces
//
//   - Wire: the bytes of one connection, as its session sees them. No method blocks.
//   - Submitter: passes batches of operations to the store.
//
// A Poller makes a Wire of a net.Conn. The Wire wakes its session by a function that the
// session gives it, and passes it the Submitter that the session has to use.
//
// # Reading order
//
//   - wire.go: the interfaces.
//   - poller_linux.go, poller_other.go: the loops of a server; which one gets a connection.
//   - loop_linux.go, iteration.go: one loop, and one iteration of it.
//   - epollwire_linux.go: the Wire of a connection that a loop watches.
//   - batchedsends_linux.go, sender_linux.go: the replies of one iteration, sent with one
//     system call (io_submit).
//   - tls.go, tlswire_linux.go: TLS above such a Wire.
//   - pump.go: where epoll is not available, one goroutine reads and one writes.
//   - socket_linux.go: system calls on sockets.
//
// # Hidden flow: deferred replies
//
// A session that writes a small reply to an epollWire does not always cause a system call.
// If more than one connection was ready in the loop iteration, the wire defers the reply,
// and the loop sends all deferred replies at once: at the end of the iteration, or earlier
// when the store is about to do something slow (see loop.pollAgain). A session that writes
// again in between sends both replies at once, so the order is preserved.
//
// # Invariants
//
// Only the goroutine that runs a session calls the methods of its Wire, except Drained and
// WakeLater, which any goroutine can call. Locks are taken in this order, and none is held
// while the store is called: first loop.mu, then one of epollWire.mu, batchedSends.mu and the
// locks of package queue.
package netpoll
