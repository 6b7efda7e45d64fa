package redis

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
)

// lateLine is the log message about lateness.
var lateLine = regexp.MustCompile(`level=WARN msg="delays, TTRs or pauses have ended late" by=(\S+) times=(\d+)`)

// TestTimerLagIsLogged: lateness is logged, but not every time; punctual things are not.
func TestTimerLagIsLogged(t *testing.T) {
	url := redistest.Start(t).URL()
	begin := map[string]func(s *Store){
		"delay": func(s *Store) {
			do(s, storage.Op{Kind: storage.Put, Tube: "t", Delay: 1, TTR: 600})
		},
		"TTR": func(s *Store) {
			do(s, storage.Op{Kind: storage.Put, Tube: "u", TTR: 1})
			do(s, takeFrom(7, false, "u"))
		},
		"pause": func(s *Store) {
			do(s, storage.Op{Kind: storage.Pause, Tube: "t", Delay: 1})
		},
	}
	for _, partitions := range []int{1, 4} {
		for what, begin := range begin {
			t.Run(fmt.Sprint(what, partitions), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testTimerLag(t, url, partitions, begin) })
			})
		}
	}
}

func testTimerLag(t *testing.T, url string, partitions int, begin func(s *Store)) {
	var log bytes.Buffer
	o := Options{URL: url, Partitions: partitions, Namespace: fmt.Sprint(t.Name(), partitions), Log: slog.New(slog.NewTextHandler(&log, nil))}
	h := newHarness(t, o)
	defer h.Close()
	late := func(by time.Duration, want ...string) {
		t.Helper()
		log.Reset()
		begin(h.Store)
		h.ahead.Add(int64(time.Second + by))
		h.Tick()
		got := lateLine.FindStringSubmatch(log.String())
		if (len(got) > 0) != (len(want) > 0) {
			t.Fatalf("late by %v: logged %q", by, log.String())
		}
		if len(got) == 0 {
			return
		}
		most, err := time.ParseDuration(got[1])
		least, _ := time.ParseDuration(want[0])
		if err != nil || most < least-10*time.Millisecond || most > least+500*time.Millisecond || got[2] != want[1] {
			t.Errorf("late by %v: logged %q, want by=%s times=%s", by, got[0], want[0], want[1])
		}
	}
	late(300 * time.Millisecond)
	late(4*time.Second, "4s", "1")
	late(6 * time.Second)
	late(2 * time.Second)
	time.Sleep(logLagEvery)
	late(3*time.Second, "6s", "3")
}

// TestHeartbeatsAreRegular: a call shortly before the next heartbeat does not postpone that to
// the next tick, a second later.
func TestHeartbeatsAreRegular(t *testing.T) {
	var u background
	u.nothingDue()
	begun := time.Now()
	last := begun
	for _, at := range []time.Duration{0, 999, 1998, 2100, 2200, 3199, 3600, 4599} {
		now := begun.Add(at * time.Millisecond)
		ok, beat := u.begin(now, true)
		if !ok {
			t.Fatalf("after %d ms: no background work", at)
		}
		u.end()
		if beat {
			last = now
		}
		if next := now.Add(heartbeatEvery).Sub(last); next > heartbeatEvery*3/2 {
			t.Errorf("after %d ms: the next heartbeat may come %v after the last", at, next)
		}
	}
}
