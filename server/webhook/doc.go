// Package webhook sends jobs to those who want to be called instead of asking: webhooks of tubes
// whose policy has the tag push, and callbacks of gateways. docs/push.md is the contract with
// receivers.
//
// # What lives here
//
//   - Dispatcher: one for each instance. It leases jobs of many tubes, has them called, and
//     deletes, releases or parks each as the call has ended (dispatcher.go).
//   - outlets and targets: an outlet is a tube whose jobs are called, a target is a host and
//     port that is. Which outlet may take how many jobs at this moment is decided in grant.go:
//     concurrency of the tube, of the target and of all, the rate, and the breaker.
//   - dispatch batches: what was called is finished, and what may be called is leased, with one batch
//     for all tubes (dispatch batch.go).
//   - policies: which tubes push, and where to (policies.go). Those of other instances are
//     found by polling.
//   - the webhook: request, signature, and what its answer means (webhook.go, secrets.go).
//   - Allow: where anything may be sent at all (allow.go), and the one HTTP client that obeys
//     it (client.go).
//   - Stats: what the metrics show (stats.go).
//
// # For gateways
//
// A gateway whose jobs say themselves whom to call registers its tubes:
//
//	remove, err := d.Register(push.Source{
//		Tubes:       []string{"…"},
//		Concurrency: 100,
//		Timeout:     3 * time.Second,
//		Call: func(ctx context.Context, j *push.Job) push.Outcome { … },
//	})
//
// Call gets each job by lease, on a goroutine of its own, and says by its Outcome what
// becomes of it: deleted, released as a failure or with a delay of the gateway's own choice,
// parked, or left as it is because Call has done something else with j.ID and j.Lease. Within
// Call:
//
//   - Dispatcher.Through(ctx, target, f) runs f under the concurrency and the breaker of the
//     target, such as "grpc://host:port". It returns ErrLeftAlone, and does not run f, while
//     the breaker is open: LeftAlone makes an Outcome of that.
//   - Dispatcher.Do(req) sends an HTTP request, and follows redirects. Dispatcher.Dial connects
//     for other protocols, such as gRPC with grpc.WithContextDialer. Both obey the list of what
//     is allowed, also after name resolution.
//
// An instance that is not to call, registers nothing.
//
// # What does not
//
// No listener, no engine. The package keeps nothing that cannot be lost: a job that was leased
// is the store's, and when its TTR is over another instance calls again.
//
// # Invariants
//
// A job is leased only when it can be called at once, so no TTR runs out in a queue in here. A
// call does not outlast the TTR of its job. What is leased and not called is given back. A
// tube without a job, however many there are, has no goroutine and no timer.
//
// Dispatcher.mu guards all scheduling. It is held only for work in memory, never during a call
// of the queue or of a Source. Locks of the queue may be held when it is taken (the queue calls
// Ready), so the queue is never called under it.
package webhook
