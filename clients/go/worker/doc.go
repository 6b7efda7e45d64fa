// Package worker runs handlers for the jobs of tubes.
//
//	mux := worker.NewMux()
//	mux.HandleType("mails", "welcome", worker.Typed(func(ctx context.Context, job *worker.Job, w Welcome) error {
//		return send(ctx, w.Email)
//	}))
//	mux.Handle("files", func(ctx context.Context, job *worker.Job) error { return store(ctx, job.Body) })
//	w := worker.New(client.New("127.0.0.1:11300"), worker.Config{Concurrency: 10})
//	err := w.Run(ctx, mux) // until SIGINT or SIGTERM
//
// # What a handler's result means
//
//   - nil: the job is done and deleted, with the result of [Job.Result] if its record is kept. [Reply] makes a handler of a function.
//   - [Skip]: the job is buried, and not tried again until somebody kicks it.
//   - [Snooze]: the job comes again after a while.
//   - [ErrNotFinished]: the job comes again at once, and goes on from its last [Job.Checkpoint].
//   - any other error, a panic and runtime.Goexit: a failure. If the job or its tube's policy has retry waits, the server
//     applies them, and its dead-letter tube. Otherwise the worker's [Backoff] does.
//
// Delivery is at least once: a job whose worker dies comes again. Make handlers idempotent.
//
// # How long a worker has a job
//
// The worker touches each job at a third of its TTR, for as long as its handler runs. So the TTR only
// has to be longer than an outage that should be survived. The context of a handler ends when the job
// is no longer its own: another worker may have it then. [context.Cause] is [ErrLeaseLost] in this case, [ErrTimeout] when the handler
// has run for too long, and [ErrShutdown] when the worker shuts down and the time for that is over.
//
// # Redstalk and beanstalkd
//
// With redstalk, jobs are leased: one connection reserves for all handlers, and a lost
// connection loses no job. With beanstalkd, where a job belongs to its connection, each handler has a
// connection, and a handler whose connection is lost loses its job. A worker never takes more jobs than it has
// free handlers.
//
// # Where to read
//
// [Worker] (worker.go) runs fetchers (fetch.go), which take jobs by the weights of tubes (pick.go). process.go
// calls the handler, lease.go keeps the job meanwhile, timeout.go limits its time, checkpoint.go saves how far it is, settle.go does
// what the result means, onerror.go tells failures. typed.go has handlers of data, periodic.go sets schedules, and testjob.go is for unit tests.
package worker
