package server

import (
	"testing"

	"redstalk/protocol"
	"redstalk/tube"
)

// TestOnDuplicateNumbers: the values of package protocol have the numbers of package tube, which are stored.
func TestOnDuplicateNumbers(t *testing.T) {
	for of, want := range map[protocol.OnDuplicate]tube.OnDuplicate{
		protocol.NotSaid: tube.NotSaid, protocol.Keep: tube.Keep, protocol.Replace: tube.Replace, protocol.Fail: tube.Fail,
	} {
		if tube.OnDuplicate(of) != want {
			t.Errorf("%q is %d for package tube, want %d", of, of, want)
		}
	}
}
