// Command attack does to a running redstalk what hurts queue servers, and says what
// other clients felt of it: backlogs of a hundred thousand, connections that watch as
// many tubes, holders that die with all they hold, bodies as large as are allowed.
//
//	go run ./tools/bench/attack -bin bin/redstalkd [-only NAME,...]
//
// Each attack starts servers of its own on free loopback ports, with an engine in
// memory, one on disk, or one or two instances on a redis-server, and ends them. The
// result is a table: what was done, what is asked of the server, what was measured.
// Nothing fails here; figures are for people, who know what else the machine does.
//
// # Contents
//
//   - main.go: the list of attacks, flags, the table.
//   - stand.go: servers, and what they use; redis.go: redis-server, its longest call.
//   - client.go: commands in bulk. others.go: a client that goes about its business
//     meanwhile, and records how long it waits.
//   - waits.go, large.go, burst.go, tubes.go, holders.go, moves.go, millions.go, check.go: the
//     attacks; million.go: what those with a million jobs are measured with.
//   - costs.go: what jobs with tags cost in memory and time.
//   - http.go, push.go: those over HTTP and by pushes, among them the figures of speed that
//     docs/benchmarks.md has of these listeners.
//
// # Not here
//
// Speed of ordinary work: tools/bench compares that, and does the work of http-rate. Whether a server keeps what it has
// acknowledged: the ledger and the tests of cmd/redstalkd ask that.
package main
