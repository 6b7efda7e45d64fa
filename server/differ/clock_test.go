package differ

import (
	"errors"
	"testing"
	"time"
)

// TestExcuse: a server that was held up until an event was due has an excuse for
// differing then, unless nothing was due, or it was held up for very long.
func TestExcuse(t *testing.T) {
	fault := &Fault{Verb: "release", Want: `"RELEASED"`, Got: `"NOT_FOUND"`}
	for _, c := range []struct {
		name       string
		timed      bool
		took       time.Duration
		dueIn      time.Duration // from the step's begin on; 0 is nothing
		err        error
		wantExcuse bool
	}{
		{"held up", true, time.Second, 900 * time.Millisecond, fault, true},
		{"in time", true, 0, 900 * time.Millisecond, fault, false},
		{"nothing due", true, time.Second, 0, fault, false},
		{"for very long", true, 2 * longStall, time.Second, fault, false},
		{"no timed script", false, time.Second, 900 * time.Millisecond, fault, false},
		{"another error", true, time.Second, 900 * time.Millisecond, errors.New("broken"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &episode{timed: c.timed, begun: time.Now().Add(-c.took)}
			if c.dueIn > 0 {
				e.events = []event{{lo: e.begun.Add(c.dueIn)}}
			}
			err := e.excuse(c.err, e.nextEvent())
			var still *Fault
			if excused := errors.Is(err, errVoid); excused != c.wantExcuse || excused && errors.As(err, &still) {
				t.Errorf("excused %t: %v", excused, err)
			}
		})
	}
}
