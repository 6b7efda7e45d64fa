package otel_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"redstalk/clients/go/otel"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

func TestMiddleware(t *testing.T) {
	c := redstalktest.Run(t)
	recorder := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
	mux := worker.NewMux()
	mux.Use(otel.Middleware(otel.Provider(provider)))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	mux.Handle("mails", func(_ context.Context, job *worker.Job) error {
		switch string(job.Body) {
		case "panic":
			panic("no")
		case "fail":
			return worker.Skip(errors.New("no address"))
		}
		stop()
		return nil
	})
	putCtx, put := trace.NewTracerProvider().Tracer("test").Start(ctx, "put")
	state, err := oteltrace.ParseTraceState("vendor=7")
	if err != nil {
		t.Fatal(err)
	}
	putCtx = oteltrace.ContextWithSpanContext(putCtx, put.SpanContext().WithTraceState(state))
	for _, body := range []string{"panic", "fail", "done"} {
		if _, err := c.Put(ctx, "mails", []byte(body), otel.Trace(putCtx)); err != nil {
			t.Fatal(err)
		}
	}
	if err := worker.New(c, worker.Config{Concurrency: 1, Signals: []os.Signal{}}).Run(ctx, mux); err != nil {
		t.Error(err)
	}
	spans := recorder.Ended()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, want := range []codes.Code{codes.Error, codes.Error, codes.Unset} {
		if s := spans[i]; s.Name() != "process mails" || s.Status().Code != want || len(s.Attributes()) != 5 {
			t.Errorf("%s %v %v", s.Name(), s.Status(), s.Attributes())
		}
		if parent := spans[i].Parent(); parent.SpanID() != put.SpanContext().SpanID() || parent.TraceState().String() != "vendor=7" {
			t.Errorf("the parent is %+v", parent)
		}
	}
}
