package worker_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// onEngines runs a test with a client on each kind of server.
func onEngines(t *testing.T, test func(t *testing.T, c *client.Client, on *testserver.Cluster)) {
	for name, start := range testserver.Engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := start(t)
			c := client.New(on.Addr())
			t.Cleanup(func() { c.Close() })
			test(t, c, on)
		})
	}
}

// start runs a worker until stop is called, which returns what Run returns, or until the end of the test.
func start(t *testing.T, c *client.Client, config worker.Config, mux *worker.Mux) (stop func() error) {
	t.Helper()
	config.Signals = []os.Signal{}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- worker.New(c, config).Run(ctx, mux) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-result
	})
	t.Cleanup(func() { stop() })
	return stop
}

// handle returns a Mux with one handler.
func handle(tube string, h worker.Handler) *worker.Mux {
	mux := worker.NewMux()
	mux.Handle(tube, h)
	return mux
}

func put(t *testing.T, c *client.Client, tube, body string, opts ...client.PutOption) uint64 {
	t.Helper()
	r, err := c.Put(t.Context(), tube, []byte(body), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// receive returns the next value from ch, or fails the test after a while.
func receive[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(30 * time.Second):
		t.Fatalf("waited too long for %s", what)
	}
	return v
}

// awaitState waits until a job has the state, or is gone if that is empty.
func awaitState(t *testing.T, c *client.Client, id uint64, state string) *client.Stats {
	t.Helper()
	var s *client.Stats
	for range 1500 {
		var err error
		s, err = c.JobStats(t.Context(), id)
		if err == nil && s.State == state || err != nil && state == "" {
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("job %d: %+v, want state %q", id, s, state)
	return nil
}
