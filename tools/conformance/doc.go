// Package conformance contains the judges: packages that check whether a
// work-queue server behaves as beanstalkd does, or loses what it acknowledged. It has no
// code of its own; each judge is a package below it. Package child starts servers for them.
//
//   - transcript plays written dialogues and reports where a server deviates.
//     One file shows one behaviour; every file is true of beanstalkd.
//   - differ plays random scripts on two servers at the same time, one of them
//     beanstalkd, and compares every reply. It finds what nobody thought of.
//   - ledger puts a server under load, records what the server
//     acknowledged, and audits it afterwards: through crashes, failovers and
//     full disks.
//
// # Servers under test
//
// Any server that speaks the protocol. The caller starts it and provides functions
// to connect to it, and where needed to signal and stop it.
//
// # The invariant
//
// A judge imports nothing of this module outside this directory, not even
// package protocol: neither its parser, nor its names of commands and replies,
// nor the project's own client. Otherwise a mistake there would be made on both sides of
// the wire and not be noticed. So the judges read replies with code of
// their own, package answer, and each writes its commands itself. The standard library is enough for transcript and
// differ; ledger uses go-beanstalk, a third-party client.
//
// Only tests and tools import a judge, the server never. tools/checks/architecture_test.go
// checks both rules. A judge's own tests may start a redstalkd.
package conformance
