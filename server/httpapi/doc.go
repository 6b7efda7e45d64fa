// Package httpapi is the HTTP door: the API of docs/http.md, as JSON over HTTP, with its OpenAPI
// document and a page to read that.
//
// # What lives here
//
//   - Door: an http.Handler on a queue.Queue (web.go). Package serving runs it.
//   - The table of operations: one row for each, with its method, its path, the right that
//     it needs, and where it names tubes (operations.go). Routing, the document and the
//     checks of every request come from it; whoever adds an operation adds a row.
//   - guard: what every request has to pass before its operation sees it: a clean path, a
//     query of known parameters, and for changes a proof that no other site's form has sent
//     it (guard.go, origin.go).
//   - Operations that are asked for all the time read and write JSON by themselves (put.go,
//     batch.go, reserve.go, finish.go). All others are functions of a typed input, which
//     huma reads and checks (jobs.go, tubes.go, policy.go, instance.go). Both are documented
//     by types.
//   - sampler: counts of tubes once a second, for all who listen (events.go).
//   - places, turns: bounds of what takes long, with a share for each client (places.go).
//   - problem: errors as clients see them (problem.go).
//
// # What does not
//
// Listening, timeouts and the end of connections (package serving); who waits for what, and
// leases (package queue); metrics and the console, which are other handlers that a Config
// brings along.
//
// # Invariants
//
// A request that is answered with a problem has changed nothing, unless the problem says
// that the store is not available: then the change may or may not come about. Of a batch
// this holds for each job.
//
// A client that goes away while it waits takes no job with it. All state is in the store:
// any instance can answer any request.
package httpapi
