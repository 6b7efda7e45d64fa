// Stalkbench loads a beanstalk server and says what it cost.
//
// # What is measured
//
// One operation is one command: a job that is put, reserved and deleted is
// three. A command is counted when its reply has been read, verified, and the
// load's duration has not yet passed; what is answered later, while the last
// cycles close and the jobs are cleaned away, is work but not score.
//
// The load is a closed loop. Every connection sends a stage — one command, or
// with a pipeline of N the same command N times in one write — and sends the
// next only when all its replies have come. A latency is therefore that of a
// stage, and with a pipeline of one that of a command. A closed loop slows down
// with the server, so its percentiles tell how long a client waited, not how
// long a client would wait under a load that does not care.
//
// Throughput alone flatters a server that burns every core it finds, so the
// processor time and memory of any process named by --pid are read before and
// after and shown per operation, next to the generator's own.
//
// # How the generator stays out of the way
//
// On a small machine the generator takes its cycles from the server it
// measures. Three things keep it small. A connection is a state machine (a
// [session]) rather than a goroutine, and a few threads each drive many of them
// from one epoll loop: per stage one read and one write, and one reading of
// the clock. The bytes of puts and reserves are made once and sent again and again.
// Replies are parsed in place, out of the buffer they were read into, and
// nothing on this path allocates. Where there is no epoll, a goroutine per
// connection drives the same sessions; --blocking asks for that everywhere.
//
// What remains is almost all the kernel's: sending, receiving and polling. A
// server that answers a pipeline's commands one by one therefore makes the
// generator read one by one, and costs it several times what a server does that
// answers many in one write. With a single connection both sides sleep between
// commands, and whether the kernel puts them on one core or two changes the
// figure several times over: take many rounds and look at the extremes.
//
// # What is left behind
//
// Every tube has a name no other run uses, and the tool touches only those. At
// the end the jobs are deleted, by id where the ids are known and else by
// draining the tube, and the account must close: jobs put, less jobs deleted,
// less jobs cleaned, is jobs lost, and a lost job is an error like a wrong
// reply is. The body of every reserved job is compared with what was put.
//
// # The parts
//
// session.go says what a load is to its driver; cycle.go, flow.go and expire.go
// hold the loads as state machines, and tally.go verifies and counts replies.
// drive.go and drive_linux.go drive them; secure_linux.go has TLS for the latter.
// target.go is how a connection is made, and credentials.go what that takes. prepare.go makes and cleans jobs; run.go
// puts one load together and report.go shows it. loads.go names the usual loads;
// compare.go, servers.go, table.go and svg.go run them over several servers and
// draw up the result. The protocol is read by package protocol/client.
package main
