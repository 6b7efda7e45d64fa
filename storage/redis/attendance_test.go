package redis

import (
	"slices"
	"testing"

	"redstalk/tube"
)

func TestAttendance(t *testing.T) {
	a, nobody := newAttendance(), func(string) int { return 0 }
	if !a.count("t", tube.Using, 1) || a.count("t", tube.Watching, 1) {
		t.Error("only the first connection at a tube is worth telling at once")
	}
	if got := a.untold(nobody); !slices.Equal(got, []string{"t"}) {
		t.Errorf("untold: %v", got)
	}
	a.tell("t", 0)
	if got := a.untold(nobody); len(got) != 0 {
		t.Errorf("untold after it was told: %v", got)
	}
	if !a.known("t") {
		t.Error("it was told and is not known")
	}
	a.owe("t") // the call that told it was not carried out
	if a.known("t") {
		t.Error("it is owed and known")
	}
	if got := a.untold(nobody); !slices.Equal(got, []string{"t"}) {
		t.Errorf("untold after the call failed: %v", got)
	}
	a.tell("t", 0)
	if got := a.untold(nobody); len(got) != 0 {
		t.Errorf("untold after it was told again: %v", got)
	}
	if a.count("t", tube.Using, -1) || !a.count("t", tube.Watching, -1) {
		t.Error("only the last connection at a tube is worth telling at once")
	}
}
