// Package tracing exports spans of jobs that were put with a trace, to an OpenTelemetry collector.
//
// A job has up to three spans for each time that it runs, all of them children of the span in its trace: "put TUBE",
// "wait TUBE" from the put or the last known failure to the reservation, and "run TUBE" until the reservation ends. Only
// traces that are sampled have spans.
//
// # Reading order
//
//   - tracer.go: Tracer, the exporter and the attributes.
//   - store.go: the store as the queue uses it, which looks at operations and their answers. So every entrance has
//     spans: the beanstalk port, HTTP, webhooks and gateways.
//   - runs.go: the jobs that run, and what becomes of those whose end no operation of this server says.
//
// # Invariants
//
// No operation waits for the collector: spans that it does not take in time are dropped. A server knows the end
// of a reservation only if that happened through it, or the TTR ran out: other runs have no span. At most maxRuns jobs are
// watched.
package tracing
