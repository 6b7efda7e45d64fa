package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// rig is a Log with a clock that is moved by hand, and what it has logged.
type rig struct {
	Log
	now time.Time
	out bytes.Buffer
	to  *slog.Logger
}

func newRig() *rig {
	r := &rig{now: time.Unix(1_700_000_000, 0)}
	r.Clock = func() time.Time { return r.now }
	r.to = slog.New(slog.NewTextHandler(&r.out, nil))
	return r
}

// lines returns what was logged since the last call.
func (r *rig) lines() string {
	defer r.out.Reset()
	return r.out.String()
}

func TestOneMessageInEvery(t *testing.T) {
	r := newRig()
	for i := range 3 {
		if passed := r.Error(r.to, "the disk is full", "dir", "d"); passed != (i == 0) {
			t.Errorf("message %d passed: %v", i, passed)
		}
	}
	if got := r.lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=ERROR msg="the disk is full" dir=d`) || strings.Contains(got, "dropped") {
		t.Errorf("at first it logs %q", got)
	}
	r.now = r.now.Add(Every - 1)
	if r.Warn(r.to, "the disk is full") {
		t.Error("a message passed too early")
	}
	r.now = r.now.Add(1)
	r.Warn(r.to, "the disk is full", "dir", "d")
	if got := r.lines(); !strings.Contains(got, `level=WARN msg="the disk is full" dir=d dropped=3`) {
		t.Errorf("after %v it logs %q", Every, got)
	}
	r.now = r.now.Add(Every)
	r.Warn(r.to, "the disk is full")
	if got := r.lines(); strings.Contains(got, "dropped") {
		t.Errorf("with none dropped it logs %q", got)
	}
}

func TestAllow(t *testing.T) {
	r := newRig()
	for i, want := range []struct {
		after   time.Duration
		dropped int
		pass    bool
	}{{0, 0, true}, {0, 0, false}, {Every / 2, 0, false}, {Every / 2, 2, true}, {Every, 0, true}} {
		r.now = r.now.Add(want.after)
		if dropped, pass := r.Allow(); dropped != want.dropped || pass != want.pass {
			t.Errorf("call %d: %d dropped, pass %v, want %d and %v", i, dropped, pass, want.dropped, want.pass)
		}
	}
}

func TestZeroLog(t *testing.T) {
	var l Log
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

// TestArgsAreNotShared: the attribute is not written into a slice of the caller's.
func TestArgsAreNotShared(t *testing.T) {
	r := newRig()
	args := append(make([]any, 0, 10), "a", 1)
	r.Error(r.to, "m", args...)
	r.Error(r.to, "m", args...)
	r.now = r.now.Add(Every)
	r.Error(r.to, "m", args...)
	if rest := args[:4]; rest[2] != nil {
		t.Errorf("the caller's slice holds %v", rest)
	}
}
