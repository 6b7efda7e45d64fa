package queue

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
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

// tickStore is a store of which only the Tick is called.
type tickStore struct {
	storage.Store
	next time.Duration // until the next thing is due, after a Tick that takes a second
}

func (s *tickStore) Tick() (time.Duration, error) {
	time.Sleep(time.Second)
	return s.next, nil
}

// TestLag: the timer is as late as what it has left undone, but not for what came to the store when it was due already: with the start,
// from the disk, or because the clock was set.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &tickStore{next: -time.Hour}
		timer := newTimer(store, nil, nil, slog.New(slog.DiscardHandler), nil)
		tick := func(next, want time.Duration) {
			t.Helper()
			store.next = next
			timer.set(time.Now().Add(RetryEvery), true)
			timer.due(timer.tick(false))
			if lag := timer.lag(); lag != want {
				t.Errorf("%v late after a Tick that left %v, want %v", lag, next, want)
			}
		}
		tick(-time.Hour, time.Second)
		tick(-time.Hour, 2*time.Second)
		tick(time.Minute, 0)
		timer.due(-time.Hour)
		if lag := timer.lag(); lag != time.Second { // since the beginning of that Tick
			t.Errorf("%v late for what was read from the disk", lag)
		}
		tick(-time.Millisecond, time.Millisecond)
		tick(-time.Hour, 3*time.Second)
		tick(time.Minute, 0)
	})
}
