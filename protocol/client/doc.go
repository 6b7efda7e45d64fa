// Package client is a client of the beanstalk protocol for our own tools and tests.
// It works with any beanstalk server.
//
// # Where to read
//
//   - [Conn] (conn.go): a blocking connection: send commands, receive their
//     replies in order, request a page of statistics.
//   - [Reply] (reply.go): one parsed reply.
//   - [Decoder] (decoder.go): finds replies in bytes that the caller reads, for
//     callers with a poller of their own.
//   - AppendPut and the like (command.go): commands as bytes.
//   - [Page] (page.go): a page of statistics.
//
// There is no method for each command. Tools and tests write commands as text,
// including malformed ones, many in one write or half a command. Tests that want a
// method for each command use go-beanstalk, an independent client.
//
// The judges below tools/conformance do not use this package: they have a client of
// their own.
//
// # Invariants
//
// The package imports only the standard library. It starts no goroutine and has no
// lock: a Conn and a Decoder each belong to one goroutine at a time, but one goroutine
// can send on a Conn while another one receives. Parsing does not allocate; the
// slices of a Reply are valid until the next read.
package client
