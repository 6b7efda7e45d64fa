// Package client is the client of our own tools and tests. It speaks to any
// beanstalk server.
//
// # What lives here
//
//   - [Conn] (conn.go): a connection that blocks: send commands, receive their
//     replies in order, ask for a page of statistics.
//   - [Reply] (reply.go): one parsed reply.
//   - [Decoder] (decoder.go): finds replies in bytes that somebody else reads,
//     for callers with a poller of their own.
//   - AppendPut and its like (command.go): commands as bytes.
//   - [Page] (page.go): a page of statistics.
//
// # What does not
//
// One method for each command. Tools and tests write commands as text, also
// wrong ones, many in one write or half a command. Where a method for each
// command is what is wanted, tests use go-beanstalk, which others wrote.
//
// The judges below tools/conformance do not use this package: they judge
// with code of their own.
//
// # Invariants
//
// The standard library is all that is imported. No goroutine, no lock: a Conn
// and a Decoder each belong to one goroutine at a time, but one may send on a
// Conn while another one receives. Parsing does not allocate; the slices of a
// Reply are good until the next read.
package client
