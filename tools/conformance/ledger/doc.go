// Package ledger puts a server under load and records every request and every
// acknowledgement, to check afterwards whether the server kept its promises:
// through crashes, failovers and full disks.
//
// # Contents
//
//   - Ledger: one entry for each put, with its id and whether it was
//     deleted; it checks everything that is seen later.
//   - Run: the load. Producers put jobs with bodies that occur once; consumers
//     reserve them and delete, release, bury, touch or abandon them; kickers
//     kick; bursters do all of that with up to 512 commands in one packet; leasers
//     do it with keys, leases, dead-letter tubes and moves of jobs, in tubes of their
//     own. A connection that fails is made again, to the next address. Consumers,
//     bursters and leasers can freeze now and then while they hold jobs, and then continue.
//   - Check and Drain: the audits.
//   - Report: the figures and the faults.
//
// Read config.go, ledger.go and load.go first. Then client.go and exchange.go (requests and what they leave
// unknown), holds.go and freeze.go (who has a job, and clients that freeze), burst.go, leaser.go, keyed.go and
// limits.go (the loads beyond plain jobs), body.go, audit.go and keyedaudit.go (the audits), report.go.
//
// Starting, killing and cutting off servers is left to the
// tests. The package has no knowledge of redstalk; it talks to
// any server of the protocol, through a third-party client.
//
// # What is checked
//
// A command without a reply has an unknown outcome: it was executed
// or it was not, and both are accepted later. An
// unknown put is not repeated, so one put makes at most one job. Everything
// else is certain:
//
//   - A put that was acknowledged, or whose job was ever seen, is there with
//     its id and its body until a delete of it is sent. If not, it is Lost.
//   - A job whose delete was acknowledged, or that an audit has found gone, is
//     never delivered to a command sent later, else it is Undead. It is never
//     deleted again (DeletedTwice).
//   - No put makes two jobs (Twice). No id ever stands for two puts (Reused), nor
//     for a put of the ledger and a put of another program ([Ledger.Foreign]). No
//     body differs from what was put (Changed). Nothing is there that was not put,
//     or whose put was refused (Strange).
//   - At an audit the stats pages count the jobs that are there (Miscounted).
//
// Of leasers, which only some servers can be asked to serve:
//
//   - A put with a key is sent again until its reply has come, and some once more after
//     that. It makes one job at most (Twice).
//   - Its job may get another id, in its dead-letter tube or when it is moved. It is there
//     under one of them at a time, and can be found by its key in one tube (Twice, Lost). On
//     its way it may be in both or in neither, for some seconds.
//   - With Config.GroupLimit, never more jobs of a group are reserved in a tube than that, and none while
//     the group is paused (Exceeded). When the tubes are emptied, a client that waits for a job gets one
//     as long as there are some (Stuck).
//   - Each lease of an id is larger than those before (Tokens). Only the TTR ends it:
//     there is no excuse (Contested, Robbed). Whatever is asked with one that is over is
//     refused, by whichever server (Obeyed).
//
// "Later" refers to the ledger's own count of events, not to the clock: a finding
// counts against the server only if its command was sent after the contrary
// was known.
//
// A NOT_FOUND to the holder of a job is counted as Overtaken: reservations end
// with their TTR or their server. With Config.Excuse, which knows what was done
// to the servers, reservations are judged, too. As long as a client has a job,
// its TTR has not run out, and there is no excuse,
//
//   - no other client gets the job (Contested; with an excuse, Shared),
//   - it was not deleted by another client when this one got it (the same),
//   - and this client's commands are not answered NOT_FOUND, nor another client's
//     delete DELETED (Robbed). Both happen if a server obeys an earlier holder.
//
// # The invariant
//
// An entry is written before the command is sent, and updated after the reply
// is read. So everything that the server has promised is in the ledger.
//
// # How to use it
//
//	l := ledger.New(ledger.Config{Addrs: []string{addr}, Seed: seed})
//	l.Run(ctx)           // until ctx ends; kill the server meanwhile
//	err := l.Check(ctx)  // nothing is changed, and the load can continue
//	l.Run(ctx)
//	err = l.Drain(ctx)   // every job is taken out and accounted for
//	t.Log(l.Report())
//
// The tubes named after Config.Name belong to the ledger alone.
package ledger
