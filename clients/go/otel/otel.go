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

// traceTag is the tag of a put that carries the trace context.
const traceTag = "trace"

// Option changes the middleware.
type Option func(*config)

type config struct{ provider trace.TracerProvider }

// Provider sets where spans go; otel.GetTracerProvider() by default.
func Provider(p trace.TracerProvider) Option { return func(c *config) { c.provider = p } }

// Middleware makes a span for each job, from the call of the handler to its return. It is named "process TUBE", and its attributes
// are those of the semantic conventions for messaging. The error of a handler is its status; [worker.Snooze] and
// [worker.Skip] are errors as well. If the server sends the trace context of the put with the job, the span is linked to it.
func Middleware(opts ...Option) worker.Middleware {
	c := config{provider: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&c)
	}
	tracer := c.provider.Tracer(scope)
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, job *worker.Job) error {
			ctx, span := tracer.Start(ctx, "process "+job.Tube, append(links(job),
				trace.WithSpanKind(trace.SpanKindConsumer),
				trace.WithAttributes(
					attribute.String("messaging.system", "redstalk"),
					attribute.String("messaging.operation.type", "process"),
					attribute.String("messaging.destination.name", job.Tube),
					attribute.String("messaging.message.id", strconv.FormatUint(job.ID, 10)),
					attribute.Int("messaging.message.body.size", len(job.Body)),
				))...)
			return end(span, func() error { return next(ctx, job) })
		}
	}
}

// errPanic is the status of a span whose handler panicked.
var errPanic = errors.New("the handler panicked")

// end ends a span with the result of f, also if that panics.
func end(span trace.Span, f func() error) error {
	err := errPanic
	defer func() {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	err = f()
	return err
}

// links returns a link to the trace of the put, if the job came with it.
func links(job *worker.Job) []trace.SpanStartOption {
	known := job.Known()
	if known == nil || known.Trace == "" {
		return nil
	}
	carrier := propagation.MapCarrier{"traceparent": known.Trace}
	put := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if !put.IsValid() {
		return nil
	}
	return []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: put})}
}

// Trace is an option of a put that sends the trace context of ctx with the job. The server must have the tag trace;
// others refuse the put with [client.ErrInvalid]. Without a trace in ctx it does nothing.
func Trace(ctx context.Context) client.PutOption {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if parent := carrier["traceparent"]; parent != "" {
		return client.Tag(traceTag, parent)
	}
	return client.Options()
}
