package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// slotEnd is a way in which the only reservation of group g of tube t ends. Before it, tags are
// those of the job.
type slotEnd struct {
	name   string
	tags   tube.Tags
	leased bool
	end    func(b *harness, id, token uint64)
}

// byHolder is a slotEnd by a command of the holder.
func byHolder(m tube.Move, delay uint32) func(*harness, uint64, uint64) {
	return func(b *harness, id, _ uint64) {
		b.Helper()
		if !b.move(m, 1, id, 10, delay) {
			b.Errorf("%v of job %d was not possible", m, id)
		}
	}
}

// byToken is a slotEnd by a command with the token of the lease.
func byToken(m tube.Move) func(*harness, uint64, uint64) {
	return func(b *harness, id, token uint64) {
		b.Helper()
		if !b.leased(m, id, token) {
			b.Errorf("%v of job %d was not possible", m, id)
		}
	}
}

func ttrOver(b *harness, _, _ uint64) { b.advance(60_010 * time.Millisecond) }

// slotEnds are all ways in which a reservation can end.
func slotEnds() []slotEnd {
	key := tube.Tags{Key: "k", OnDuplicate: tube.Replace}
	flush := func(b *harness, _, _ uint64) { b.flush("t", tube.Reserved) }
	return []slotEnd{
		{name: "delete", end: byHolder(tube.Delete, 0)},
		{name: "release", end: byHolder(tube.Release, 0)},
		{name: "release with delay", end: byHolder(tube.Release, 1000)},
		{name: "release with retry", tags: tube.Tags{Rules: tube.Rules{Retry: []time.Duration{time.Hour}}}, end: byHolder(tube.Release, 0)},
		{name: "retries used up", tags: tube.Tags{Rules: tube.Rules{Retry: []time.Duration{0}, Max: 1}}, end: byHolder(tube.Release, 0)},
		{name: "dead letter", tags: tube.Tags{Rules: tube.Rules{Max: 1, Dead: "morgue"}}, end: byHolder(tube.Release, 0)},
		{name: "snooze", end: byHolder(tube.Snooze, 1000)},
		{name: "bury", end: byHolder(tube.Bury, 0)},
		{name: "expired", tags: tube.Tags{Expire: tube.LifetimeOf(time.Second)}, end: func(b *harness, id, _ uint64) {
			b.advance(2 * time.Second)
			b.must(tube.Release, 1, id)
		}},
		{name: "expired and parked", tags: tube.Tags{Expire: tube.LifetimeOf(time.Second), Rules: tube.Rules{OnExpire: tube.ExpirePark}}, end: func(b *harness, id, _ uint64) {
			b.advance(2 * time.Second)
			b.must(tube.Release, 1, id)
		}},
		{name: "TTR", end: ttrOver},
		{name: "connection lost", end: func(b *harness, _, _ uint64) { b.releaseAll(1) }},
		{name: "flush", end: flush},
		{name: "delete-key", tags: key, end: func(b *harness, _, _ uint64) { b.deleteKey("t", "k") }},
		{name: "replaced", tags: key, end: func(b *harness, _, _ uint64) {
			b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace, Group: "g"})
		}},
		{name: "replaced in another group", tags: key, end: func(b *harness, _, _ uint64) {
			b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace, Group: "h", HasDelay: true, Delay: time.Hour})
		}},
		{name: "lease deleted", leased: true, end: byToken(tube.Delete)},
		{name: "lease released", leased: true, end: byToken(tube.Release)},
		{name: "lease buried", leased: true, end: byToken(tube.Bury)},
		{name: "lease refused", leased: true, end: byToken(tube.Park)},
		{name: "TTR of a lease", leased: true, end: ttrOver},
		{name: "flush of a lease", leased: true, end: flush},
	}
}

// testSlotEnds: whatever ends a reservation frees its slot, of the group and of the tube, wakes a
// waiter once, and leaves nothing.
func testSlotEnds(b *harness) {
	b.reopens = false // that sends wake-ups of its own
	for _, p := range []*tube.Policy{groupPolicy(1), {Limits: tube.Limits{Concurrency: 1}}} {
		b.setPolicy("t", p)
		for _, way := range slotEnds() {
			b.endSlot(way)
			b.flush("t", tube.Gone)
			b.flush("morgue", tube.Gone)
			if groups := b.listGroups("t", 9); len(groups) > 0 || b.totals().Reserved > 0 {
				b.Fatalf("%s: %+v is left, and %d reserved", way.name, groups, b.totals().Reserved)
			}
		}
	}
}

// endSlot lets a reservation end that another job of its group waits for.
func (b *harness) endSlot(way slotEnd) {
	b.Helper()
	way.tags.Group = "g"
	first := b.do(storage.Op{Kind: storage.Put, Tube: "t", Pri: 1, TTR: 60, Args: &storage.Args{Tags: &way.tags}}).ID
	second := b.putGroup("t", "g", 5)
	id, token := uint64(0), uint64(0)
	if way.leased {
		id, token = b.lease("t")
	} else {
		id = b.take(1, "t")
	}
	if id != first || b.take(2, "t") != 0 {
		b.Fatalf("%s: took job %d, want %d and no other", way.name, id, first)
	}
	b.wantHeld(way.name, tube.HeldByConcurrency, second)
	b.wantCounts(way.name, "t", "g", 1, 0, 1, 0)
	b.listener.woken("t")
	way.end(b, id, token)
	if n := b.wakeUps("t"); n != 1 {
		b.Errorf("%s: %d wake-ups, want one for one slot", way.name, n)
	}
	if s := b.tube("t"); s.Reserved != 0 || b.group("t", "g").Reserved != 0 {
		b.Errorf("%s: still reserved: %+v", way.name, s)
	}
	b.wantHeld(way.name, tube.NotHeld, second)
	next := b.take(2, "t")
	if next == 0 || b.take(2, "t") != 0 {
		b.Fatalf("%s: after it took job %d", way.name, next)
	}
	b.must(tube.Delete, 2, next)
	if next != second {
		b.wantTake(2, "t", second)
		b.must(tube.Delete, 2, second)
	}
}

// wakeUps returns how many wake-ups there were for the tube since the last call. It waits for one that
// must come: one of two instances gets it a little later if the other has caused it.
func (b *harness) wakeUps(name string) int {
	woken, late := b.listener.notify(), time.After(patience)
	for {
		n := b.listener.count(name)
		if n > 0 || !b.engine.TwoInstances {
			return n
		}
		select {
		case <-woken:
		case <-late:
			return 0
		}
	}
}

// testSlotsOfDeadWorkers: no slot is leaked by workers that die, time after time.
func testSlotsOfDeadWorkers(b *harness) {
	b.setPolicy("t", groupPolicy(2))
	b.putGroups("t", times(5, "g")...)
	taken := func(h tube.Holder) {
		b.Helper()
		for range 2 {
			if id := b.take(h, "t"); id == 0 {
				b.Fatalf("slots are leaked: %+v", b.group("t", "g"))
			}
		}
		b.wantTake(h, "t")
		b.wantCounts("taken", "t", "g", 3, 0, 2, 0)
	}
	for h := range tube.Holder(10) { // the connections of workers end
		taken(1 + h)
		b.giveBack(1 + h)
		b.wantCounts("the worker is dead", "t", "g", 5, 0, 0, 0)
	}
	for range 3 { // workers do not answer any more
		taken(tube.LeaseHolder)
		b.advance(60_010 * time.Millisecond)
		taken(1)
		b.advance(60_010 * time.Millisecond)
	}
	if !b.engine.Durable {
		return
	}
	for range 3 { // the server ends
		taken(1)
		if b.engine.CleanCrash {
			b.engine.Crash(b.store)
		} else {
			b.close()
		}
		b.open()
		b.wantCounts("the server was restarted", "t", "g", 5, 0, 0, 0)
	}
}

// testLimitsChange: lowering a limit takes nothing from those who work; raising it wakes waiters.
func testLimitsChange(b *harness) {
	group := func(n uint32) { b.setPolicy("t", groupPolicy(n)) }
	tubes := func(n uint32) { b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: n}}) }
	pattern := func(n uint32) { b.setPolicy("*", groupPolicy(n)) }
	own := func(n uint32) {
		b.setGroup("t", "g", &tube.GroupConfig{Limits: tube.Limits{Concurrency: n}, Weight: 1})
	}
	for name, limit := range map[string]func(uint32){"policy": group, "tube": tubes, "pattern": pattern, "set-group": own} {
		ids := b.putGroups("t", times(8, "g")...)
		limit(5)
		b.wantTake(1, "t", ids[:5]...)
		limit(2)
		b.advance(0)
		for i, id := range ids[:4] {
			b.wantTake(2, "t")
			if s := b.group("t", "g"); s.Reserved != uint64(5-i) || s.Held != tube.HeldByConcurrency {
				b.Errorf("%s: lowered: %+v", name, s)
			}
			b.must(tube.Delete, 1, id)
		}
		b.wantTake(1, "t", ids[5])
		b.listener.woken("t")
		limit(4)
		b.advance(0)
		if b.wakeUps("t") == 0 {
			b.Errorf("%s: raising the limit sent no wake-up", name)
		}
		b.wantTake(1, "t", ids[6:]...)
		limit(1)
		b.flush("t", tube.Reserved)
		b.setPolicy("t", nil)
		b.setPolicy("*", nil)
		b.setGroup("t", "g", nil)
	}
}

// testPolicyRemoved: without its limit, the jobs of a group are free, and a waiter is woken.
func testPolicyRemoved(b *harness) {
	b.setPolicy("t", groupPolicy(1))
	ids := b.putGroups("t", times(4, "g")...)
	b.wantTake(1, "t", ids[0])
	b.listener.woken("t")
	b.setPolicy("t", nil)
	b.advance(0)
	if b.wakeUps("t") == 0 {
		b.Error("no wake-up")
	}
	b.wantTake(1, "t", ids[1:]...)
}

// testReserveJobLimits: reserve-job obeys limits, whatever the state of the job, and counts.
func testReserveJobLimits(b *harness) {
	b.reopens = false // rates are lost
	b.setPolicy("t", groupPolicy(1))
	ids := b.putGroups("t", "g", "g", "g")
	delayed := b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 1000, TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}}).ID
	b.must(tube.ReserveJob, 1, ids[2])
	b.must(tube.Bury, 1, ids[2])
	b.must(tube.ReserveJob, 1, ids[1])
	refused := func(why string, ids ...uint64) {
		b.Helper()
		for _, id := range ids {
			before := b.job(id)
			if b.move(tube.ReserveJob, 1, id, 0, 0) || b.job(id).State != before.State {
				b.Errorf("%s: %v job %d was reserved", why, before.State, id)
			}
		}
	}
	refused("concurrency", ids[0], ids[2], delayed)
	b.wantTake(1, "t")
	b.must(tube.Delete, 1, ids[1])
	b.pauseGroup("t", "g", 1000)
	refused("paused", ids[0], ids[2], delayed)
	b.pauseGroup("t", "g", 0)
	b.setGroup("t", "g", &tube.GroupConfig{Limits: tube.Limits{Concurrency: 9, Rates: tube.Rates{0, 2, 0}}, Weight: 1})
	b.pause("t", 1000)
	b.must(tube.ReserveJob, 1, delayed) // a pause of the tube does not hinder it
	b.pause("t", 0)
	b.must(tube.ReserveJob, 1, ids[2])
	refused("rate", ids[0])
	b.wantHeld("by the rate", tube.HeldByRate, ids[0])
	b.advance(59 * time.Second)
	refused("rate, 59 s later", ids[0])
	b.advance(2 * time.Second)
	b.must(tube.ReserveJob, 1, ids[0])
}

// testSeize: administrators get a waiting job whatever the limits say, which uses no token and is no
// start; but a seized job is reserved, and so takes a slot.
func testSeize(b *harness) {
	b.reopens = false // rates are lost
	limits := tube.Limits{Concurrency: 2, Rates: tube.Rates{0, 3, 0}}
	for name, p := range map[string]*tube.Policy{"group": {GroupLimits: limits}, "tube": {Limits: limits}} {
		b.setPolicy("t", p)
		ids := b.putGroups("t", times(6, "g")...)
		b.wantTake(1, "t", ids[0], ids[1])
		b.must(tube.Seize, 2, ids[3])
		b.wantCounts(name, "t", "g", 3, 0, 3, 0)
		b.must(tube.Delete, 1, ids[0])
		b.wantTake(1, "t")
		b.must(tube.Bury, 2, ids[3])
		b.pauseGroup("t", "g", 100)
		b.must(tube.Seize, 2, ids[2])
		b.must(tube.Seize, 2, ids[3])
		b.must(tube.Release, 2, ids[3])
		b.must(tube.Release, 2, ids[2])
		b.pauseGroup("t", "g", 0)
		b.advance(0)
		b.wantTake(1, "t", ids[2])
		b.must(tube.Delete, 1, ids[1])
		b.wantHeld(name+": three have started", tube.HeldByRate, ids[3:]...)
		b.must(tube.Seize, 2, ids[4])
		if b.move(tube.Seize, 2, ids[2], 0, 0) {
			b.Errorf("%s: a reserved job was seized", name)
		}
		b.flush("t", tube.Reserved)
		b.flush("t", tube.Gone)
		b.advance(2 * time.Minute)
	}
}

// testSeizeStrict: a seized job does not become the one that the others of its group wait for.
func testSeizeStrict(b *harness) {
	b.reopens = false
	b.setPolicy("t", strictPolicy())
	ids := b.putGroups("t", "g", "g", "g")
	b.must(tube.Seize, 2, ids[1])
	b.wantTake(1, "t")
	b.must(tube.Release, 2, ids[1])
	b.wantTake(1, "t", ids[0])
	b.must(tube.Seize, 2, ids[2])
	b.must(tube.Delete, 2, ids[2])
	b.wantTake(1, "t")
	b.must(tube.Delete, 1, ids[0])
}

// testPauseGroup: a group can be paused, also before it exists; it ends by itself or by 0.
func testPauseGroup(b *harness) {
	b.pauseGroup("t", "g", 100)
	if s := b.group("t", "g"); s == nil || s.PauseLeft <= 90*time.Second || s.PauseLeft > 100*time.Second || s.Held != tube.NotHeld {
		b.Fatalf("paused without jobs: %+v", s)
	}
	id, other := b.putGroup("t", "g", 1), b.putGroup("t", "h", 2)
	b.wantTake(1, "t", other)
	b.wantHeld("paused", tube.HeldByPause, id)
	b.listener.woken("t")
	second := b.putGroup("t", "g", 0)
	if b.listener.woken("t") {
		b.Error("a put into a paused group sent a wake-up")
	}
	b.advance(95 * time.Second)
	b.wantTake(1, "t", other) // its TTR is over
	if next := b.advance(0); next > 5*time.Second {
		b.Errorf("the next Tick is in %v", next)
	}
	b.listener.woken("t")
	b.advance(6 * time.Second)
	if b.wakeUps("t") == 0 {
		b.Error("the end of the pause sent no wake-up")
	}
	b.wantTake(1, "t", second, id)
	b.flush("t", tube.Reserved)
	if s := b.group("t", "g"); s != nil {
		b.Errorf("after its pause: %+v", s)
	}
	b.pauseGroup("t", "g", 100)
	b.pauseGroup("t", "g", 200)
	id = b.putGroup("t", "g", 1)
	b.advance(110 * time.Second)
	b.wantTake(1, "t")
	b.listener.woken("t")
	b.pauseGroup("t", "g", 0)
	b.advance(0)
	if b.wakeUps("t") == 0 {
		b.Error("the end of the pause sent no wake-up")
	}
	b.wantTake(1, "t", id)
	b.pauseGroup("t", "g", 100)
	if s := b.job(id); s.State != tube.Reserved || !b.move(tube.Touch, 1, id, 0, 0) {
		b.Errorf("a job that is reserved while its group is paused: %+v", s)
	}
}
