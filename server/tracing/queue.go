package tracing

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"redstalk/storage/telemetry"
)

// maxQueued limits the spans that wait to be sent.
const maxQueued = 16384

// maxError is how much of a collector's error is logged, in bytes.
const maxError = 256

// queued counts the spans that wait to be sent. The library drops those for which its queue has
// no room without a word, so they are dropped before it.
type queued struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	waiting atomic.Int64
	dropped atomic.Uint64 // also those that could not be sent

	full, failed telemetry.Throttle
}

// Dropped returns how many spans were dropped so far.
func (t *Tracer) Dropped() uint64 {
	if t.queued == nil {
		return 0
	}
	return t.queued.dropped.Load()
}

// admit reports whether there is room for a span.
func (q *queued) admit() bool {
	if q == nil { // without a queue
		return true
	}
	if q.waiting.Add(1) <= maxQueued {
		return true
	}
	q.waiting.Add(-1)
	q.full.Warn(q.log, "spans were dropped: the collector is too slow, or away", "so far", q.dropped.Add(1))
	return false
}

// ExportSpans implements sdktrace.SpanExporter.
func (q *queued) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	q.waiting.Add(-int64(len(spans)))
	if err != nil {
		q.failed.Error(q.log, "spans could not be sent, and were dropped", "so far", q.dropped.Add(uint64(len(spans))), "err", cut(err.Error()))
	}
	return nil // it is logged
}

// cut returns the beginning of an error, which can have the whole answer of a collector in it.
func cut(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + "..."
}
