package webhook

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"redstalk/server/queue"
	"redstalk/tube"
)

// TestSpeed measures, on request, 20,000 jobs that are due at once.
func TestSpeed(t *testing.T) {
	if os.Getenv("PUSH_SPEED") == "" {
		t.Skip("PUSH_SPEED is not set")
	}
	const n = 20000
	done := make(chan struct{}, n)
	s := receiver(t, func(_ http.ResponseWriter, r *http.Request) { done <- struct{}{} })
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	for range n {
		w.Put(context.Background(), queue.NewJob{Tube: "t", TTR: 60, Body: make([]byte, 128)})
	}
	begun := time.Now()
	w.push("t", tube.Policy{Push: tube.Push{URL: s.URL}})
	for range n {
		<-done
	}
	took := time.Since(begun)
	t.Logf("%v, %.0f a second", took, n/took.Seconds())
}
