// Package attack runs workloads that hurt queue servers against redstalk, and measures the
// effect on other clients: backlogs of a hundred thousand jobs, connections that watch as
// many tubes, holders that die with all their jobs, bodies of the largest size.
//
//	stalkbench attack --bin bin/redstalkd [--only NAME,...]
//
// Each attack starts and stops its own servers on free loopback ports: with the memory
// engine, the embedded engine, or one or two instances on a redis-server. The
// result is a table: what was done, the goal, and what was measured.
// Nothing fails here; the figures are for people, who know what else the machine does.
//
// # Contents
//
//   - main.go: the list of attacks, the table.
//   - cluster.go: servers and their memory and processor time; redis.go: redis-server and its
//     longest call. link.go: a slow line.
//   - client.go: commands in bulk. bystander.go: a client that works during an attack
//     and records how long it waits.
//   - waits.go, large.go, burst.go, tubes.go, holders.go, moves.go, millions.go, check.go: the
//     attacks; pair.go: how those with a million jobs are measured.
//   - costs.go: the cost of jobs with tags in memory and time.
//   - http.go, push.go: attacks over HTTP and by pushes, and the throughput figures for these in
//     docs/benchmarks.
//
// Ordinary throughput is measured by stalkbench run and compare; run is also used by http-rate. Whether a
// server keeps what it has acknowledged is tested by the ledger and the tests of cmd/redstalkd.
package attack
