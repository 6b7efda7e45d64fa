package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
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

// limited returns a context that no call of a test should reach the end of.
func limited(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(stop)
	return ctx
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// mustPut puts a job and returns its id.
func mustPut(t *testing.T, c *client.Client, tube, body string, opts ...client.PutOption) uint64 {
	t.Helper()
	r, err := c.Put(limited(t), tube, []byte(body), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}
