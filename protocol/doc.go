// Package protocol is the wire of a beanstalkd-compatible server: it turns a
// stream of bytes into commands, and answers into bytes.
//
// # What lives here
//
//   - [Verb] and its table (verb.go): which words there are, in which order
//     they are matched, what their arguments look like, which counter of the
//     stats page they move. Parsing is driven by this table; the server drives
//     dispatch and counting from it.
//   - [Reader] (reader.go): framing. Finds lines and bodies in the stream,
//     however the bytes were cut up on the way, and hands out one [Command] at
//     a time. The arguments themselves are read in parse.go.
//   - [Writer] (writer.go): one method a reply, collected and sent in one burst.
//   - [Page] (page.go): the YAML of the stats and list commands.
//
// # What does not
//
// No job state, no tube, no clock, no connection, no goroutine, no lock. The
// package knows numbers and bytes: that a TTR of 0 means 1 second, or that
// "kick" of a tube takes buried jobs first, is the business of others. Nothing
// of this project is imported here.
//
// # Invariants
//
// The commands that come out depend on the bytes that go in and on nothing
// else, in particular not on how they were split into reads. Every line and
// every body, well-formed or not, gives exactly one Command and so earns
// exactly one reply (but quit, which earns none). After any [Fault] the stream
// is in step again. What a peer can make the Reader hold is bounded by what it
// has actually sent, never by what it announced.
//
// # Whom it follows
//
// beanstalkd 1.13, also in what it makes of malformed lines: words are matched
// as prefixes in a fixed order ("quitter" quits, "statsfoo" is BAD_FORMAT),
// numbers come in three dialects, and the checks of put come in an order that
// shows. Two of its framing bugs are mended: a CR that stands alone in a line,
// and a line end that falls across a 224-byte window, made beanstalkd lose the
// line after it. Here such a line is one BAD_FORMAT and the next one is heard.
//
// # Adding a command
//
// Add a Verb where its prefix must be tried (after every word it is a prefix
// of), a row to the table, an argument parser in parse.go if none of those
// there fits, and, if it is counted, its place in statVerbs. A command with a
// body of its own would need a state in Reader; nothing else does.
package protocol
