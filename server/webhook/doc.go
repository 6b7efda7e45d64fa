// Package webhook pushes jobs to receivers instead of waiting for reserves: webhooks of
// tubes whose policy has the tag push, and callbacks of gateways. docs/push.md is the
// contract with receivers.
//
// # Reading order
//
//   - dispatcher.go: Dispatcher, one for each instance. It leases jobs of many tubes, makes
//     the calls, and deletes, releases or parks each job when its call has ended.
//   - subscription.go, target.go: a subscription is a tube whose jobs are pushed, a target
//     is a scheme, host and port that gets calls.
//   - grant.go: how many jobs each subscription can take now, given the concurrency of the
//     tube, of the target and of all calls, and the circuit breaker. The rate is the store's: it
//     hands out no job before its time, and wakes the tube then.
//   - dispatch.go: dispatches. One store batch for all tubes finishes the jobs whose
//     calls have ended, and leases those that can be called.
//   - job.go: Source, Job and Outcome; when a job is due again after a failure.
//   - webhook.go, secrets.go: the webhook: request, signature, and what its answer means.
//   - checkpoint.go: the checkpoint of a job, in a call and in its answer.
//   - policies.go: which tubes push, and where to. Policies that other instances set are
//     found by polling.
//   - allow.go, client.go: Allow, the list of what requests may be sent to, and the one HTTP
//     client, which obeys it.
//   - route.go: a request whose used connection turns out to be closed is sent once more.
//   - stats.go: Stats, for the metrics.
//   - gateway.go: what gateways use.
//
// # For gateways
//
// A gateway whose jobs say where to call registers its tubes:
//
//	remove, err := d.Register(webhook.Source{
//		Tubes:       []string{"…"},
//		Concurrency: 100,
//		Timeout:     3 * time.Second,
//		Call: func(ctx context.Context, j *webhook.Job) webhook.Outcome { … },
//	})
//
// Call gets each job with a lease, on a goroutine of its own. Its Outcome says what happens
// to the job: it is deleted, released as a failure or with a delay chosen by the gateway,
// parked, or left as it is because Call has done something else with j.ID and j.Lease.
// Within Call:
//
//   - Dispatcher.Through(ctx, target, f) runs f under the concurrency limit and the circuit
//     breaker of the target, such as "grpc://host:port". While the breaker is open, it
//     returns ErrBreakerOpen and does not run f: BreakerOpen returns the Outcome for that.
//   - Dispatcher.Do(req) sends an HTTP request, and follows redirects. Dispatcher.Dial
//     connects for other protocols, such as gRPC with grpc.WithContextDialer. Both obey
//     Allow, also after name resolution.
//
// An instance that must not make calls registers nothing.
//
// # What is elsewhere
//
// The package knows no listener and no engine. It holds no state that must survive: a
// leased job is in the store, and when its TTR ends, another instance calls it again.
//
// # Invariants
//
// A job is leased only when it can be called at once, so no TTR runs out in a queue of this
// package. A call does not outlast the TTR of its job. What is leased and not called is
// given back. A tube without a job, however many there are, has no goroutine and no timer.
//
// Dispatcher.mu guards all scheduling. It is held only for work in memory, never during a
// call of the queue or of a Source. Locks of the queue may be held when it is acquired (the
// queue calls WakeUp), so the queue is never called while it is held.
package webhook
