package storetest

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// wantExpired checks how many jobs of a tube have expired.
func (b *harness) wantExpired(name string, n uint64) {
	b.Helper()
	if s := b.tube(name); s.Expired != n {
		b.Errorf("%d jobs of %s have expired, want %d", s.Expired, name, n)
	}
}

// wantExpiry checks when a job expires, to three seconds; 0: never.
func (b *harness) wantExpiry(what string, id uint64, in time.Duration) {
	b.Helper()
	s := b.job(id)
	if got := expiresIn(&s); got > in+10*time.Millisecond || got < in-3*time.Second || (got == 0) != (in == 0) {
		b.Errorf("%s: it expires in %v, want %v", what, got, in)
	}
}

func expire(d time.Duration) tube.Tags { return tube.Tags{Expire: tube.LifetimeOf(d)} }

// testExpire: jobs expire from when they are first due, in each state as it should be.
func testExpire(b *harness) {
	b.ref(tube.Watching, 1, "t")
	ready, delayed := b.putNew("t", expire(20*time.Second)), b.putNew("t", tube.Tags{Delay: 5 * time.Second, HasDelay: true, Expire: tube.LifetimeOf(20 * time.Second)})
	late := b.putNew("t", tube.Tags{Delay: 10 * time.Second, HasDelay: true, Expire: tube.LifetimeOf(10 * time.Second)})
	forever, released := b.putNew("t", expire(0)), b.putNew("t", expire(20*time.Second))
	b.wantExpiry("ready", ready, 20*time.Second)
	b.wantExpiry("delayed", delayed, 25*time.Second)
	b.wantExpiry("for ever", forever, 0)
	b.do(storage.Op{Kind: storage.Reschedule, ID: late, In: time.Hour})
	b.wantExpiry("rescheduled", late, 20*time.Second)
	b.must(tube.ReserveJob, 1, released)
	b.move(tube.Release, 1, released, 0, 3600)
	b.advance(21 * time.Second)
	for _, id := range []uint64{ready, late, released} {
		if s := b.job(id); s.State != tube.Gone {
			b.Errorf("after its time: %+v", s)
		}
	}
	b.wantExpired("t", 3)
	b.wantTake(1, "t", delayed, forever)
	b.advance(5 * time.Second)
	if s := b.job(delayed); s.State != tube.Reserved {
		b.Errorf("reserved when its time was over: %+v", s)
	}
	b.must(tube.Delete, 1, delayed)
	b.must(tube.Delete, 1, forever)
	b.wantExpired("t", 3)
}

// testExpireCopies: the copy of a job expires at a time, whatever its delay and the policy are, and has
// the reason of the last failure.
func testExpireCopies(b *harness) {
	b.ref(tube.Watching, 1, "t")
	b.setPolicy("t", &tube.Policy{Expire: tube.LifetimeOf(5 * time.Second)})
	at := func(in time.Duration) tube.Instant {
		return tube.Instant(b.began.Add(in).Truncate(time.Millisecond).UnixNano())
	}
	failed := at(-time.Hour)
	ready, delayed := b.putNew("t", tube.Tags{ExpiresAt: at(40 * time.Second)}), b.putNew("t", tube.Tags{ExpiresAt: at(40 * time.Second), Delay: time.Hour, HasDelay: true})
	past := b.putNew("t", tube.Tags{ExpiresAt: 1e6, Rules: tube.Rules{OnExpire: tube.ExpirePark}, Reason: "text", FailedAt: failed})
	b.wantExpiry("ready", ready, 40*time.Second)
	b.wantExpiry("delayed", delayed, 40*time.Second)
	b.advance(10 * time.Second)
	if s := b.job(past); s.State != tube.Buried || s.Metadata.Parked != tube.ParkedExpired || s.Metadata.AllNotes().Reason != "text" || s.Metadata.AllNotes().FailedAt != failed {
		b.Errorf("when it is put after its time: %+v, %+v", s, s.Metadata)
	}
	if s := b.job(ready); s.State != tube.Ready {
		b.Errorf("before its time: %+v", s)
	}
	b.advance(31 * time.Second)
	for _, id := range []uint64{ready, delayed} {
		if s := b.job(id); s.State != tube.Gone {
			b.Errorf("after its time: %+v", s)
		}
	}
	b.wantExpired("t", 3)
}

// testExpireHeld: a job whose time is over while it is reserved expires when it comes back.
func testExpireHeld(b *harness) {
	b.ref(tube.Watching, 1, "t")
	ends := map[string]func(id uint64){
		"released":            func(id uint64) { b.must(tube.Release, 1, id) },
		"snoozed":             func(id uint64) { b.move(tube.Snooze, 1, id, 0, 10) },
		"released with delay": func(id uint64) { b.move(tube.Release, 1, id, 0, 10) },
		"TTR over":            func(uint64) { b.advance(60_010 * time.Millisecond) },
		"holder gone":         func(uint64) { b.giveBack(1) },
	}
	expired := uint64(0)
	for name, end := range ends {
		for _, action := range []tube.OnExpire{tube.NoOnExpire, tube.ExpirePark} {
			tags := expire(10 * time.Second)
			tags.Retry, tags.OnExpire = []time.Duration{time.Second}, action
			id := b.putNew("t", tags)
			b.wantTake(1, "t", id)
			b.advance(11 * time.Second)
			end(id)
			expired++
			switch s := b.job(id); {
			case action == tube.NoOnExpire && s.State != tube.Gone:
				b.Errorf("%s: %+v", name, s)
			case action == tube.ExpirePark && (s.State != tube.Buried || s.Metadata.Parked != tube.ParkedExpired):
				b.Errorf("%s, parked: %+v, %+v", name, s, s.Metadata)
			case action == tube.ExpirePark:
				b.must(tube.Delete, 1, id)
			}
		}
	}
	b.wantExpired("t", expired)
}

// testExpireBuried: buried jobs do not expire; one that is kicked after its time lives on.
func testExpireBuried(b *harness) {
	early, late := b.putNew("t", expire(20*time.Second)), b.putNew("t", expire(20*time.Second))
	for _, id := range []uint64{early, late} {
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Bury, 1, id)
	}
	b.must(tube.KickJob, 1, early)
	b.advance(21 * time.Second)
	if s := b.job(early); s.State != tube.Gone {
		b.Errorf("kicked before its time: %+v", s)
	}
	b.must(tube.KickJob, 1, late)
	b.advance(time.Hour)
	b.wantExpiry("kicked after its time", late, 0)
	b.wantTake(1, "t", late)
	b.must(tube.Release, 1, late)
	b.wantTake(1, "t", late)
}

// testExpireDead: parked jobs go to the dead-letter tube, and do not expire there.
func testExpireDead(b *harness) {
	b.ref(tube.Watching, 1, "t")
	tags := expire(10 * time.Second)
	tags.OnExpire, tags.Dead, tags.Key = tube.ExpirePark, "morgue", "k"
	id := b.putNew("t", tags)
	b.advance(11 * time.Second)
	b.awaitSent(id)
	dead := b.head("morgue", tube.Ready)
	b.advance(time.Hour)
	if s := b.job(dead); s.State != tube.Ready || s.Metadata.FromID != id || s.Metadata.Expires != 0 || s.Metadata.Key != "k" {
		b.Errorf("its dead letter: %+v, %+v", s, s.Metadata)
	}
	b.wantExpired("t", 1)
}

// testExpireGone: nothing is left of the time of jobs that are gone before it is over, and moved
// jobs keep it.
func testExpireGone(b *harness) {
	b.ref(tube.Watching, 1, "t")
	b.ref(tube.Watching, 1, "u")
	tags := expire(20 * time.Second)
	tags.Key, tags.OnDuplicate = "k", tube.Replace
	deleted := b.putNew("t", expire(20*time.Second))
	b.must(tube.Delete, 1, deleted)
	b.putNew("t", tags)
	b.putNew("t", tags) // replaces it
	b.do(storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "k"}})
	b.putNew("t", expire(20*time.Second))
	b.do(storage.Op{Kind: storage.Flush, Tube: "t"})
	b.putNew("t", expire(20*time.Second))
	b.moveJobs("t", tube.Ready, "u", 9)
	b.wantExpiry("moved", b.head("u", tube.Ready), 20*time.Second)
	b.advance(21 * time.Second)
	b.wantExpired("t", 0)
	b.wantExpired("u", 1)
}

// testExpirePolicy: the policy at the time of the put decides; what happens then, the present one.
func testExpirePolicy(b *harness) {
	b.ref(tube.Watching, 1, "t")
	before := b.put("t", 9)
	b.setPolicy("t", &tube.Policy{Expire: tube.LifetimeOf(20 * time.Second)})
	plain, delayed := b.put("t", 1), b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Delay: 10, Body: []byte("x")}).ID
	tagged, own, never := b.putNew("t", tube.Tags{Key: "k"}), b.putNew("t", expire(time.Hour)), b.putNew("t", expire(0))
	large := b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: make([]byte, 10_000)}).ID
	batch := make([]storage.Op, 20)
	for i := range batch {
		batch[i] = storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: []byte("range")}
	}
	storage.DoWait(b.store, batch)
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{OnExpire: tube.ExpirePark}})
	b.wantExpiry("put before", before, 0)
	b.wantExpiry("put without tags", plain, 20*time.Second)
	b.wantExpiry("with a delay", delayed, 30*time.Second)
	b.wantExpiry("with tags", tagged, 20*time.Second)
	b.wantExpiry("with its own time", own, time.Hour)
	b.wantExpiry("for ever", never, 0)
	b.must(tube.ReserveJob, 1, plain)
	b.must(tube.Delete, 1, plain)
	b.advance(31 * time.Second)
	for _, id := range []uint64{delayed, tagged, large, batch[0].Answer.ID, batch[19].Answer.ID} {
		if s := b.job(id); s.State != tube.Buried || s.Metadata == nil || s.Metadata.Parked != tube.ParkedExpired {
			b.Errorf("job %d: %+v, %+v", id, s, s.Metadata)
		}
	}
	b.wantExpired("t", 23)
	b.wantTake(1, "t", before, own, never)
}

// testPatterns: policies of patterns apply tag by tag where longer ones say nothing.
func testPatterns(b *harness) {
	hour := []time.Duration{time.Hour}
	b.setPolicy("*", &tube.Policy{Rules: tube.Rules{Max: 9, Dead: "all", Retry: hour}, QuotaJobs: 2, HasQuotaJobs: true})
	b.setPolicy("ab*", &tube.Policy{Rules: tube.Rules{Max: 8, Dead: "long"}, OnDuplicate: tube.Fail})
	b.setPolicy("a*", &tube.Policy{Rules: tube.Rules{Dead: "short", Retry: []time.Duration{time.Second, time.Hour}, Doubled: 4}})
	b.setPolicy("abc", &tube.Policy{Rules: tube.Rules{Dead: "own"}, Expire: tube.LifetimeOf(50 * time.Second)})
	if got := b.do(storage.Op{Kind: storage.Policies}).Names; !slices.Equal(got, []string{"*", "a*", "ab*", "abc"}) {
		b.Errorf("the policies are %v", got)
	}
	if p := b.policy("ab*"); p == nil || p.Dead != "long" || p.Retry != nil || b.policy("abd") != nil {
		b.Errorf("a policy of a pattern: %+v", p)
	}
	for name, want := range map[string]tube.Rules{
		"abc": {Dead: "own", Max: 7, Retry: []time.Duration{time.Second, time.Hour}, Doubled: 4},
		"ab":  {Dead: "long", Max: 7, Retry: []time.Duration{time.Second, time.Hour}, Doubled: 4},
		"ax":  {Dead: "short", Max: 7, Retry: []time.Duration{time.Second, time.Hour}, Doubled: 4},
		"b":   {Dead: "all", Max: 7, Retry: hour},
	} {
		id := b.putNew(name, tube.Tags{Key: "k", Rules: tube.Rules{Max: 7}})
		if s := b.job(id); s.Rules.Dead != want.Dead || s.Rules.Max != want.Max || s.Rules.Doubled != want.Doubled || !slices.Equal(s.Rules.Retry, want.Retry) {
			b.Errorf("%s: the rules are %+v, want %+v", name, s.Rules, want)
		}
		if s := b.tube(name); !s.HasPolicy {
			b.Errorf("%s has no policy", name)
		}
		put := storage.Op{Kind: storage.Put, Tube: name, TTR: 60}
		if b.refused(put) || !b.refused(put) {
			b.Errorf("%s: the quota of * is not 2 jobs for it", name)
		}
		if name == "abc" {
			b.wantExpiry("by the tube", id, 50*time.Second)
			b.wantPut(name, tube.Tags{Key: "k"}, tube.PutDuplicate, id, tube.Ready)
		}
	}
	b.setPolicy("*", nil)
	b.setPolicy("a*", nil)
	id := b.put("b", 1)
	if s := b.tube("b"); s.HasPolicy || b.job(id).Rules.Max != 0 {
		b.Errorf("without the policy: %+v", s)
	}
	if p := b.policy("*"); p != nil {
		b.Errorf("it is still there: %+v", p)
	}
}
