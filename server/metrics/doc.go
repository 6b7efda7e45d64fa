// Package metrics shows operators the state of an instance: metrics for Prometheus, and
// whether the server is alive and ready.
//
// # Reading order
//
//   - metrics.go: the table of all metrics. docs/metrics.md is generated from it.
//   - observer.go: Observer has the handlers of /metrics, /healthz and /readyz. It is made
//     before there is a queue, because an instance that loads its store must answer too.
//   - snapshot.go: what a scrape shows, collected at most once a second for all scrapes.
//   - families.go, text.go: a snapshot in Prometheus's text format.
//   - http.go, push.go, records.go, tracing.go: the HTTP servers, webhooks, schedules and batches, which have
//     counters of their own.
//
// # What is elsewhere
//
// Listeners count in queue.Counters, engines in their own counters (storage.Report).
// cmd/redstalkd opens the listeners and mounts the handlers.
//
// # Invariants
//
// Counters and histograms are those of this instance: add them up over all instances. Gauges
// about tubes and jobs are those of the whole store: every instance shows the same. No counter
// ever decreases, except when its tube vanishes or the process restarts.
//
// The work for a snapshot is limited, however many tubes there are: Config.Tubes are shown by
// name, and the others come from totals that the store has anyway. The store is read in small
// steps, so its other callers are not delayed for long. A scrape does not wait for a store
// that cannot be reached.
package metrics
