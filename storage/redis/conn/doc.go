// Package conn has the connections to Redis: a single server, the primary that sentinels name,
// or the nodes of a cluster. It knows nothing of jobs.
//
// # Reading order
//
//   - address: what a URL means. certificates: the files that it names.
//   - pool: all connections of a process, and which server has which key. node: commands to one
//     server, and their replies. link: commands of one caller that sends much.
//   - errors: what the errors of Redis mean. server: whether another Redis process answers than
//     before. retire: connections that are given up.
//   - socket: a connection of its own for a link. resp and outgoing: the protocol, and how large
//     texts are sent without being copied. deadline: time limits for progress. blocking_linux.go
//     and blocking_other.go: how a reply is waited for.
//
// # Two paths
//
// Callers see only nodes and links. Below them, go-redis discovers servers, makes and
// authenticates all connections, and sends all commands of nodes and of shared links.
// A link with a socket costs this process 0.8 of the processor time per call that go-redis
// costs with 500 arguments, and 0.9 to 1.0 with 10: medians of BenchmarkLink, on a busy machine.
// It also lets its caller work between sending and receiving.
package conn
