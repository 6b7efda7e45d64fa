package ledger

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestGivenUpBehind has a client hear late that it has reserved a job, which
// somebody else has deleted by then. That is a fault, unless a later command of the
// same packet has given the job up: it was meant for an earlier reservation.
func TestGivenUpBehind(t *testing.T) {
	for _, behind := range []bool{false, true} {
		l := New(Config{Bursters: 1, Excuse: func(string, time.Time) string { return "" }})
		c := &client{ledger: l, rng: rand.New(rand.NewPCG(1, 2)), holds: make(map[*entry]*hold)}
		b := &burster{client: c, ahead: make(map[*entry]bool)}
		b.place()
		e := l.begin(0, 10, time.Hour)
		l.inserted(e, 1, done)
		packet := []request{b.take()}
		if behind {
			packet = append(packet, b.givenUp(e, "release 1 0 0\r\n", "RELEASED"))
		}
		l.deleted(e)
		packet[0].settle(reply{end: done, id: 1, body: l.body(e)})
		for _, r := range packet[1:] {
			r.settle(reply{end: done})
		}
		r := l.Report()
		if excused := len(r.Shared) == 1; (r.Contested == 0) != behind || excused != behind {
			t.Errorf("given up behind it: %v: %v", behind, r)
		}
		if len(b.ahead) > 0 {
			t.Errorf("%d jobs are given up by replies to come", len(b.ahead))
		}
	}
}
