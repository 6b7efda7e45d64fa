// Command redstalk is the command line of beanstalk servers, for people at a terminal and
// for scripts. It puts jobs, runs a program for each job, shows, moves and deletes jobs,
// and copies them between servers.
//
// # Contents
//
// Read in this order:
//
//   - main.go: the entry. commands.go: the table of commands.
//   - task.go: how every command starts: it checks the number of arguments and makes the
//     connection. exit.go: how errors become exit codes. connect.go: the flags of every
//     command: address, TLS and authentication. silence.go: says that a reply is late. httpport.go: recognizes
//     an HTTP port as address.
//   - argorder.go: flags can follow arguments. examples.go: the examples in the help.
//   - values.go: values of flags and words on the wire. output.go: tables, JSON, and
//     escaping for terminals. progress.go: how far a long command is. job.go: a job in JSON, and from stats-job.
//   - put.go, reserve.go and worker.go (reserve --exec; reaper_linux.go reaps orphans), checkpoint.go, jobs.go, ended.go (ended, wait and finish), peek.go, jobfilter.go (what these have in common:) list.go, search.go, parked.go, replay.go,
//     tubes.go, policy.go, groups.go, schedules.go and schedulesfile.go (schedules apply), batches.go, records.go (lists of both),
//     status.go, stats.go, clients.go, takeback.go, top.go and toplive.go, history.go, export.go, import.go, movefrom.go, outbox.go: the commands.
//   - reference.go and complete.go: the reference, the man page and shell completion,
//     all generated from the table of commands.
//
// Load generation is in tools/bench, the protocol in package client.
//
// # Invariants
//
// Every command works with any beanstalk server, or reports that it needs an extension that the
// server does not have, with the exit code exitExtension. Such a command first asks the
// server for its capabilities, and then sends nothing that the server does not know.
//
// No command waits forever by default: connecting and each reply have a timeout
// (--timeout), and reserve waits for jobs only as long as --wait says.
//
// Standard output gets the result and nothing else. Messages and progress go to standard
// error, and progress only if that is a terminal. With --json the result is JSON, one value
// per line.
//
// A job that a command holds is deleted only when its work is done: a process that is killed
// at any moment loses no job. The job can be done twice.
//
// No secret is read from the command line, and none is printed. A password in the URL of --database belongs into its variable.
package main
