package main

import (
	"context"
	"time"

	"redstalk/server/tracing"
	"redstalk/storage"
)

// spanGrace is how long the end of the process waits for the collector of --otlp.
const spanGrace = 2 * time.Second

// openTracing starts what --otlp asks for. through is what queue.Config wants, nil without the flag.
func (p *program) openTracing() (through func(storage.Store) storage.Store, end func(), err error) {
	if p.otlp == "" {
		return nil, func() {}, nil
	}
	t, err := tracing.New(tracing.Config{URL: p.otlp, Version: Version, Log: p.log})
	if err != nil {
		return nil, nil, failure(exitFailure, "--otlp: %w", err)
	}
	p.observer.Tracing(t.Dropped)
	return t.Store, func() {
		ctx, cancel := context.WithTimeout(context.Background(), spanGrace)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			p.log.Warn("the last spans could not be sent", "err", err)
		}
	}, nil
}
