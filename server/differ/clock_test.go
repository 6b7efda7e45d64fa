package differ

import (
	"testing"
	"time"
)

// TestKickedForAWaiter: who waits may have got a job before the one who has
// kicked it is told so. That the TTR runs must not be forgotten then.
func TestKickedForAWaiter(t *testing.T) {
	e := &episode{
		timed: true, begun: time.Now(), jobs: map[int]*job{7: {ttr: 1}}, byJudge: map[uint64]int{3: 7},
		conns: map[int]*conn{0: newConn(0, &sums{}), 1: newConn(0, &sums{})},
	}
	e.arm(event{kind: matures, job: 7}, 1)
	e.learn(0, &asked{verb: "reserve", line: "reserve"}, reply{head: "RESERVED 3 2"})
	e.learn(1, &asked{verb: "kick-job", line: "kick-job 3"}, reply{head: "KICKED"})
	if len(e.events) != 1 || e.events[0].kind != expires {
		t.Errorf("what is due: %+v", e.events)
	}
}
