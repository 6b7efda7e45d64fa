// Package protocol is the wire protocol of a beanstalkd-compatible server: it turns
// a stream of bytes into commands, and answers into bytes.
//
// # Where to read
//
//   - [Verb] and its table (verb.go): which words there are, in which order
//     they are matched, what their arguments look like, and which counter of the
//     stats page they increment. The parser works by this table, and so does the
//     server when it dispatches and counts commands.
//   - [Reader] (reader.go; bodies in readerbody.go, reads from the source in
//     readerfill.go): framing. It finds lines and bodies in the stream,
//     however the bytes were split on the way, and returns one [Command] at a
//     time. parse.go parses the arguments with numbers.go, extensions.go those of commands that
//     beanstalkd does not know. tags.go has the table of tags; grouptags.go, scheduletags.go,
//     batchtags.go and notetags.go parse the values of some. strangetags.go finds what a misspelled
//     tag was meant to be, with closest.go. hideurl.go: URLs without secrets.
//   - [Right] (rights.go): the rights that users can have, and which a verb needs.
//   - [Writer] (writer.go, replies.go): one method for each reply. Replies are collected and
//     sent in one burst.
//   - [Page] (page.go) and [FlowMap] (flowmap.go): the YAML of the stats and list
//     commands.
//
// The package has no job state, no tube, no clock, no connection, no goroutine and
// no lock. It knows numbers and bytes. It does not know that a TTR of 0 means
// 1 second, or that "kick" kicks buried jobs first. It imports no other package of
// this module.
//
// # Invariants
//
//   - The commands depend on the bytes of the stream, and not on how the bytes were
//     split into reads.
//   - Every line and every body, well-formed or not, gives exactly one Command.
//     The server gives each one reply, except quit, which gets none.
//   - After a [Fault] the next line is read as usual.
//   - The memory of a Reader is limited by what the peer has sent, not by what it
//     has announced: the memory for a body doubles as it arrives, unless the peer has
//     sent a body of that size before.
//   - Command.Name, To and List are valid until the next call of Next or Fill,
//     Command.Body until the caller releases Command.Buffer. Both hold for every verb,
//     even if it has a name and a body. Strings, including those of Tags, are copies.
//   - A body that does not arrive in one read with its line is read directly into
//     its final memory.
//   - A Buffer is released exactly once: by the Reader if the body is not handed out,
//     by the Writer's destination when a reply is sent.
//
// # Compatibility
//
// The reference is beanstalkd 1.13, also for malformed lines. Words are matched
// as prefixes in a fixed order: "quitter" quits, and "statsfoo" is BAD_FORMAT.
// Numbers have three syntaxes, and the checks of put have an order that clients
// can see. Two bugs in beanstalkd's framing are fixed: after a line with a lone CR
// in it, and after a line end that falls across a 224-byte window, beanstalkd loses
// the next line. Here the line is one BAD_FORMAT, and the next one is read.
//
// A put line is an extension if it has a colon, which those of beanstalkd's clients never have.
// Only such a line can be longer than others. If it is malformed, its body is skipped: it is not
// parsed as commands. Every other put line is answered as beanstalkd answers it.
//
// # Adding a command
//
//   - Add a Verb in the order of matching: after every longer word that begins
//     with its prefix, before every shorter word that its prefix begins with.
//   - Add its row to the table. If no parser in parse.go fits its arguments, add
//     a parser.
//   - If beanstalkd does not know the command, set Extension in its row.
//   - If the command is counted, add it to statVerbs.
//   - If the command has a body, set Body in its row, and make its parser set
//     size (and junk, if something follows the size), and lengthAt. The Reader does the rest,
//     also for a command with a name and a body.
//
// A new tag is a field of [Tags], and a row of tagTable with a function that parses its
// value. The flags of the command line follow from the row; for HTTP it is a field of Terms, of
// policyInfo, or of both.
package protocol
