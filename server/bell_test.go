package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLagIsLogged: a timer that rings late is remarked on, but not every time.
func TestLagIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBell(nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
		ring := func(late time.Duration) {
			b.rings = time.Now().Add(-late)
			b.noteLag()
		}
		want := func(what string) {
			t.Helper()
			if got := log.String(); !strings.HasSuffix(got, what) || strings.Count(got, "\n") != strings.Count(what, "\n") {
				t.Errorf("logged %q, want %q", got, what)
			}
			log.Reset()
		}
		ring(lagWorthLogging)
		want("")
		ring(time.Second)
		want("by=1s times=1\n")
		ring(3 * time.Second)
		ring(2 * time.Second)
		want("")
		time.Sleep(lagEvery)
		ring(time.Second)
		want("by=3s times=3\n")
		time.Sleep(lagEvery)
		ring(2 * time.Second)
		want("by=2s times=1\n")
	})
}
