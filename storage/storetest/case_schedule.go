package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// The schedule of a payment notification: eight deliveries within about a day.

var paymentWaits = []time.Duration{
	2 * time.Minute, 10 * time.Minute, 10 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour,
}

// paymentOffsets are the times of the deliveries, counted from the put.
var paymentOffsets = []time.Duration{
	0, 2 * time.Minute, 12 * time.Minute, 22 * time.Minute, 82 * time.Minute, 202 * time.Minute, 562 * time.Minute, 1462 * time.Minute,
}

// early is how long before each delivery the test checks that the job is not ready.
const early = 20 * time.Second

// testPaymentSchedule runs a job through the schedule, given by its own tags and by the policy of
// its tube. The store is reopened in the middle.
func testPaymentSchedule(b *harness) {
	b.setPolicy("policy", &tube.Policy{Rules: tube.Rules{Retry: paymentWaits}})
	for name, tags := range map[string]tube.Tags{"tags": {Rules: tube.Rules{Retry: paymentWaits}}, "policy": {}} {
		id, at := b.putNew(name, tags), time.Duration(0)
		for n, offset := range paymentOffsets {
			if b.advance(offset - at + time.Second); b.take(1, name) != id {
				b.Fatalf("%s: delivery %d does not come at %v", name, n+1, offset)
			}
			b.must(tube.Release, 1, id)
			if at = offset; n == len(paymentWaits) {
				break
			}
			b.wantFailures(id, tube.Delayed, tube.NotParked, uint32(n+1))
			if left := b.job(id).TimeLeft; !near(left, paymentWaits[n], early/2) {
				b.Errorf("%s: after delivery %d it is due in %v", name, n+1, left)
			}
			if n == 3 && b.engine.Durable {
				b.close()
				b.open()
			}
			b.advance(paymentWaits[n] - early)
			if at += paymentWaits[n] - early; b.take(1, name) != 0 {
				b.Fatalf("%s: delivery %d comes early", name, n+2)
			}
		}
		b.wantFailures(id, tube.Buried, tube.ParkedRetries, 8)
		if b.advance(100 * time.Hour); b.take(1, name) != 0 {
			b.Errorf("%s: it is delivered again", name)
		}
		b.must(tube.Delete, 1, id)
	}
}

// testScheduleEnds: a success in the middle ends the schedule, and a change of the policy applies
// from the next failure on.
func testScheduleEnds(b *harness) {
	id := b.putNew("t", tube.Tags{Rules: tube.Rules{Retry: paymentWaits}})
	for _, wait := range paymentWaits[:3] {
		b.wantTake(1, "t", id)
		b.must(tube.Release, 1, id)
		b.advance(wait + time.Second)
	}
	b.wantTake(1, "t", id)
	b.must(tube.Delete, 1, id)
	if b.advance(100 * time.Hour); b.take(1, "t") != 0 || b.job(id).State != tube.Gone {
		b.Error("it still exists after the success")
	}

	b.setPolicy("p", &tube.Policy{Rules: tube.Rules{Retry: paymentWaits}})
	id = b.do(storage.Op{Kind: storage.Put, Tube: "p", TTR: 60}).ID
	b.wantTake(1, "p", id)
	b.must(tube.Release, 1, id)
	b.setPolicy("p", &tube.Policy{Rules: tube.Rules{Retry: []time.Duration{time.Minute, 3 * time.Hour}}})
	b.advance(2*time.Minute - early)
	b.wantTake(1, "p") // the wait of the last failure is unchanged
	b.advance(early + time.Second)
	b.wantTake(1, "p", id)
	b.must(tube.Release, 1, id)
	if left := b.job(id).TimeLeft; !near(left, 3*time.Hour, early) {
		b.Errorf("with the new policy it is due in %v", left)
	}
	b.advance(3*time.Hour + time.Second)
	b.wantTake(1, "p", id)
	b.must(tube.Release, 1, id)
	b.wantFailures(id, tube.Buried, tube.ParkedRetries, 3)
}

// wantFailures checks the state and the counts of a job of which each delivery has failed.
func (b *harness) wantFailures(id uint64, state tube.State, parked tube.Parked, n uint32) {
	b.Helper()
	s, metadata := b.job(id), tube.Metadata{}
	if s.Metadata != nil {
		metadata = *s.Metadata
	}
	if s.State != state || metadata.Parked != parked || metadata.Failures(&s.Counters) != n || metadata.Deliveries(&s.Counters) != n {
		b.Fatalf("%+v, %+v; want %v, parked %q, %d failures", s, s.Metadata, state, parked, n)
	}
}
