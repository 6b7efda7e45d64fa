package attack

import (
	"testing"
	"time"
)

// at is a wait that begins begun milliseconds after the others, and takes took milliseconds.
func at(begun, took int) wait {
	const ms = time.Millisecond
	return wait{time.Unix(0, 0).Add(time.Duration(begun) * ms), time.Duration(took) * ms}
}

// TestApart: the time that a wait has in common with one other wait does not count; common time with
// two other waits is not added up.
func TestApart(t *testing.T) {
	for _, test := range []struct {
		name             string
		waits, elsewhere []wait // the shortest first
		want             int    // ms
	}{
		{"nobody waited elsewhere", []wait{at(0, 3), at(10, 20)}, nil, 20},
		{"at another time", []wait{at(10, 20)}, []wait{at(30, 20), at(0, 10)}, 20},
		{"just as long", []wait{at(10, 20)}, []wait{at(10, 20)}, 0},
		{"for longer", []wait{at(10, 20)}, []wait{at(5, 50)}, 0},
		{"in its middle", []wait{at(10, 20)}, []wait{at(15, 5)}, 15},
		{"at its end", []wait{at(10, 20)}, []wait{at(25, 30)}, 15},
		{"for two replies", []wait{at(10, 20)}, []wait{at(10, 5), at(16, 8)}, 12},
		{"beside the longest only", []wait{at(100, 9), at(10, 20)}, []wait{at(10, 19)}, 9},
		{"none", nil, []wait{at(10, 19)}, 0},
	} {
		if got := longestAlone(test.waits, test.elsewhere); got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("%s: %v, want %d ms", test.name, got, test.want)
		}
	}
}
