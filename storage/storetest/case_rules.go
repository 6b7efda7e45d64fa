package storetest

import (
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// wantRetries checks the failures and deliveries that were counted for a job, and its state.
func (b *harness) wantRetries(what string, id uint64, state tube.State, parked tube.Parked, failures, deliveries uint32) {
	b.Helper()
	s := b.job(id)
	if s.State != state || s.Metadata == nil || s.Metadata.Parked != parked ||
		s.Metadata.Failures(&s.Counters) != failures || s.Metadata.Deliveries(&s.Counters) != deliveries {
		b.Fatalf("%s: %+v, %+v; want %v, parked %q, %d failures, %d deliveries", what, s, s.Metadata, state, parked, failures, deliveries)
	}
}

// wantDue checks that a job is delayed, and for how long, to three seconds.
func (b *harness) wantDue(what string, id uint64, in time.Duration, delay uint32) {
	b.Helper()
	if s := b.job(id); s.State != tube.Delayed || s.TimeLeft > in || s.TimeLeft < in-3*time.Second || s.Delay != delay {
		b.Errorf("%s: %+v; want it due in %v", what, s, in)
	}
}

// testRetries lets a job fail in every way.
func testRetries(b *harness) {
	retry := []time.Duration{20_500 * time.Millisecond, 0, 30 * time.Second, 40 * time.Second}
	id := b.putNew("t", tube.Tags{Rules: tube.Rules{Retry: retry}})
	if s := b.job(id); s.Metadata == nil || !slices.Equal(s.Metadata.Retry, retry) || !slices.Equal(s.Rules.Retry, retry) {
		b.Fatalf("put: %+v, %+v", s, s.Metadata)
	}
	b.wantTake(1, "t", id)
	b.move(tube.Release, 1, id, 7, 0)
	b.wantRetries("released", id, tube.Delayed, tube.NotParked, 1, 1)
	b.wantDue("released", id, retry[0], 21)
	b.advance(20_600 * time.Millisecond)
	b.wantTake(1, "t", id)
	b.giveBack(1)
	b.wantRetries("given back", id, tube.Ready, tube.NotParked, 1, 2)
	b.wantTake(1, "t", id)
	b.advance(60_010 * time.Millisecond)
	b.wantRetries("TTR over, no wait", id, tube.Ready, tube.NotParked, 2, 3)
	b.wantTake(1, "t", id)
	b.advance(60_010 * time.Millisecond)
	b.wantRetries("TTR over", id, tube.Delayed, tube.NotParked, 3, 4)
	b.wantDue("TTR over", id, retry[2], 30)
	b.must(tube.ReserveJob, 1, id)
	b.move(tube.Release, 1, id, 3, 500)
	b.wantRetries("released with a delay", id, tube.Delayed, tube.NotParked, 4, 5)
	b.wantDue("released with a delay", id, 500*time.Second, 500)
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Bury, 1, id)
	b.wantRetries("buried by its holder", id, tube.Buried, tube.NotParked, 4, 6)
	b.must(tube.ReserveJob, 1, id)
	b.move(tube.Release, 1, id, 2, 1)
	b.wantRetries("exhausted", id, tube.Buried, tube.ParkedRetries, 5, 7)
	if s := b.job(id); s.Pri != 2 || s.Counters != (tube.Counters{tube.Reserves: 7, tube.Releases: 3, tube.Timeouts: 2, tube.Buries: 1}) {
		b.Errorf("in the end: %+v", s)
	}
}

// testDeliveries limits how often jobs are delivered, however a delivery ends.
func testDeliveries(b *harness) {
	two := tube.Tags{Rules: tube.Rules{Max: 2}}
	ends := map[string]func(uint64){
		"released":    func(id uint64) { b.must(tube.Release, 1, id) },
		"TTR over":    func(uint64) { b.advance(60_010 * time.Millisecond) },
		"holder gone": func(uint64) { b.giveBack(1) },
	}
	for name, end := range ends {
		id := b.putNew("t", two)
		b.wantTake(1, "t", id)
		end(id)
		if s := b.job(id); s.State != tube.Ready || s.Metadata == nil || s.Metadata.Parked != tube.NotParked {
			b.Fatalf("%s once: %+v, %+v", name, s, s.Metadata)
		}
		b.wantTake(1, "t", id)
		end(id)
		if s := b.job(id); s.State != tube.Buried || s.Metadata == nil || s.Metadata.Parked != tube.ParkedDeliveries || s.Counters[tube.Buries] != 0 {
			b.Fatalf("%s twice: %+v, %+v", name, s, s.Metadata)
		}
		b.must(tube.Delete, 1, id)
	}
	both := b.putNew("t", tube.Tags{Rules: tube.Rules{Max: 1, Retry: []time.Duration{time.Second}}})
	b.wantTake(1, "t", both)
	b.must(tube.Release, 1, both)
	b.wantRetries("more waits than deliveries", both, tube.Buried, tube.ParkedDeliveries, 1, 1)
}

// testUnparked kicks parked jobs, in both ways: their failures count from zero again. If such a
// job is reserved by its id they do not.
func testUnparked(b *harness) {
	once := tube.Tags{Rules: tube.Rules{Retry: []time.Duration{0}}}
	fail := func(id uint64) {
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Release, 1, id)
	}
	ids := []uint64{b.putNew("t", once), b.putNew("t", once), b.putNew("t", once)}
	for _, id := range ids {
		fail(id)
		fail(id)
		b.wantRetries("failed twice", id, tube.Buried, tube.ParkedRetries, 2, 2)
	}
	if s := b.tube("t"); s.Buried != 3 || b.head("t", tube.Buried) != ids[0] {
		b.Errorf("parked: %+v", s)
	}
	b.must(tube.KickJob, 1, ids[1])
	if n := b.kick("t", 1); n != 1 {
		b.Errorf("kicked %d", n)
	}
	for _, id := range ids[:2] {
		b.wantRetries("kicked", id, tube.Ready, tube.NotParked, 0, 0)
		if s := b.job(id); s.Counters != (tube.Counters{tube.Reserves: 2, tube.Releases: 2, tube.Kicks: 1}) {
			b.Errorf("kicked: %+v", s)
		}
		fail(id)
		b.wantRetries("kicked and failed", id, tube.Ready, tube.NotParked, 1, 1)
		fail(id)
		b.wantRetries("kicked and failed twice", id, tube.Buried, tube.ParkedRetries, 2, 2)
	}
	b.must(tube.ReserveJob, 1, ids[2])
	b.wantRetries("reserved by its id", ids[2], tube.Reserved, tube.NotParked, 2, 3)
	b.must(tube.Release, 1, ids[2])
	b.wantRetries("and failed again", ids[2], tube.Buried, tube.ParkedRetries, 3, 3)
}

// awaitSent waits until a job has gone to its dead-letter tube, for engines that do that a little
// later.
func (b *harness) awaitSent(id uint64) {
	b.Helper()
	for limit := time.Now().Add(time.Minute); b.engine.LateDeadLetters && b.job(id).State != tube.Gone; {
		if time.Now().After(limit) {
			b.Fatalf("job %d did not go to its dead-letter tube", id)
		}
		if _, err := b.store.Tick(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// testDeadLetters sends jobs to dead-letter tubes.
func testDeadLetters(b *harness) {
	rules := tube.Rules{Max: 1, Dead: "morgue", KeyTTL: 50 * time.Second, HasKeyTTL: true}
	id := b.do(storage.Op{Kind: storage.Put, Tube: "t", Pri: 10, TTR: 77, Body: []byte("its body"),
		Args: &storage.Args{Tags: &tube.Tags{Key: "k", Rules: rules}}}).ID
	b.wantTake(1, "t", id)
	if !b.move(tube.Release, 1, id, 33, 9) {
		b.Fatal("not released")
	}
	b.awaitSent(id)
	if b.job(id).State != tube.Gone || b.move(tube.Delete, 1, id, 0, 0) {
		b.Error("the exhausted job still exists")
	}
	a := b.peekKey("morgue", "k")
	if a.NotFound || a.ID <= id || string(a.Body) != "its body" {
		b.Fatalf("in the dead-letter tube there is job %d with %q", a.ID, a.Body)
	}
	s := b.job(a.ID)
	want := tube.Metadata{Key: "k", Rules: rules, FromTube: "t", FromID: id}
	if s.Tube != "morgue" || s.State != tube.Ready || s.Pri != 33 || s.TTR != 77 || s.Delay != 0 || s.Counters != (tube.Counters{}) {
		b.Errorf("the dead letter: %+v", s)
	}
	if s.Metadata.Notes = nil; !reflect.DeepEqual(*s.Metadata, want) {
		b.Errorf("its metadata: %+v", s.Metadata)
	}
	b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Gone)
	b.advance(51 * time.Second)
	again := b.putNew("t", tube.Tags{Key: "k", Rules: rules})
	b.wantTake(1, "t", again)
	b.giveBack(1) // the key is taken in the dead-letter tube
	b.awaitSent(again)
	second := b.tube("morgue")
	if second.Ready != 2 || b.peekKey("morgue", "k").ID != a.ID || b.job(again).State != tube.Gone {
		b.Errorf("after a second one: %+v", second)
	}
	b.must(tube.Delete, 1, a.ID)
	if s := b.job(b.take(1, "morgue")); s.Metadata == nil || s.Metadata.Key != "" || s.Metadata.FromID != again {
		b.Errorf("the second one: %+v, %+v", s, s.Metadata)
	}
	b.giveBack(1)
}

// testOwnDeadLetterTube: a tube that is its own dead-letter tube buries. A dead-letter tube with
// a policy can send dead letters itself.
func testOwnDeadLetterTube(b *harness) {
	id := b.putNew("t", tube.Tags{Rules: tube.Rules{Max: 1, Dead: "t"}})
	b.wantTake(1, "t", id)
	b.must(tube.Release, 1, id)
	b.wantRetries("its own dead-letter tube", id, tube.Buried, tube.ParkedDeliveries, 1, 1)
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{Max: 1, Dead: "a"}})
	b.setPolicy("a", &tube.Policy{Rules: tube.Rules{Max: 1, Dead: "b"}})
	b.put("t", 5)
	for _, name := range []string{"t", "a"} {
		id = b.take(1, name)
		b.must(tube.Release, 1, id)
		b.awaitSent(id)
	}
	last := b.take(1, "b")
	if s := b.job(last); s.Metadata == nil || s.Metadata.FromTube != "a" || s.Metadata.FromID != id {
		b.Errorf("the dead letter of a dead letter: %+v, %+v", s, s.Metadata)
	}
	b.must(tube.Delete, 1, last)
}

// wantNear checks that a wait is as it should be, apart from its jitter.
func (b *harness) wantNear(got, want time.Duration, percent uint8) {
	b.Helper()
	if most := want * time.Duration(percent) / 100; (got - want).Abs() > most+3*time.Second {
		b.Errorf("a wait of %v, want %v with a jitter of %d %%", got, want, percent)
	}
}

// testExponential: waits that double, and are spread by the same time on every engine.
func testExponential(b *harness) {
	first := tube.Rules{Retry: []time.Duration{time.Hour, 3 * time.Hour}, Doubled: 3}
	for _, jitter := range []tube.Jitter{tube.NoJitter, tube.JitterOf(0), tube.JitterOf(50)} {
		rules, waits := first, map[time.Duration]bool{}
		rules.Jitter = jitter
		for range 3 {
			id := b.putNew("t", tube.Tags{Rules: rules})
			for failures := uint32(1); failures <= 3; failures++ {
				b.must(tube.ReserveJob, 1, id)
				b.must(tube.Release, 1, id)
				wait := new(Model).spread(&modelJob{id: id}, waitsOf(&rules)[failures-1], &rules, failures)
				if b.engine.Plain != nil { // its ids may not be those of the store
					wait = b.job(id).TimeLeft
					b.wantNear(wait, waitsOf(&rules)[failures-1], rules.Percent())
				}
				waits[wait.Truncate(time.Second)] = true
				b.wantDue("failed", id, wait, b.job(id).Delay)
			}
			b.must(tube.ReserveJob, 1, id)
			b.must(tube.Release, 1, id)
			b.wantRetries("exhausted", id, tube.Buried, tube.ParkedRetries, 4, 4)
			if s := b.job(id); !reflect.DeepEqual(s.Rules, rules) || !reflect.DeepEqual(s.Metadata.Rules, rules) {
				b.Errorf("put with %+v: %+v, %+v", rules, s.Rules, s.Metadata)
			}
		}
		if spread := jitter != tube.JitterOf(0); spread && len(waits) < 8 || !spread && len(waits) > 6 {
			b.Errorf("jitter %d: the waits are %v", jitter, waits)
		}
	}
	b.setPolicy("p", &tube.Policy{Rules: tube.Rules{Retry: first.Retry, Doubled: 1}})
	list, exp := b.putNew("p", tube.Tags{Rules: tube.Rules{Retry: []time.Duration{0, 0}}}), b.put("p", 1)
	if s := b.job(list); s.Rules.Doubled != 0 || s.Rules.Percent() != 0 {
		b.Errorf("a list of its own: %+v", s.Rules)
	}
	b.must(tube.ReserveJob, 1, exp)
	b.must(tube.Release, 1, exp)
	b.must(tube.ReserveJob, 1, exp)
	b.must(tube.Release, 1, exp)
	b.wantRetries("exhausted by the policy", exp, tube.Buried, tube.ParkedRetries, 2, 2)
}
