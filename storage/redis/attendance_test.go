package redis

import (
	"slices"
	"testing"

	"redstalk/tube"
)

func TestAttendance(t *testing.T) {
	a, nobody := make(attendance), func(string) int { return 0 }
	if !a.count("t", tube.Using, 1) || a.count("t", tube.Watching, 1) {
		t.Error("only the first connection at a tube is worth telling at once")
	}
	if got := a.untold(nobody, false); !slices.Equal(got, []string{"t"}) {
		t.Errorf("untold: %v", got)
	}
	a.tell("t", 0)
	if got := a.untold(nobody, false); len(got) != 0 {
		t.Errorf("untold after it was told: %v", got)
	}
	a.forget() // the call that told it has failed
	if got := a.untold(nobody, false); !slices.Equal(got, []string{"t"}) {
		t.Errorf("untold after the call failed: %v", got)
	}
	if a.count("t", tube.Using, -1) || !a.count("t", tube.Watching, -1) {
		t.Error("only the last connection at a tube is worth telling at once")
	}
}
