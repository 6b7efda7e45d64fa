// Command redstalk is the command line of beanstalk servers: for people at a terminal, and
// for scripts. It puts jobs, runs a program for each, looks at them, moves and removes them,
// and copies them from server to server.
//
// # What lives here
//
//   - commands.go: the table of commands, one row each, and the flags that all of them have.
//   - begin.go: how every command begins: its arguments are counted, the connection is made,
//     and its end becomes an exit code (exit.go). connect.go: address, TLS, and who one is.
//   - arrange.go: flags may stand behind arguments, as people write them.
//   - values.go: what flags may hold, and what may go on the wire. output.go: tables, JSON,
//     bodies that a terminal can bear. job.go: a job in JSON, and what a server tells of one.
//   - put.go, reserve.go and worker.go (reserve --exec), jobs.go, tubes.go, look.go, top.go,
//     export.go, import.go: the commands.
//   - reference.go and complete.go: the reference, the man page and the completion of shells,
//     all of them made of the table of commands.
//
// # What does not
//
// Load: that is stalkbench. The protocol: package client.
//
// # Invariants
//
// Every command works with any beanstalk server, or says that it needs an extension which the
// server has not, and ends with a code of its own (exitExtension). Such a command asks the
// server for its capabilities first and then sends nothing that the server does not know.
//
// No command waits without an end unless it was told so: connecting and each reply have
// a limit (--timeout), and reserve waits for jobs only as long as --wait says.
//
// What goes to standard output is the result and nothing else. What people should know, and
// progress, goes to standard error, and progress only if that is a terminal. With --json
// the result is JSON, a value a line.
//
// A job that a command holds is only deleted when its work is done: a process that is killed
// at any moment loses no job. It may be done twice.
//
// No secret is read from the command line, and none is printed.
package main
