// Package metrics shows operators what goes on: metrics for Prometheus, and whether the
// server lives and is ready.
//
// # What lives here
//
//   - Observer: is made before there is a queue, because an instance that loads its store has
//     to say so. It has the handlers of /metrics, /healthz and /readyz (observer.go).
//   - snapshot: what a scrape shows, collected at most once a second, for all who ask
//     (snapshot.go).
//   - definitions: the table of all metrics (metrics.go); docs/metrics.md is made of it.
//   - the listeners that speak HTTP and the pushes, which count by themselves (http.go, push.go).
//   - families: a snapshot as Prometheus's text (families.go, text.go).
//
// # What does not
//
// Counting: the listeners do it in queue.Counters, the engines by themselves (storage.Report).
// Listening and paths of other listeners: the handlers are mounted by cmd/redstalkd.
//
// # Invariants
//
// Counters and histograms are of this instance only: those of several are added up. Gauges
// about tubes and jobs are of the whole store: every instance on it shows the same. No
// counter ever shrinks but when its tube vanishes or the process begins anew.
//
// A snapshot is bounded work, however many tubes there are: by name are as many as
// Config.Tubes, and the others come from sums that the store keeps anyway. The store is
// asked in small steps, so no call of it is held up for long; and nobody waits for a store
// that is away.
package metrics
