package redis

import (
	"testing"

	"redstalk/tube"
)

// TestArrowsInBulk checks what the script takes for granted where it moves many
// jobs at once, or leaves their records as they are, see lua/rare/20_record.lua.
func TestArrowsInBulk(t *testing.T) {
	found := 0
	for _, a := range tube.Arrows() {
		switch {
		case a.Move == tube.Delete && a.From == tube.Reserved:
			if found++; !a.Held || a.To != tube.Gone || a.Counts != tube.NoCounter {
				t.Errorf("deleting a reserved job: %+v", a)
			}
		case a.Move == tube.Reserve:
			if found++; a.From != tube.Ready || a.To != tube.Reserved {
				t.Errorf("reserving: %+v", a)
			}
		}
		into := a.To == tube.Reserved && a.From != tube.Reserved
		if into != (a.Counts == tube.Reserves) {
			t.Errorf("being reserved must count as such, and nothing else: %+v", a)
		}
	}
	if found != 2 {
		t.Errorf("found %d of 2 arrows", found)
	}
}
