// Stalkbench is a load generator and benchmark for beanstalk servers.
//
// # What is measured
//
// One operation is one command: a job that is put, reserved and deleted is
// three. A command is counted when its reply has been read and verified within
// the load's duration. Replies after that, while the last cycles end and the
// jobs are deleted, are not counted.
//
// The load is a closed loop. Every connection sends a stage — one command, or
// with a pipeline of N the same command N times in one write — and sends the
// next only when all its replies have come. A latency is therefore that of a
// stage, and with a pipeline of one that of a command. A closed loop slows down
// with the server, so its percentiles show how long a client waited, not how
// long a client would wait under a constant load.
//
// Throughput alone favours a server that uses every core, so the
// processor time and memory of the processes of --pid are measured
// and shown per operation, next to the generator's own.
//
// # Overhead of the generator
//
// On a small machine the generator competes with the server for processor
// time. Three things keep its cost low. A connection is a state machine (a
// [session]) rather than a goroutine, and a few threads each drive many of them
// from one epoll loop: one read, one write and one reading of the clock per
// stage. The bytes of puts and reserves are made once and sent repeatedly.
// Replies are parsed in place, in the buffer they were read into, and
// nothing on this path allocates. Where there is no epoll, a goroutine per
// connection drives the same sessions; --blocking selects that everywhere.
//
// The remaining cost is almost all in the kernel: sending, receiving and polling. If
// a server answers the commands of a pipeline one by one, the generator also
// reads them one by one, which costs it several times more than replies in one
// write. With a single connection both sides sleep between
// commands, and whether the kernel runs them on one core or two changes the
// figure several times over: take many rounds and look at the extremes.
//
// # Cleaning up
//
// Every tube has a name that no other run uses, and the tool touches only those. At
// the end the jobs are deleted, by id if the ids are known, else by
// draining the tube. The account must balance: jobs put, less jobs deleted,
// less jobs cleaned, is jobs lost, and a lost job is an error like a wrong
// reply. The body of every reserved job is compared with what was put.
//
// # Files
//
// Read in this order: main.go has the commands. session.go defines what a load is to its driver. cycle.go, flow.go and
// expire.go are the loads as state machines, groups.go their jobs in groups, http.go the one over HTTP, and
// counters.go verifies and counts replies, with hist.go. drive.go and drive_linux.go (drive_other.go without epoll) drive them; secure_linux.go has TLS for the latter.
// target.go makes connections, and credentials.go certificates and users. prepare.go makes and
// deletes jobs; run.go runs one load, proc.go measures the server's processes, and report.go shows it. loads.go has the named loads;
// compare.go, servers.go, table.go and svg.go run them on several servers and
// show the result. Package attack, below this one, is stalkbench attack. The protocol is read by package
// protocol/client.
package main
