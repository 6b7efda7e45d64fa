package ledger

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A job is given up after a reserve if a later command of the same packet does so: it
// was meant for an earlier reservation, whose TTR had ended.

// newGivenUpBehind returns a client that sends bursts, a job, and the packet in which the
// client reserves it and, if behind is set, gives it up after that.
func newGivenUpBehind(behind bool) (*burster, *entry, []request) {
	l := New(Config{Bursters: 1, Excuse: func(string, time.Time) string { return "" }})
	b := &burster{client: newTestClient(l), ahead: make(map[*entry]bool)}
	b.takeSlot()
	e := l.begin(0, 10, time.Hour)
	l.inserted(e, 1, done)
	packet := []request{b.take()}
	if behind {
		packet = append(packet, b.givenUp(e, "release 1 0 0\r\n", "RELEASED"))
	}
	return b, e, packet
}

func newTestClient(l *Ledger) *client {
	return &client{ledger: l, rng: rand.New(rand.NewPCG(1, 2)), holds: make(map[*entry]*hold)}
}

// TestGivenUpBehind: a client gets the reply of its reserve late, when
// somebody else has deleted the job. That is a fault, unless the job is given up after
// the reserve.
func TestGivenUpBehind(t *testing.T) {
	for _, behind := range []bool{false, true} {
		b, e, packet := newGivenUpBehind(behind)
		l := b.ledger
		l.deleted(e, nil)
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

// TestGivenUpUnheard: a client gets the reply of its reserve, and then another one
// reserves the same job and deletes it. These are two faults, unless the job is given up after the
// reserve: the server may have executed that, and its reply is still to come.
func TestGivenUpUnheard(t *testing.T) {
	for _, behind := range []bool{false, true} {
		b, e, packet := newGivenUpBehind(behind)
		l := b.ledger
		packet[0].settle(reply{end: done, id: 1, body: l.body(e)})
		other := newTestClient(l)
		other.handedOut(e, l.sending(), &hold{since: time.Now()})
		h := other.giveUp(e)
		l.deleting(e)
		l.deletion(e, h, done)
		for _, r := range packet[1:] {
			r.settle(reply{end: done})
		}
		r := l.Report()
		if wanted := map[bool]int{false: 1}[behind]; r.Contested != wanted || r.Robbed != wanted {
			t.Errorf("given up behind it: %v: %v", behind, r)
		}
		if len(b.holds) > 0 != !behind {
			t.Errorf("given up behind it: %v: %d jobs are held", behind, len(b.holds))
		}
	}
}

// TestGivenUpInVain: a client reserves a job, and is refused when it gives it up, long before the
// TTR ends. So somebody else got the job, which is a fault.
func TestGivenUpInVain(t *testing.T) {
	b, e, packet := newGivenUpBehind(true)
	packet[0].settle(reply{end: done, id: 1, body: b.ledger.body(e)})
	packet[1].settle(reply{end: refused})
	if r := b.ledger.Report(); r.Robbed != 1 {
		t.Error(r)
	}
}
