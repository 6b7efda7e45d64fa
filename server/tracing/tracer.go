package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Config configures a Tracer.
type Config struct {
	// URL is the base address of a collector's OTLP over HTTP, such as http://127.0.0.1:4318.
	URL string

	// Version is the version of the program.
	Version string

	// Log receives messages for operators.
	Log *slog.Logger
}

// tracesPath is where a collector takes spans, see https://opentelemetry.io/docs/specs/otlp/#otlphttp-request.
const tracesPath = "/v1/traces"

// CheckURL returns an error if a URL is not one of a collector.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it is no URL") // err has the text, and so perhaps a password
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("it must be http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return errors.New("secrets of a collector belong into OTEL_EXPORTER_OTLP_HEADERS")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it has a query or a fragment")
	}
	return nil
}

// Tracer exports spans. Its methods are safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
	queued   *queued // nil: spans are exported at once
	runs     runs
	full     telemetry.Throttle
	ended    chan struct{} // closed when the goroutine of Watch has ended; nil before
	stop     context.CancelFunc
}

// New returns a tracer. It does not wait for the collector. The environment variables of OpenTelemetry's exporters apply, but
// for the address: https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
func New(c Config) (*Tracer, error) {
	if err := CheckURL(c.URL); err != nil {
		return nil, err
	}
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(strings.TrimSuffix(c.URL, "/"), tracesPath)+tracesPath))
	if err != nil {
		return nil, fmt.Errorf("preparing to send spans: %w", err)
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "redstalkd"), attribute.String("service.version", c.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describing this process for spans: %w", err)
	}
	failed := new(telemetry.Throttle)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		failed.Error(c.Log, "spans could not be sent", "err", cut(err.Error()))
	}))
	waiting := &queued{SpanExporter: exporter, log: c.Log}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(waiting, sdktrace.WithMaxQueueSize(maxQueued)))
	t := newTracer(provider, c.Log)
	t.queued = waiting
	return t, nil
}

func newTracer(p *sdktrace.TracerProvider, log *slog.Logger) *Tracer {
	return &Tracer{provider: p, tracer: p.Tracer("redstalk/server/tracing"), log: log}
}

// Close sends the spans that are left. If ctx ends first, they are lost.
func (t *Tracer) Close(ctx context.Context) error {
	if t.stop != nil {
		t.stop()
		<-t.ended
	}
	return t.provider.Shutdown(ctx)
}

// span is what a span says.
type span struct {
	operation string
	kind      trace.SpanKind
	tube      string
	id        uint64
	from, to  time.Time
	outcome   string
	failure   string // description of an error; "" if it is none
	more      []attribute.KeyValue
}

// export exports a span as a child of the one in the notes of a job.
func (t *Tracer) export(n *tube.Notes, s span) {
	if !t.queued.admit() {
		return
	}
	attributes := append(s.more,
		attribute.String("messaging.system", "redstalk"),
		attribute.String("messaging.operation.name", s.operation),
		attribute.String("messaging.destination.name", s.tube),
		attribute.String("messaging.message.id", strconv.FormatUint(s.id, 10)))
	if s.outcome != "" {
		attributes = append(attributes, attribute.String("redstalk.outcome", s.outcome))
	}
	_, out := t.tracer.Start(parentOf(n), s.operation+" "+s.tube, trace.WithSpanKind(s.kind), trace.WithTimestamp(s.from), trace.WithAttributes(attributes...))
	if s.failure != "" {
		out.SetStatus(codes.Error, s.failure)
	}
	out.End(trace.WithTimestamp(s.to))
}

// flagsAt is where the flags of a traceparent are.
const flagsAt = len("00-") + 32 + len("-") + 16 + len("-")

// parentOf returns a context with the trace of a job, which is sampled, as the parent of a span.
func parentOf(n *tube.Notes) context.Context {
	carrier := propagation.MapCarrier{"traceparent": n.Trace[:flagsAt] + "01"} // the library refuses flags that it does not know
	for _, m := range n.Meta {
		if m.Name == "tracestate" {
			carrier["tracestate"] = m.Value
		}
	}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// sampled reports whether a W3C traceparent says that somebody wants spans of its trace.
func sampled(traceparent string) bool {
	if len(traceparent) < flagsAt+2 {
		return false
	}
	b, err := strconv.ParseUint(traceparent[flagsAt:flagsAt+2], 16, 8)
	return err == nil && b&1 != 0
}

// put exports the span of a put that was done.
func (t *Tracer) put(op *storage.Op, began, now time.Time) {
	tags := op.Args.Tags
	s := span{operation: "put", kind: trace.SpanKindProducer, tube: op.Tube, id: op.Answer.ID, from: began, to: now}
	s.more = []attribute.KeyValue{attribute.Int("messaging.message.body.size", len(op.Body))}
	if err := op.Answer.Err; err != nil {
		s.failure = err.Error()
	} else {
		s.outcome = [...]string{tube.PutNew: "inserted", tube.PutExisting: "existing", tube.PutDuplicate: "duplicate",
			tube.PutRefused: "refused", tube.PutSealed: "sealed"}[op.Answer.Outcome]
	}
	t.export(&tube.Notes{Trace: tags.Trace, Meta: tags.Meta}, s)
}

// wait exports the span of a job that waited, if it is known since when.
func (t *Tracer) wait(job *tube.JobStats, now time.Time) {
	notes, began := job.Metadata.AllNotes(), time.Time{}
	switch {
	case notes.FailedAt != 0:
		// FailedAt is by the clock of the store, or of a client that has copied the job.
		began = now.Add(min(0, notes.FailedAt.Until(job.Created+tube.Instant(job.Age))))
	case job.Metadata.Deliveries(&job.Counters) == 1:
		began = now.Add(-job.Age)
	default:
		return
	}
	s := span{operation: "wait", kind: trace.SpanKindInternal, tube: job.Tube, id: job.ID, from: began, to: now}
	if job.Delay > 0 {
		s.more = []attribute.KeyValue{attribute.Int("redstalk.delay", int(job.Delay))}
	}
	t.export(notes, s)
}

// run exports the span of a run that has ended.
func (t *Tracer) run(r *run, to time.Time, outcome, failure string) {
	t.export(r.job.Metadata.AllNotes(), span{
		operation: "run", kind: trace.SpanKindConsumer, tube: r.job.Tube, id: r.job.ID, from: r.began, to: to, outcome: outcome, failure: failure,
		more: []attribute.KeyValue{
			attribute.Int("redstalk.deliveries", int(r.job.Metadata.Deliveries(&r.job.Counters))),
			attribute.Int("redstalk.failures", int(r.job.Metadata.Failures(&r.job.Counters))),
		},
	})
}
