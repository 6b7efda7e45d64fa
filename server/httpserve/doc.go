// Package httpserve runs an http.Handler on listeners, for everything that speaks HTTP: the
// API, and the gateways for clients of older systems. It has what a server on a public port
// needs, and knows nothing of jobs or paths.
//
// # Reading order
//
//   - server.go: Server serves HTTP/1.0 and HTTP/1.1, within limits of size and time, and
//     shuts down in good order.
//   - streams.go: HTTP/2, where it is wanted, and what its clients may hold together. frames.go:
//     the form of what they send.
//   - conn.go: a connection whose client must read its answers in time.
//   - answer.go: the response writer of handlers. It records how the request was answered,
//     for metrics (requests.go), and how much of a large answer the client has not read
//     yet, which is limited over all clients.
//   - body.go: a request's body, which the client must send in time, and which may have to
//     wait for room.
//   - wait.go: UntilEnding, a context for a handler that waits. It ends when the client
//     leaves.
//   - hosts.go: which hosts requests may name.
//   - problem.go: Problem, an error as a problem document, RFC 9457. A gateway that imitates
//     another system need not use it.
//
// # What is elsewhere
//
// cmd/redstalkd opens the listeners. What a request means is up to the handler.
//
// # Invariants
//
// No client blocks a goroutine for ever by sending or reading nothing. Only a handler can:
// one that waits must end when the request's context ends, and when [Ending] says so. A
// request's context does not end with Shutdown: a handler finishes what it has begun.
package httpserve
