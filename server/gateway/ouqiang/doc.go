// Package ouqiang is a listener for clients of ouqiang/delay-queue: its five paths, with its
// fields, its messages in their order, and status 200 whatever happens.
//
//   - New: the handler (handler.go).
//   - ReadConfig: the configuration file of the old program (config.go).
//
// A job of topic T and id K is a job of tube T with key K, see package gateway. pop leases
// it, so it is delivered again when its ttr is over, and neither the connection nor the
// instance matters until then. finish and delete remove a job whatever its state.
//
// # Where it differs from the old program
//
// A job is never lost between being popped and being put back for its ttr: the store does
// both in one step. A job is delivered once, however many instances there are. pop does not
// answer null because the job that it had found was deleted; it waits on. Errors of the
// store are words of the beanstalk protocol, not those of Redis. With Config.Strict, finish
// of a job that is taken needs the lease that pop has answered.
package ouqiang
