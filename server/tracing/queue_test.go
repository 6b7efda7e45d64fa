package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// refusing is an exporter that fails with a long error.
type refusing struct{ sdktrace.SpanExporter }

func (refusing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New(strings.Repeat("<p>", 10_000))
}

// TestDroppedSpans: spans for which there is no room, and those that a collector refuses, are counted
// and logged, with the beginning of its error.
func TestDroppedSpans(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	q := &queued{SpanExporter: refusing{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	for range maxQueued {
		if !q.admit() {
			t.Fatal("a span was dropped")
		}
	}
	if q.admit() || (&Tracer{queued: q}).Dropped() != 1 || !strings.Contains(log.String(), `"so far"=1`) {
		t.Errorf("%d dropped: %s", q.dropped.Load(), &log)
	}
	log.Reset()
	q.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 512))
	if text := log.String(); q.dropped.Load() != 513 || !strings.Contains(text, `"so far"=513`) || len(text) > 600 || !q.admit() {
		t.Errorf("%d dropped: %d bytes, %.700s", q.dropped.Load(), len(text), text)
	}
}
