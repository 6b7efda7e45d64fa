// Package ouqiang is a gateway for clients of ouqiang/delay-queue: its five paths, with its
// fields, its messages in their order, and status 200 whatever happens.
//
//   - handler.go: New returns the handler.
//   - config.go: ReadConfig reads the configuration file of the old program.
//
// A job of topic T and id K is a job of tube T with key K, see package gateway. pop leases
// it, so it is delivered again when its ttr ends, and neither the connection nor the
// instance matters until then. finish and delete remove a job whatever its state.
//
// # Differences from the old program
//
// A job is never lost between being popped and being put back for its ttr: the store does
// both in one step. A job is delivered once, however many instances there are. pop does not
// answer null because the job that it had found was deleted; it continues to wait. Errors of
// the store are words of the beanstalk protocol, not those of Redis. With Config.Strict,
// finish of a reserved job needs the lease that pop has answered.
package ouqiang
