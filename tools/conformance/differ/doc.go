// Package differ looks for replies in which a server differs from the true
// beanstalkd.
//
// # Contents
//
// Random scripts: several connections, all commands, all states of jobs,
// malformed lines, bodies of any bytes, bursts in one packet or in odd
// fragments, reserves that others answer, half-closes and disconnects. A script
// is played on two fresh servers at the same time, the judge (beanstalkd) and
// the subject, and every reply is compared byte for byte. When one differs the
// script is cut down to the few commands that show it, and printed in the
// format of tools/conformance/transcript, ready to be put into testdata/transcripts.
//
//   - [Run] plays scripts until enough commands have been compared.
//   - differences.go: all that may differ, each with its reason.
//   - generate.go: what is sent. rules.go: what is not, because the order of
//     events on a server would be chance.
//   - episode.go: one script on one pair of servers. idle.go: how it knows
//     that all replies have come. compare.go: whether they are equal. clock.go:
//     what happens by time.
//   - frame.go, asked.go: which commands a stream of bytes is, and what their
//     bytes alone tell. The rules of the queue are not known here; the judge
//     knows them.
//   - beyond.go, list.go, generatebeyond.go, rulesbeyond.go, learnbeyond.go,
//     comparebeyond.go, writebeyond.go: the same for what beanstalkd does not know.
//   - failing.go, shrink.go, write.go: from a failing script to a small
//     transcript.
//   - coverage.go: which replies to which commands were seen.
//
// # Not here
//
// Any knowledge of the subject, or of how servers are started: the caller
// hands over two [Server]s. The package imports the standard library only.
//
// # Why it can tell without a model
//
// One step is made at a time: a packet, a disconnect. Then both servers must
// become idle before the next. A command is answered by one reply, so it is
// known how many are due; the only exception is a reserve, which may wait.
// Whether it does, the server says itself: when as many connections are
// waiting by its stats page as have a reserve unanswered, nothing more will
// come. The page is asked for on a connection of its own, and what that adds
// to the figures is taken off again.
//
// Ids are compared by the order of insertion: a job has a number of its own
// here, and each side's id for it.
//
// # Time
//
// There are two kinds of scripts. Plain ones use no time between 0 and 1000
// seconds, so nothing in them is ever due, and they run as fast as the servers
// answer. Timed ones use delays, TTRs, pauses and timeouts of 1 to 3 seconds.
// Each sets off an event at a known moment. No step is made near an event, and
// no event is set off that would fall near another, so that what happens first
// is the same on both. The exception is a packet that has something be due in some
// seconds and then waits for as long: what is due comes first, though by a moment
// only.
//
// An event may set off another: a TTR runs out, a waiting connection gets the
// job, and the TTR starts again for that connection. How late beanstalkd does that
// is chance, up to the reminder that the old holder sends (see
// ttr-expiry-idle-holder). So the second event comes no sooner than a TTR after
// the first was due, and no later than a TTR after both have answered.
//
// If the machine was too slow for that, the rest of the script counts for
// nothing. A script that fails is played again, and it proves nothing to fail while
// this process itself is woken too late, or the judge is slow. Timed scripts spend
// their time waiting, so many run at once.
//
// # Several processes
//
// A subject may be several processes that share the jobs, if the caller makes
// them look like one: deals the connections to them, and adds up what stats tells
// of each alone. What they tell each other now and then only, [Config.Lag] says
// how late: then plain scripts stand still for that long every few hundred steps,
// and ask on each connection about every tube. In between the figures concerned
// are not compared.
//
// # What beanstalkd does not know
//
// With [Config.Beyond] scripts put with tags, set policies, lease, list, flush and move
// jobs, and so on. The judge is then another server that knows all this: an engine that
// is simple, and tested by itself. Scripts without it stay as they are.
//
// Leases and cursors of lists are other ones on the two servers. They are learned as ids
// are, and a line names them by a reference. A job that gets a new id by itself, because
// it goes to another tube, is known by the place in a reply where both first name it; its
// TTR is unknown then, so a timed script foresees all that it could be. In the same
// way it foresees after a failure all waits that a retry list may ask for: nothing here
// knows the rules of retries.
//
// A job that is exhausted may go to its dead-letter tube after the reply. So once there
// may be such jobs, both servers must have as many jobs in all states before the next
// step.
//
// # Invariants
//
// Everything that was compared was equal except for what is in differences.go.
// A script that fails is not one that the judge itself could have answered in
// two ways: either rules.go keeps such scripts out, or the clock voids them.
//
// # Adding a command
//
// One of beanstalkd's: its prefix to verbs (frame.go), a case to generator.line, what must be
// remembered of its replies to episode.learn, and its replies to essential
// (coverage.go). Any other: the same in verbsBeyond (beyond.go), lineBeyond
// (generatebeyond.go), learnBeyond and essentialBeyond; the jobs that it names to
// asked.ids, and whether it may wake a connection, fail or remove a job to asked.wakes,
// mayFail and mayRemove.
package differ
