package storetest

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// testGroupOrder: first the best priority, then the group with the fewest reserved jobs for its
// weight, then the one that has waited longest. Jobs without a group are one more group.
func testGroupOrder(b *harness) {
	b.reopens = false // turns are lost
	g := b.putGroups("t", "g", "g", "g")
	h := b.putGroups("t", "h", "h")
	plain := b.putGroups("t", "", "")
	done := func(want ...uint64) {
		b.Helper()
		for i, id := range want {
			if head := b.head("t", tube.Ready); head != id {
				b.Errorf("take %d: peek-ready finds %d, want %d", i, head, id)
			}
			if got := b.take(1, "t"); got != id {
				b.Fatalf("take %d got %d, want %d", i, got, id)
			}
			b.must(tube.Delete, 1, id)
		}
	}
	done(g[0], h[0], plain[0], g[1], h[1], plain[1], g[2])

	best, first := b.putGroup("t", "h", 3), b.putGroups("t", "g", "g", "h", "")
	b.wantList("t", tube.Ready, best, first[0], first[1], first[2], first[3])
	b.wantTake(1, "t", best, first[0], first[3], first[2], first[1]) // each has one reserved before h has two
	b.flush("t", tube.Reserved)

	late := b.putGroups("t", "g", "h", "g")
	b.wantTake(1, "t", late[0], late[1], late[2])
	b.must(tube.Release, 1, late[2])
	b.must(tube.Delete, 1, late[0])
	b.must(tube.Delete, 1, late[1])
	more := b.putGroups("t", "h", "g")
	done(late[2], more[0], more[1]) // g waits since the release
}

// testGroupTubes: a take from several tubes compares the next jobs of the tubes; one from the first
// tube takes what that offers.
func testGroupTubes(b *harness) {
	b.setPolicy("a", groupPolicy(1))
	a := b.putGroups("a", "g", "g", "h")
	low := b.putGroup("a", "i", 99)
	c := b.put("c", 50)
	b.putGroups("d", "g")
	b.setPolicy("d", &tube.Policy{Limits: tube.Limits{Concurrency: 1}})
	b.must(tube.ReserveJob, 9, b.putGroup("d", "x", 1))
	b.advance(0)
	for _, want := range []uint64{a[0], a[2], c, low, 0} {
		if got := b.take(1, "d", "c", "a"); got != want {
			b.Fatalf("took %d, want %d", got, want)
		}
	}
	b.must(tube.Delete, 1, a[0])
	c = b.put("c", 5)
	for _, want := range []uint64{a[1], c} {
		got := b.do(storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"d", "a", "c"}, First: true}).ID
		if got != want {
			b.Fatalf("took %d from the first tube, want %d", got, want)
		}
	}
}

// testWeights: the slots of a tube are divided by weight.
func testWeights(b *harness) {
	b.reopens = false
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: 60}})
	for group, weight := range map[string]uint32{"two": 2, "three": 3} {
		b.setGroup("t", group, &tube.GroupConfig{Weight: weight})
	}
	for _, group := range []string{"two", "three", "one", ""} {
		b.putGroups("t", times(100, group)...)
	}
	const lanes = 1 + 2 + 3 + 1
	check := func() {
		b.Helper()
		for group, weight := range map[string]uint64{"one": 1, "two": 2, "three": 3} {
			if n := b.group("t", group).Reserved; n < 60*weight/lanes-1 || n > 60*weight/lanes+2 {
				b.Errorf("group %s has %d of 60 slots, want %d of %d", group, n, weight, lanes)
			}
		}
	}
	var held []uint64
	for id := b.take(1, "t"); id != 0; id = b.take(1, "t") {
		held = append(held, id)
	}
	check()
	for range 100 { // those who work finish in an order of their own
		i := (7 * len(held) / 3) % len(held)
		b.must(tube.Delete, 1, held[i])
		held[i] = b.take(1, "t")
		held = append(held[1:], held[0])
	}
	check()
}

// testFairness: of k groups with a backlog each gets 1/k of 10,000 starts, to a tenth, however
// large its backlog is, and however many work at a time; on two instances, on both.
func testFairness(b *harness) {
	b.reopens = false
	b.usePlain()
	const groups, atOnce = 8, 25
	starts := atLength(10_000)
	names := []string{"a", "b", "c", "d", "e", "f", "g", ""}
	owner := make(map[uint64]string)
	refill := func(group string, n int) {
		for _, id := range b.putGroups("t", times(n, group)...) {
			owner[id] = group
		}
	}
	refill("a", 6*starts/groups) // a customer with a large backlog
	for _, group := range names {
		refill(group, 2*atOnce)
	}
	got := make(map[string]int)
	for round := range starts / atOnce {
		worker, ops := tube.Holder(1+round%2), make([]storage.Op, atOnce)
		for i := range ops {
			ops[i] = storage.Op{Kind: storage.Take, Holder: worker, Tubes: []string{"t"}}
		}
		b.batch(ops...)
		ends, again := []storage.Op{}, []string{}
		for i := range ops {
			group := owner[ops[i].Answer.ID]
			got[group]++
			ends = append(ends, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: worker, ID: ops[i].Answer.ID})
			again = append(again, group)
		}
		b.batch(ends...)
		for i, id := range b.putGroups("t", again...) {
			owner[id] = again[i]
		}
	}
	for _, group := range names {
		if n := got[group]; n < starts/groups*9/10 || n > starts/groups*11/10 {
			b.Errorf("group %q had %d of %d starts, want %d: %v", group, n, starts, starts/groups, got)
		}
	}
}

// strictPolicy is a policy with jobs of a group in order, and waits of 30 s after two failures.
func strictPolicy() *tube.Policy {
	return &tube.Policy{GroupOrder: tube.Strict, Rules: tube.Rules{Retry: []time.Duration{30 * time.Second, 30 * time.Second}}}
}

// testStrict: one job of a group at a time, and a failed one keeps the others waiting until it is
// done or parked.
func testStrict(b *harness) {
	b.reopens = false // a job that was kicked can seem to be the head
	b.setPolicy("t", strictPolicy())
	ids, other := b.putGroups("t", "g", "g"), b.putGroups("t", "h")
	b.wantTake(1, "t", ids[0], other[0])
	b.must(tube.Delete, 1, other[0])
	urgent := b.putGroup("t", "g", 0)
	for failure := range 3 {
		b.wantHeld("one runs", tube.HeldByConcurrency, ids[1], urgent)
		b.move(tube.Release, 1, ids[0], 10, 0)
		if failure == 2 {
			break
		}
		b.wantHeld("it has failed", tube.HeldByConcurrency, ids[1], urgent)
		b.wantTake(1, "t")
		if b.move(tube.ReserveJob, 1, urgent, 0, 0) {
			b.Error("reserve-job has taken another job")
		}
		b.advance(30_010 * time.Millisecond)
		if b.move(tube.ReserveJob, 1, urgent, 0, 0) {
			b.Error("reserve-job has taken another job while the first one is ready")
		}
		if head := b.head("t", tube.Ready); head != ids[0] {
			b.Errorf("peek-ready finds %d, want %d", head, ids[0])
		}
		b.wantTake(1, "t", ids[0])
	}
	if s := b.job(ids[0]); s.State != tube.Buried {
		b.Errorf("after its last failure: %+v", s)
	}
	b.wantTake(1, "t", urgent)
	b.must(tube.Delete, 1, urgent)
	b.must(tube.KickJob, 1, ids[0]) // it has lost its place
	first := b.putGroup("t", "g", 1)
	b.wantTake(1, "t", first)
	b.must(tube.Delete, 1, first)
	b.wantTake(1, "t", ids[0])
	b.must(tube.Delete, 1, ids[0])
	b.wantTake(1, "t", ids[1])
}

// testStrictEnds: whatever takes the failed job away lets the others go on.
func testStrictEnds(b *harness) {
	b.setPolicy("t", strictPolicy())
	ends := map[string]func(id uint64){
		"deleted": func(id uint64) { b.must(tube.Delete, 1, id) },
		"moved":   func(uint64) { b.moveJobs("t", tube.Delayed, "u", 9) },
		"flushed": func(uint64) { b.flush("t", tube.Delayed) },
		"buried": func(id uint64) {
			b.must(tube.KickJob, 1, id)
			b.must(tube.ReserveJob, 1, id)
			b.must(tube.Bury, 1, id)
		},
		"policy changed": func(uint64) { b.setPolicy("t", &tube.Policy{GroupOrder: tube.Fair}) },
	}
	for name, end := range ends {
		ids := b.putGroups("t", "g", "g")
		b.wantTake(1, "t", ids[0])
		b.must(tube.Release, 1, ids[0])
		b.wantHeld(name, tube.HeldByConcurrency, ids[1])
		b.take(1, "t")
		b.listener.woken("t")
		end(ids[0])
		b.advance(0)
		if b.wakeUps("t") == 0 {
			b.Errorf("%s: no wake-up", name)
		}
		b.wantTake(1, "t", ids[1])
		b.flush("t", tube.Reserved)
		b.flush("t", tube.Gone)
		b.setPolicy("t", strictPolicy())
	}
}

// testStrictDelays: jobs that wait for their first delay keep nobody waiting; when a policy becomes
// strict, nothing starts until what runs has ended.
func testStrictDelays(b *harness) {
	b.reopens = false // a job that started before can seem to be the head
	b.setPolicy("t", strictPolicy())
	late := b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 50, TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}}).ID
	ids := b.putGroups("t", "g", "g", "g", "g")
	b.wantTake(1, "t", ids[0])
	b.must(tube.Delete, 1, ids[0])
	b.setPolicy("t", nil)
	b.advance(0)
	b.wantTake(1, "t", ids[1:]...)
	b.setPolicy("t", strictPolicy())
	b.advance(51 * time.Second)
	b.wantHeld("others run", tube.HeldByConcurrency, late)
	b.must(tube.Release, 1, ids[1]) // it has started before: it waits as any other
	b.must(tube.Delete, 1, ids[2])
	b.wantHeld("one runs", tube.HeldByConcurrency, late)
	b.must(tube.Delete, 1, ids[3])
	b.wantTake(1, "t", late)
}

// testGroupsKept: moved jobs, dead letters and replayed jobs keep their group.
func testGroupsKept(b *harness) {
	wantGroup := func(what string, id uint64) {
		b.Helper()
		if s := b.job(id); s.Metadata == nil || s.Metadata.Group != "g" || b.group(s.Tube, "g") == nil {
			b.Errorf("%s: %+v, %+v", what, s, s.Metadata)
		}
	}
	moved := b.putGroup("t", "g", 1)
	b.moveJobs("t", tube.Ready, "u", 9)
	if b.job(moved).State != tube.Gone || b.group("t", "g") != nil {
		b.Errorf("it was not moved: %+v", b.group("t", "g"))
	}
	wantGroup("moved", b.take(1, "u"))
	dead := b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Group: "g", Rules: tube.Rules{Max: 1, Dead: "morgue"}}}}).ID
	b.must(tube.ReserveJob, 1, dead)
	b.must(tube.Release, 1, dead)
	b.awaitSent(dead)
	letter := b.head("morgue", tube.Ready)
	wantGroup("a dead letter", letter)
	b.do(storage.Op{Kind: storage.Replay, ID: letter})
	b.awaitSent(letter)
	wantGroup("replayed", b.head("t", tube.Ready))
	found := b.do(storage.Op{Kind: storage.PeekHead, Tube: "t", State: tube.Ready}).ID
	if jobs, _ := b.list("t", tube.Ready, 9, ""); len(jobs) != 1 || jobs[0].ID != found || jobs[0].Metadata.Group != "g" {
		b.Errorf("the list is %+v", jobs)
	}
}

// testGroupsSurvive: what was set for groups, pauses and the groups of jobs outlive the store, and
// the limits hold afterwards.
func testGroupsSurvive(b *harness) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	config := &tube.GroupConfig{Limits: tube.Limits{Concurrency: 7, Rates: tube.Rates{0, 9, 11}}, Weight: 3, TTL: time.Hour}
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: 50, Rates: tube.Rates{0, 0, 1000}}, GroupLimits: tube.Limits{Concurrency: 2, Rates: tube.Rates{0, 100, 0}}, GroupOrder: tube.Fair})
	policy := b.policy("t")
	b.setPolicy("s", strictPolicy())
	b.setGroup("t", "set", config)
	b.setGroup("t", "removed", config)
	b.setGroup("t", "removed", nil)
	b.pauseGroup("t", "paused", 1000)
	held := b.putGroup("t", "paused", 1)
	ids := b.putGroups("t", times(4, "g")...)
	strict := b.putGroups("s", "g", "g")
	b.wantTake(1, "s", strict[0])
	b.must(tube.Release, 1, strict[0])
	parked := b.putGroups("s", "h", "h")
	b.wantTake(1, "s", parked[0])
	b.must(tube.Bury, 1, parked[0])
	b.wantTake(1, "t", ids[0], ids[1])
	b.must(tube.Bury, 1, ids[0])
	for _, crash := range []bool{false, b.engine.CleanCrash} {
		b.setPolicy("last", &tube.Policy{GroupOrder: tube.Fair}) // for an engine whose crash loses the last reservations
		if crash {
			b.engine.Crash(b.store)
		} else {
			b.close()
		}
		b.open()
		b.advance(5 * time.Second)
		if got := b.policy("t"); got == nil || got.Limits != policy.Limits || got.GroupLimits != policy.GroupLimits || got.GroupOrder != tube.Fair {
			b.Errorf("the policy is %+v", got)
		}
		if got := b.groupConfig("t", "set"); got == nil || *got != *config || b.groupConfig("t", "removed") != nil {
			b.Errorf("a config was read as %+v", got)
		}
		b.wantHeld("paused", tube.HeldByPause, held)
		if left := b.group("t", "paused").PauseLeft; left > 996*time.Second || left < 900*time.Second {
			b.Errorf("its pause ends in %v", left)
		}
		b.wantCounts("after a restart", "t", "g", 3, 0, 0, 1)
		b.wantHeld("behind one that has failed", tube.HeldByConcurrency, strict[1])
		b.wantTake(1, "s", parked[1]) // a parked one keeps nobody waiting
		b.wantTake(1, "t", ids[1], ids[2])
		b.wantHeld("at its limit", tube.HeldByConcurrency, ids[3])
		b.giveBack(1)
	}
	b.must(tube.Delete, 1, parked[1])
	b.advance(30 * time.Second)
	b.wantTake(1, "s", strict[0])
	b.must(tube.Delete, 1, strict[0])
	b.wantTake(1, "s", strict[1])
	if !slices.Equal(b.listAll("t", tube.Ready, 2), []uint64{held, ids[1], ids[2], ids[3]}) {
		b.Errorf("the list is %v", b.listAll("t", tube.Ready, 2))
	}
}

// testStrictHeld: a job that was held when the store ended is still the first of its strict group, also after another restart, though that
// reservation does not count.
func testStrictHeld(b *harness) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	b.setPolicy("s", strictPolicy())
	head := b.do(storage.Op{Kind: storage.Put, Tube: "s", Pri: 10, TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}}).ID
	b.wantTake(1, "s", head)
	b.do(storage.Op{Kind: storage.Put, Tube: "s", Pri: 0, TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}})
	for range 2 {
		b.setPolicy("last", &tube.Policy{GroupOrder: tube.Fair}) // for an engine whose crash loses the last reservations
		b.close()
		b.open()
		b.advance(5 * time.Second)
		if s := b.job(head); s.State != tube.Ready || s.Counters[tube.Reserves] != 0 {
			b.Errorf("%s", showJob(&s))
		}
	}
	b.wantTake(1, "s", head)
}
