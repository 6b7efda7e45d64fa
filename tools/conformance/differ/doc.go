// Package differ is a differential tester: it looks for replies in which a server differs
// from the real beanstalkd.
//
// # Contents
//
// Random scripts: several connections, all commands, all states of jobs,
// malformed lines, bodies of any bytes, bursts in one packet or in
// fragments, blocking reserves, half-closes and disconnects. A script
// is played on two fresh servers at the same time, the judge (beanstalkd) and
// the subject, and every reply is compared byte for byte. If one differs, the
// script is reduced to the few commands that show it, and printed in the
// format of tools/conformance/transcript, ready for testdata/transcripts.
//
//   - differ.go: [Run] plays scripts until enough commands have been compared.
//   - differences.go: everything that may differ, with reasons.
//   - script.go: a script and its steps. generate.go: the commands that are sent; malform.go makes some malformed. rules.go: what is not sent, because the order of
//     events on a server would be random.
//   - episode.go: one script on one pair of servers (side.go); learn.go: what replies mean for the
//     commands after them. idle.go: how it knows
//     that all replies have arrived. compare.go, page.go: whether they are equal. clock.go:
//     events by time.
//   - frame.go, sentcommand.go: the commands in a stream of bytes, and what follows from their
//     bytes alone. The package does not know the rules of the queue; the judge does.
//   - failing.go, shrink.go, write.go: from a failing script to a small
//     transcript.
//   - coverage.go: which replies to which commands were seen.
//
// It has no knowledge of the subject, nor of how servers are started: the caller
// provides two [Server]s. The package imports only the standard library.
//
// # Why it needs no model
//
// Steps are made one by one: a packet, a disconnect. Both servers must
// become idle before the next. A command has one reply, so the number of pending replies
// is known; the only exception is a reserve, which can wait.
// The server itself reports that: when its stats page counts as many waiting
// connections as have an unanswered reserve, no more replies
// will come. The page is requested on a separate connection, and the effect of that
// on the figures is subtracted.
//
// Ids are compared by the order of insertion: a job has a label
// here, and an id on each side.
//
// # Time
//
// There are two kinds of scripts. Plain ones use no time between 0 and 1000
// seconds, so nothing in them is ever due, and they run as fast as the servers
// answer. Timed ones use delays, TTRs, pauses and timeouts of 1 to 3 seconds.
// Each causes an event at a known time. No step is made near an event, and
// no event is caused that would be near another, so that the order of events
// is the same on both. The exception is a packet that makes something due in some
// seconds and then waits for the same time: the due event comes first, though only by a
// moment.
//
// An event may set off another: a TTR runs out, a waiting connection gets the
// job, and the TTR starts again for that connection. How late beanstalkd does that
// is chance, up to the reminder that the old holder sends (see
// ttr-expiry-idle-holder). So the second event comes no sooner than a TTR after
// the first was due, and no later than a TTR after both have answered.
//
// If the machine was too slow for that, the rest of the script is ignored.
// A script that fails is played again. A failure proves nothing while
// this process itself is woken too late, or the judge is slow. Timed scripts spend
// their time waiting, so many run concurrently.
//
// # Several processes
//
// A subject can consist of several processes that share the jobs, if the caller makes
// them look like one: it distributes the connections, and sums up the figures of stats that
// each process counts alone. Some figures are exchanged only periodically, with the delay
// [Config.Lag]: then plain scripts pause for that time every few hundred steps,
// and ask on each connection about every tube. In between, these figures
// are not compared.
//
// # Invariants
//
// Everything that was compared was equal, except for differences.go.
// A script never fails because the judge itself could have answered in
// two ways: rules.go excludes such scripts, or the clock voids them.
//
// # Adding a command
//
// Its prefix to verbs (frame.go), a case to generator.line, what must be remembered of its replies
// to episode.learn, and its replies to essential (coverage.go).
package differ
