package queue

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage/telemetry"
)

// TestLagIsLogged: a timer that fires late is logged, but not every time.
func TestLagIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		timer := newTimer(nil, nil, nil, slog.New(slog.NewTextHandler(&log, nil)), nil)
		fire := func(late time.Duration) {
			timer.at = time.Now().Add(-late)
			timer.logLag()
		}
		want := func(what string) {
			t.Helper()
			if got := log.String(); !strings.HasSuffix(got, what) || strings.Count(got, "\n") != strings.Count(what, "\n") {
				t.Errorf("logged %q, want %q", got, what)
			}
			log.Reset()
		}
		fire(lagWorthLogging)
		want("")
		fire(time.Second)
		want("by=1s times=1\n")
		fire(3 * time.Second)
		fire(2 * time.Second)
		want("")
		time.Sleep(telemetry.ThrottleInterval)
		fire(time.Second)
		want("by=3s times=3\n")
		time.Sleep(telemetry.ThrottleInterval)
		fire(2 * time.Second)
		want("by=2s times=1\n")
	})
}
