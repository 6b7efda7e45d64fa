package redis

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
)

// TestHeartbeats: a delayed heartbeat does not declare an instance dead that could not send one
// either; nor does the first heartbeat of an instance that has just started, perhaps because
// Redis was down.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	server := redistest.Start(t)
	open := func() *Store {
		s, err := Open(context.Background(), Options{
			URL: server.URL(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			skew: func() time.Duration { return time.Duration(ahead.Load()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	a := open()
	do(a, put("x"))
	if got := do(a, take(1)); got.ID != 1 {
		t.Fatalf("%+v", got)
	}
	ahead.Add(int64(schema.HeartbeatTimeout)) // nobody ticks, so a sends no heartbeat
	b := open()
	of := b.parts[0]
	beat := func(heldUp time.Duration) {
		t.Helper()
		err := of.do(func(c *call) {
			c.created -= heldUp.Milliseconds()
			of.encodeHeartbeat(c)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	do(b, put("y")) // from now on only beat sends heartbeats
	if got := figures(t, b); got.Reserved != 1 {
		t.Errorf("after the first one: %+v", got)
	}
	ahead.Add(int64(schema.HeartbeatTimeout + schema.SlowCall))
	beat(schema.SlowCall)
	if got := figures(t, b); got.Reserved != 1 {
		t.Errorf("after one that was held up: %+v", got)
	}
	beat(0)
	if got := figures(t, b); got.Reserved != 0 || got.Ready != 2 {
		t.Errorf("after one that was not: %+v", got)
	}
}
