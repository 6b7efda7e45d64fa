// Package otel has OpenTelemetry middleware for package worker. It is a module of its own, so that who does not use
// it does not need OpenTelemetry.
//
//	mux.Use(otel.Middleware())
package otel

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

const scope = "redstalk/clients/go/otel"

// Option changes the middleware.
type Option func(*config)

type config struct{ provider trace.TracerProvider }

// Provider sets where spans go; otel.GetTracerProvider() by default.
func Provider(p trace.TracerProvider) Option { return func(c *config) { c.provider = p } }

// Middleware makes a span for each job, from the call of the handler to its return. It is named "process TUBE", and its attributes
// are those of the semantic conventions for messaging. The error of a handler is its status; [worker.Snooze],
// [worker.Skip] and [worker.ErrNotFinished] are errors as well. If the job was put with [Trace], the span continues that trace.
func Middleware(opts ...Option) worker.Middleware {
	c := config{provider: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&c)
	}
	tracer := c.provider.Tracer(scope)
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, job *worker.Job) error {
			ctx, span := tracer.Start(continued(ctx, job), "process "+job.Tube,
				trace.WithSpanKind(trace.SpanKindConsumer),
				trace.WithAttributes(
					attribute.String("messaging.system", "redstalk"),
					attribute.String("messaging.operation.type", "process"),
					attribute.String("messaging.destination.name", job.Tube),
					attribute.String("messaging.message.id", strconv.FormatUint(job.ID, 10)),
					attribute.Int("messaging.message.body.size", len(job.Body)),
				))
			return end(span, func() error { return next(ctx, job) })
		}
	}
}

// errPanic is the status of a span whose handler panicked.
var errPanic = errors.New("the handler panicked")

// end ends a span with the result of f, also if that panics.
func end(span trace.Span, f func() error) error {
	err := errPanic
	defer span.End() // also if the methods of err panic
	defer func() {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
	}()
	err = f()
	return err
}

// The names of W3C trace context. The first travels in the job's trace, the second in its meta.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

// continued returns a context with the trace of the put, if the job came with one.
func continued(ctx context.Context, job *worker.Job) context.Context {
	known := job.Known()
	if known == nil || known.Trace == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: known.Trace, tracestate: known.Meta[tracestate]})
}

// Trace is an option of a put that sends the trace of ctx with the job. It needs a server with the capability meta; others
// refuse the put with [client.ErrUnsupported]. Without a trace in ctx it does nothing.
func Trace(ctx context.Context) client.PutOption {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	var opts []client.PutOption
	if parent := carrier[traceparent]; parent != "" {
		opts = append(opts, client.Trace(parent))
	}
	if state := carrier[tracestate]; state != "" {
		opts = append(opts, client.Meta(tracestate, state))
	}
	return client.Options(opts...)
}
