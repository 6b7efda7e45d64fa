package storetest

import (
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// testRulesSurvive closes and reopens a store with metadata and policies.
func testRulesSurvive(b *harness) { testRulesReopened(b, func() { b.close() }) }

// testRulesCrash does the same with a store whose process was killed.
func testRulesCrash(b *harness) {
	testRulesReopened(b, func() {
		b.engine.Crash(b.store)
		b.store = nil
	})
}

// rulesSurvivors are jobs with tags that a store has when it ends.
type rulesSurvivors struct {
	plain, parked, delayed, held, lastDelivery, tombstones uint64
	leased, token, expires, expiring                       uint64
	dead                                                   tube.JobStats
	before                                                 []tube.JobStats // plain, parked, delayed
}

// testRulesReopened checks what survives when a store ends by calling end.
func testRulesReopened(b *harness, end func()) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	s := b.makeRulesSurvivors()
	end()
	b.open()
	b.advance(10 * time.Second)
	b.checkRulesSurvivors(s)
	b.checkLeases(s)
	b.checkRulesKeys(s)
}

// makeRulesSurvivors puts jobs with tags, and sets policies.
func (b *harness) makeRulesSurvivors() (s rulesSurvivors) {
	b.setPolicy("t", fullPolicy())
	b.setPolicy("u", fullPolicy())
	b.setPolicy("u", nil)
	rules := tube.Rules{Retry: []time.Duration{0, 250 * time.Millisecond}, Max: 9, Dead: "nowhere", KeyTTL: 100 * time.Second, HasKeyTTL: true}
	s.plain = b.putNew("s", tube.Tags{Key: "plain", Rules: rules})
	s.parked = b.putNew("s", tube.Tags{Key: "parked", Rules: tube.Rules{Retry: []time.Duration{0}}})
	s.delayed = b.putNew("s", tube.Tags{Key: "delayed", HasDelay: true, Delay: 99_500 * time.Millisecond})
	s.tombstones = b.putNew("s", tube.Tags{Key: "gone", Rules: rules})
	s.held = b.putNew("h", tube.Tags{Rules: tube.Rules{Max: 2}})
	s.lastDelivery = b.putNew("h", tube.Tags{Rules: tube.Rules{Max: 1}})
	s.leased, s.expires = b.putNew("l", tube.Tags{Key: "leased"}), b.putWith("l", 99, 0, 5, "")
	dead := b.putNew("d", tube.Tags{Key: "dead", Rules: tube.Rules{Max: 1, Dead: "morgue"}})
	for _, id := range []uint64{s.parked, s.parked, dead} {
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Release, 1, id)
	}
	b.awaitSent(dead)
	b.must(tube.Delete, 1, s.tombstones)
	b.must(tube.ReserveJob, 1, s.held)
	b.must(tube.ReserveJob, 1, s.lastDelivery)
	_, s.token = b.lease("l")
	_, s.expiring = b.lease("l")
	s.dead = b.job(b.head("morgue", tube.Ready))
	for _, id := range []uint64{s.plain, s.parked, s.delayed} {
		s.before = append(s.before, b.job(id))
	}
	b.put("last", 1) // for an engine whose crash loses the last reservations
	return s
}

// checkRulesSurvivors checks policies and jobs.
func (b *harness) checkRulesSurvivors(s rulesSurvivors) {
	b.Helper()
	if got := b.policy("t"); !reflect.DeepEqual(got, fullPolicy()) {
		b.Errorf("a policy was read as %+v", got)
	}
	if got := b.do(storage.Op{Kind: storage.Policies}).Names; !slices.Equal(got, []string{"t"}) {
		b.Errorf("the tubes with a policy are %v", got)
	}
	for _, before := range append(s.before, s.dead) {
		after := b.job(before.ID)
		if !sameJob(after, before, 12*time.Second) {
			b.Errorf("job %d was %s\nand is %s", before.ID, showJob(&before), showJob(&after))
		}
	}
	b.wantRetries("held", s.held, tube.Ready, tube.NotParked, 0, 0)
	b.wantRetries("held, for the last time", s.lastDelivery, tube.Ready, tube.NotParked, 0, 0)
	b.must(tube.ReserveJob, 1, s.lastDelivery)
	b.giveBack(1)
	b.wantRetries("given back, for the last time", s.lastDelivery, tube.Buried, tube.ParkedDeliveries, 0, 1)
	b.must(tube.ReserveJob, 1, s.parked)
	b.must(tube.Release, 1, s.parked)
	b.wantRetries("failed once more", s.parked, tube.Buried, tube.ParkedRetries, 3, 3)
}

// checkLeases checks a lease that has expired by now, and one that has not.
func (b *harness) checkLeases(s rulesSurvivors) {
	b.Helper()
	if j := b.job(s.expires); j.State != tube.Ready || j.Counters[tube.Timeouts] != 1 || b.leased(tube.Delete, s.expires, s.expiring) {
		b.Errorf("a lease that has ended: %+v", j)
	}
	if j := b.job(s.leased); j.State != tube.Reserved || !j.Leased || j.TimeLeft > 50*time.Second || j.TimeLeft < 40*time.Second {
		b.Errorf("a lease that goes on: %+v", j)
	}
	if b.leased(tube.Delete, s.leased, s.token+1) || !b.leased(tube.Touch, s.leased, s.token) || !b.leased(tube.Release, s.leased, s.token) {
		b.Error("the token has changed")
	}
	if id, token := b.lease("l"); id != s.leased || token <= s.token {
		b.Errorf("leased job %d with the token %d after %d", id, token, s.token)
	}
}

// checkRulesKeys checks keys: of jobs, of a tombstone, and of a dead letter.
func (b *harness) checkRulesKeys(s rulesSurvivors) {
	b.Helper()
	b.wantPut("s", tube.Tags{Key: "plain"}, tube.PutExisting, s.plain, tube.Ready)
	b.wantPut("s", tube.Tags{Key: "gone"}, tube.PutExisting, s.tombstones, tube.Gone)
	b.wantPut("l", tube.Tags{Key: "leased"}, tube.PutExisting, s.leased, tube.Reserved)
	b.wantPut("morgue", tube.Tags{Key: "dead"}, tube.PutExisting, s.dead.ID, tube.Ready)
	b.advance(91 * time.Second)
	b.putNew("s", tube.Tags{Key: "gone"})
	b.putNew("d", tube.Tags{Key: "dead"})
}

// testParkedAtEnd: jobs of several holders that are parked because the store closes are buried in
// the order of their ids, whatever the order and the TTRs of their reservations.
func testParkedAtEnd(b *harness) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	var ids []uint64
	for i := range 6 {
		tags := &tube.Tags{Expire: tube.LifetimeOf(time.Second), Rules: tube.Rules{OnExpire: tube.ExpirePark}}
		op := storage.Op{Kind: storage.Put, Tube: "t", TTR: uint32(600 - 50*(i%4)), Args: &storage.Args{Tags: tags}}
		ids = append(ids, b.do(op).ID)
	}
	for i, at := range []int{4, 1, 5, 0, 3, 2} {
		b.must(tube.ReserveJob, tube.Holder(1+i%3), ids[at])
	}
	b.advance(2 * time.Second)
	b.close()
	b.open()
	for _, want := range ids {
		if got := b.head("t", tube.Buried); got != want {
			b.Fatalf("the first buried job is %d, want %d", got, want)
		}
		b.must(tube.KickJob, 0, want)
	}
}
