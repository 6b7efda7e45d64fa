// Package conformance holds the judges: packages that report whether a
// work-queue server behaves as beanstalkd does, or keeps its promises. It has no
// code of its own; each judge is a package below it.
//
//   - transcript plays written dialogues and tells where a server leaves the
//     script. One file shows one behaviour; every file is true of beanstalkd.
//   - differ plays random scripts on two servers at once, one of them
//     beanstalkd, and compares every reply. It finds what nobody thought of.
//   - ledger puts a server under load, keeps books of what the server
//     acknowledged, and audits it afterwards: through crashes, failovers and
//     full disks.
//
// # Whom they judge
//
// Any server that speaks the protocol. The caller starts it and hands over how
// to connect to it, and perhaps how to signal and stop it.
//
// # The invariant
//
// A judge imports nothing of this module outside this directory, not even
// package protocol: neither its parser, nor its names of commands and replies,
// nor our own client. A mistake there would otherwise be made on both sides of
// the wire and go unseen. So each judge reads and writes the protocol with code
// of its own, on purpose. The standard library is enough for transcript and
// differ; ledger uses go-beanstalk, a client that others wrote.
//
// Only tests and tools import a judge, the server never. house_test.go at the
// root of the module holds both rules. A judge's own tests may start a server
// of ours to judge.
package conformance
