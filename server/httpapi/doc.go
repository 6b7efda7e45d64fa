// Package httpapi is the HTTP API of docs/http.md: JSON over HTTP, with its OpenAPI document and
// a page that shows it. The browser console is package httpapi/console.
//
// # Reading order
//
// From the request downwards: a file uses files of its own line and of lines below.
//
//   - api.go: API, an http.Handler on a queue.Queue, its Config, and the routes. Package
//     httpserve runs it.
//   - operations.go: the table of operations. A row (row.go) has the method, the path, the right
//     that the operation needs, and where it names tubes. Routing, the OpenAPI document
//     (openapi.go) and the checks of every request follow from the table. To add an operation,
//     add a row.
//   - guard.go, authenticate.go, rights.go: what a request must pass before its operation sees
//     it. It needs a clean path, known query parameters, a user with the right, and for changes
//     a proof that no HTML form of another site sent it.
//   - put.go, batch.go, reserve.go, finish.go: the frequent operations. They parse requests and
//     write JSON themselves, with request.go.
//   - ended.go: results of jobs and records of those that have ended.
//   - checkpoints.go: progress and checkpoints of jobs.
//   - jobs.go, search.go, actonall.go and walk.go (jobs of many tubes, in steps), tubes.go, history.go, policy.go, groups.go, schedules.go, jobbatches.go, server.go,
//     clients.go, store.go, backup.go: all other operations, as functions of a typed input, which huma parses
//     and validates. Both kinds are documented by types.
//   - events.go: the event streams.
//   - service.go: what all operations share. Each operation is a method of service.
//   - sampler.go polls tubes once a second for /v1/events. poller.go polls all tubes for
//     /v1/watch (watch.go) and for the charts (charts.go).
//   - newjob.go, info.go, scheduleinfo.go, values.go, fields.go: jobs, tubes, schedules and other values in JSON and in
//     queries.
//   - request.go: bodies of requests and answers.
//   - limiter.go: limits for requests that take long, shared fairly between clients. waiting.go: the
//     requests that wait for a job, for lists of connections.
//   - audit.go: administrative acts for the audit log.
//   - problem.go: errors as clients see them, as RFC 9457 problem documents.
//
// # Not in this package
//
// Listening, timeouts and the end of connections are in package httpserve. Waiting for jobs and
// leases are in package queue. Metrics and the console are handlers that a Config brings along.
//
// # Invariants
//
// A request that is answered with a problem has changed nothing, unless the problem says that
// the store is not available: then the change may or may not take effect. In a batch this holds
// for each job.
//
// A client that disconnects while it waits takes no job with it. All jobs and policies are in
// the store, so any instance can answer any request.
package httpapi
