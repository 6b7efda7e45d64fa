package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// harness is a Throttle with a clock that is set by the test, and with its output.
type harness struct {
	Throttle
	now time.Time
	out bytes.Buffer
	to  *slog.Logger
}

func newHarness() *harness {
	h := &harness{now: time.Unix(1_700_000_000, 0)}
	h.Clock = func() time.Time { return h.now }
	h.to = slog.New(slog.NewTextHandler(&h.out, nil))
	return h
}

// lines returns what was logged since the last call.
func (h *harness) lines() string {
	defer h.out.Reset()
	return h.out.String()
}

func TestOneMessageInEvery(t *testing.T) {
	h := newHarness()
	for i := range 3 {
		if passed := h.Error(h.to, "the disk is full", "dir", "d"); passed != (i == 0) {
			t.Errorf("message %d passed: %v", i, passed)
		}
	}
	if got := h.lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=ERROR msg="the disk is full" dir=d`) || strings.Contains(got, "dropped") {
		t.Errorf("the first log is %q", got)
	}
	h.now = h.now.Add(ThrottleInterval - 1)
	if h.Warn(h.to, "the disk is full") {
		t.Error("a message passed too early")
	}
	h.now = h.now.Add(1)
	h.Warn(h.to, "the disk is full", "dir", "d")
	if got := h.lines(); !strings.Contains(got, `level=WARN msg="the disk is full" dir=d dropped=3`) {
		t.Errorf("after %v the log is %q", ThrottleInterval, got)
	}
	h.now = h.now.Add(ThrottleInterval)
	h.Warn(h.to, "the disk is full")
	if got := h.lines(); strings.Contains(got, "dropped") {
		t.Errorf("with none dropped the log is %q", got)
	}
}

func TestAllow(t *testing.T) {
	h := newHarness()
	for i, want := range []struct {
		after   time.Duration
		dropped int
		pass    bool
	}{{0, 0, true}, {0, 0, false}, {ThrottleInterval / 2, 0, false}, {ThrottleInterval / 2, 2, true}, {ThrottleInterval, 0, true}} {
		h.now = h.now.Add(want.after)
		if dropped, pass := h.Allow(); dropped != want.dropped || pass != want.pass {
			t.Errorf("call %d: %d dropped, pass %v, want %d and %v", i, dropped, pass, want.dropped, want.pass)
		}
	}
}

func TestZeroLog(t *testing.T) {
	var l Throttle
	passed := make(chan bool, 100)
	var calls sync.WaitGroup
	for range cap(passed) {
		calls.Go(func() {
			_, pass := l.Allow()
			passed <- pass
		})
	}
	calls.Wait()
	n := 0
	for range cap(passed) {
		if <-passed {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of %d calls at the same time passed, want 1", n, cap(passed))
	}
}

// TestArgsAreNotShared checks that the attribute is not written into the caller's slice.
func TestArgsAreNotShared(t *testing.T) {
	h := newHarness()
	args := append(make([]any, 0, 10), "a", 1)
	h.Error(h.to, "m", args...)
	h.Error(h.to, "m", args...)
	h.now = h.now.Add(ThrottleInterval)
	h.Error(h.to, "m", args...)
	if rest := args[:4]; rest[2] != nil {
		t.Errorf("the caller's slice holds %v", rest)
	}
}
