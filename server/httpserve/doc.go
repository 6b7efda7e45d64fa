// Package httpserve runs an http.Handler on listeners, for every listener that speaks HTTP: the
// API, and the gateways for clients of older systems. It knows what a server on a public
// port needs, and nothing of jobs or paths.
//
// # What lives here
//
//   - Door: serves HTTP/1.0, HTTP/1.1 and HTTP/2 (over TLS, or without it to clients that
//     know, h2c), within limits of size and time, and ends in good order (listener.go).
//   - conn: a connection whose client has to read its answers (conn.go).
//   - answer: what a handler writes to. It says how the request was answered, for metrics
//     (requests.go), and how much of a large answer the client has not read yet, which is
//     bounded over all clients (answer.go).
//   - hostCheck: which hosts requests may name (hosts.go).
//   - UntilEnding: a context for a handler that waits, which ends when the client is gone
//     (wait.go).
//   - timedBody: a request's body whose client has to send it, and which may have to wait for
//     room (body.go).
//   - Problem: an error as a problem document, RFC 9457 (problem.go). A listener that
//     imitates another system need not use it.
//
// # What does not
//
// Listening: a Door gets listeners, which cmd/redstalkd opens. What a request means is the
// handler's.
//
// # Invariants
//
// No client holds up a goroutine for ever by sending or reading nothing. Only a handler
// may: one that waits has to end when the request's context ends, and when [Ending] says
// so. A request's context does not end with Shutdown: what a handler has begun, it
// finishes.
package httpserve
