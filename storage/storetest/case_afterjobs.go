package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// verdictOf returns what follows from the counts of a batch.
func verdictOf(s tube.JobBatch) tube.Verdict {
	switch ended := s.Sealed && s.Pending == 0; {
	case ended && s.Parked+s.Gone == 0:
		return tube.BatchDone
	case ended:
		return tube.BatchFailed
	case s.Gone > 0:
		return tube.BatchFailing
	}
	return tube.BatchOpen
}

// testAfterHeld: what other operations do with a held after-job.
func testAfterHeld(b *harness) {
	b.putNew("t", member("x"))
	after, all := b.afterJobs("x")
	delayed := b.putWith("after", 0, 1000, 60, "")
	b.wantList("after", tube.Delayed, delayed, after, all)
	if s := b.tube("after"); s.Delayed != 3 || s.Ready != 0 {
		b.Errorf("the tube is %+v", s)
	}
	if s := b.job(after); s.Delay != 0 || s.Metadata.AfterAll || !b.job(all).Metadata.AfterAll {
		b.Errorf("held: %s", showJob(&s))
	}
	if n := b.kick("after", 5); n != 1 || b.job(delayed).State != tube.Ready || b.kick("after", 5) != 0 {
		b.Errorf("a kick has kicked %d", n)
	}
	if !b.do(storage.Op{Kind: storage.Reschedule, ID: after, In: time.Second}).NotFound {
		b.Error("rescheduled what is held")
	}
	b.do(storage.Op{Kind: storage.SetPriority, ID: after, Pri: 77})
	b.advance(30 * 24 * time.Hour)
	if b.wantAfter("a month later", after, tube.Delayed, tube.NotParked); b.job(after).Pri != 77 {
		b.Error("the priority is not set")
	}
	b.moveJobs("after", tube.Delayed, "u", 1)
	moved := b.head("u", tube.Delayed)
	b.wantAfter("moved", moved, tube.Delayed, tube.NotParked)
	b.must(tube.KickJob, 1, all)
	b.wantAfter("kicked by id", all, tube.Ready, tube.NotParked)
	b.must(tube.ReserveJob, 1, moved)
	b.must(tube.Release, 1, moved)
	b.wantAfter("reserved by id", moved, tube.Ready, tube.NotParked)
	if s := b.batchSum("x"); s.AfterHeld != 0 || len(s.After) != 0 {
		b.Errorf("after-jobs are left: %+v", s)
	}
}

// testAfterRemoved: whatever removes a held job is counted.
func testAfterRemoved(b *harness) {
	b.seal("x")
	for what, remove := range map[string]func(id uint64){
		"deleted": func(id uint64) { b.must(tube.Delete, 1, id) }, "its key": func(uint64) { b.deleteKey("t", "k") },
		"flushed":   func(uint64) { b.flush("t", tube.Delayed) },
		"replaced":  func(uint64) { b.must(tube.Delete, 1, b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace})) },
		"cancelled": func(uint64) { b.aboutBatch(storage.CancelBatch, "y") },
	} {
		id := b.putNew("t", tube.Tags{After: "x", Batch: "y", Key: "k"})
		if s, y := b.batchSum("x"), b.batchSum("y"); s.AfterHeld != 1 || y.Pending != 1 {
			b.Fatalf("before %s: %+v, %+v", what, s, y)
		}
		remove(id)
		if s := b.batchSum("x"); s.AfterHeld+s.AfterFailed != 0 || len(s.After) != 0 || b.job(id).State != tube.Gone {
			b.Errorf("%s: %+v", what, s)
		}
		b.wantMembers(what, "y", map[bool]members{true: done, false: gone}[what == "deleted"])
		b.forgetBatch("y")
	}
}

// testFates: each verdict does with each after-job what Verdict.Fate says, and a batch that is done lets
// those run that were parked because of it.
func testFates(b *harness) {
	for v := tube.BatchOpen; v <= tube.LastVerdict; v++ {
		name := fmt.Sprint("batch", v)
		b.putNew("t", member(name))
		after, all := b.afterJobs(name)
		b.settle(name, v)
		b.wantFate(v, after, false)
		b.wantFate(v, all, true)
		s := b.batchSum(name)
		if n := b.settle(name, v); n != 0 || len(s.After) != int(s.AfterHeld+s.AfterFailed) {
			b.Errorf("%v: %d have changed again, %+v", v, n, s)
		}
		if p := b.batchParts(name); slices.ContainsFunc(p, func(p *tube.JobBatch) bool { return p.Verdict != v || v != tube.BatchOpen && p.Since == 0 }) {
			b.Errorf("%v is not recorded: %+v", v, p[0])
		}
		if s := b.job(after); s.Counters != (tube.Counters{}) {
			b.Errorf("%v: %s", v, showJob(&s))
		}
		b.wantDoneRuns(name, after, all)
	}
}

// wantFate checks what a verdict has done with an after-job.
func (b *harness) wantFate(v tube.Verdict, id uint64, all bool) {
	b.Helper()
	switch v.Fate(all) {
	case tube.FateHeld:
		b.wantAfter(v.String(), id, tube.Delayed, tube.NotParked)
	case tube.FateRun:
		b.wantAfter(v.String(), id, tube.Ready, tube.NotParked)
	case tube.FateParkFailed:
		b.wantAfter(v.String(), id, tube.Buried, tube.ParkedBatchFailed)
	case tube.FateParkUnsealed:
		b.wantAfter(v.String(), id, tube.Buried, tube.ParkedBatchUnsealed)
	}
}

// testUnsealedReopens: jobs that were parked because their batch was not sealed in time wait again once it has another verdict that lets
// them wait, also in parts; and over a restart.
func testUnsealedReopens(b *harness) {
	const jobs = 3
	b.reopens = false // the stamp is not kept
	b.putNew("t", member("x"))
	var after, all [jobs]uint64
	for i := range jobs {
		after[i], all[i] = b.afterJobs("x")
	}
	b.settle("x", tube.BatchUnsealed)
	for i := range jobs {
		b.wantFate(tube.BatchUnsealed, after[i], false)
		b.wantFate(tube.BatchUnsealed, all[i], true)
	}
	part := b.partOf("x", after[0])
	s := tube.Settlement{Part: part.Part, Stamp: part.Stamp, Verdict: tube.BatchOpen, Due: tube.Never}
	if n := b.settlePart("x", s, 2).Count; n != 2 {
		b.Errorf("%d jobs wait again, of 2", n)
	}
	b.restart()
	if n := b.settle("x", tube.BatchOpen); n != 2*jobs-2 {
		b.Errorf("then %d jobs wait again", n)
	}
	for i := range jobs {
		b.wantFate(tube.BatchOpen, after[i], false)
		b.wantFate(tube.BatchOpen, all[i], true)
	}
	if n := b.settle("x", tube.BatchFailing); n != jobs {
		b.Errorf("%d jobs are parked when a member is gone", n)
	}
	b.wantDoneRuns("x", append(after[:], all[:]...)...)
}

// wantDoneRuns checks that after-jobs run once their batch is done.
func (b *harness) wantDoneRuns(name string, ids ...uint64) {
	b.Helper()
	b.settle(name, tube.BatchDone)
	for _, id := range ids {
		b.wantAfter("done in the end", id, tube.Ready, tube.NotParked)
	}
}

// testSettle: a settlement with another stamp does nothing, one of some jobs leaves the others for the next, and an after-job
// has its delay from then on.
func testSettle(b *harness) {
	b.reopens = false // the stamp is not kept
	delayed := b.putNew("after", tube.Tags{After: "x", HasDelay: true, Delay: 20 * time.Second})
	large := b.do(storage.Op{Kind: storage.Put, Tube: "after", TTR: 60, Delay: 30, Body: make([]byte, 20_000), Args: &storage.Args{Tags: &tube.Tags{After: "x"}}}).ID
	after, all := b.afterJobs("x")
	part := b.partOf("x", after)
	s := tube.Settlement{Part: part.Part, Stamp: part.Stamp + 1, Verdict: tube.BatchDone, Due: tube.Never}
	if !b.settlePart("x", s, 9).NotFound || !b.settlePart("none", s, 9).NotFound {
		b.Error("settled with another stamp, or what does not exist")
	}
	b.wantAfter("another stamp", after, tube.Delayed, tube.NotParked)
	b.advance(time.Minute)
	s.Stamp = part.Stamp
	for i, n := range []int{3, 1, 0} {
		if a := b.settlePart("x", s, 3); a.NotFound || a.Count != n {
			b.Fatalf("step %d of a settlement has changed %d", i, a.Count)
		}
		if due := b.partOf("x", 0).Due; i == 0 && due == tube.Never || i > 0 && due != tube.Never {
			b.Errorf("after step %d it is due at %d", i, due)
		}
	}
	b.wantAfter("done", after, tube.Ready, tube.NotParked)
	b.wantAfter("done", all, tube.Ready, tube.NotParked)
	b.wantDue("a delay", delayed, 20*time.Second, 20)
	b.wantDue("a large job", large, 30*time.Second, 30)
	b.advance(31 * time.Second)
	if b.job(delayed).State != tube.Ready || b.job(large).State != tube.Ready {
		b.Error("the delay is not over")
	}
}

// testAfterExpires: the time of an after-job, its own or that of the policy, begins when it waits for its batch no longer, whatever ends
// that, and from when it is due.
func testAfterExpires(b *harness) {
	b.ref(tube.Watching, 1, "after")
	b.setPolicy("after", &tube.Policy{Expire: tube.LifetimeOf(20 * time.Second)})
	first := expire(20 * time.Second)
	first.After, first.Batch = "x", "y"
	own, policy := b.putNew("t", first), b.putNew("after", tube.Tags{After: "x"})
	delayed := b.putNew("after", tube.Tags{After: "x", HasDelay: true, Delay: 30 * time.Second})
	at := tube.Instant(b.began.Add(20 * time.Second).Truncate(time.Millisecond).UnixNano())
	b.putNew("u", first)
	copied := b.putNew("t", tube.Tags{After: "x", ExpiresAt: at})
	kicked, reserved, parked := b.putNew("t", first), b.putNew("t", first), b.putNew("t", first)
	b.moveJobs("u", tube.Delayed, "v", 1)
	moved := b.head("v", tube.Delayed)
	all := map[string]uint64{"its own": own, "the policy": policy, "delayed": delayed, "moved": moved, "copied": copied, "kicked": kicked, "parked": parked}
	b.advance(time.Hour)
	for what, id := range all {
		b.wantAfter(what, id, tube.Delayed, tube.NotParked)
		b.wantExpiry(what+", waits", id, 20*time.Second)
	}
	b.must(tube.KickJob, 1, kicked)
	b.wantExpiry("kicked", kicked, 20*time.Second)
	b.must(tube.ReserveJob, 1, reserved)
	b.wantExpiry("reserved by its id", reserved, 20*time.Second)
	b.must(tube.Delete, 1, reserved)
	b.settle("x", tube.BatchFailing)
	b.wantAfter("failing", parked, tube.Buried, tube.ParkedBatchFailed)
	b.advance(time.Second)
	b.settle("x", tube.BatchDone)
	for what, id := range all {
		b.wantExpiry(what+", runs", id, map[string]time.Duration{"delayed": 50 * time.Second}[what]+map[bool]time.Duration{true: 20 * time.Second}[what != "delayed"])
	}
	b.advance(21 * time.Second)
	for what, id := range all {
		if gone := b.job(id).State == tube.Gone; gone != (what != "delayed") {
			b.Errorf("%s: after its time it is gone: %v", what, gone)
		}
	}
	b.advance(30 * time.Second)
	b.wantExpired("after", 2)
}

// partOf returns the record of the part that has an after-job; with 0, the first one.
func (b *harness) partOf(name string, id uint64) *tube.JobBatch {
	b.Helper()
	for _, p := range b.batchParts(name) {
		if id == 0 || slices.ContainsFunc(p.After, func(s tube.JobStats) bool { return s.ID == id }) {
			return p
		}
	}
	b.Fatalf("no part of %s has job %d", name, id)
	return nil
}

// testUnmet: an after-job that is parked because of its batch is an ordinary job once something else has happened to it.
func testUnmet(b *harness) {
	for what, do := range map[string]func(id uint64){
		"kicked": func(id uint64) { b.must(tube.KickJob, 1, id) }, "kicked with others": func(uint64) { b.kick("after", 1) },
		"replayed": func(id uint64) { b.replay(id) }, "reserved": func(id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Release, 1, id) },
	} {
		id := b.putNew("after", tube.Tags{After: "x", Rules: tube.Rules{Dead: "morgue"}})
		b.settle("x", tube.BatchFailing)
		b.wantAfter("parked", id, tube.Buried, tube.ParkedBatchFailed)
		do(id)
		b.wantAfter(what, id, tube.Ready, tube.NotParked)
		if s := b.batchSum("x"); s.AfterHeld+s.AfterFailed != 0 {
			b.Errorf("%s: %+v", what, s)
		}
		b.must(tube.Delete, 1, id)
	}
	id := b.putNew("after", tube.Tags{After: "x"})
	b.settle("x", tube.BatchFailing)
	b.moveJobs("after", tube.Buried, "u", 1)
	moved := b.head("u", tube.Buried)
	b.wantAfter("moved", moved, tube.Buried, tube.ParkedBatchFailed)
	if s := b.batchSum("x"); s.AfterFailed != 1 || len(s.After) != 1 || s.After[0].ID != moved || b.job(id).State != tube.Gone {
		b.Errorf("moved: %+v", s)
	}
	b.wantDoneRuns("x", moved)
}

// testChains: an after-job can be a member of the next batch.
func testChains(b *harness) {
	first := b.putNew("t", member("a"))
	second := b.putNew("t", tube.Tags{After: "a", Batch: "b"})
	third := b.putNew("t", tube.Tags{After: "b"})
	b.seal("a")
	b.seal("b")
	b.decide("b")
	b.wantMembers("held", "b", pending)
	buryJob(b, first)
	b.decide("a")
	b.decide("b")
	b.wantMembers("parked by its batch", "b", parked)
	b.wantAfter("the next one", third, tube.Buried, tube.ParkedBatchFailed)
	b.must(tube.KickJob, 1, first)
	b.must(tube.Delete, 1, first)
	b.decide("a")
	b.wantAfter("reopened", second, tube.Ready, tube.NotParked)
	b.wantMembers("reopened", "b", pending)
	b.must(tube.Delete, 1, second)
	b.decide("b")
	b.wantAfter("in the end", third, tube.Ready, tube.NotParked)
}

// dueBatches claims what is due, and returns the names, each once.
func (b *harness) dueBatches() []string {
	b.Helper()
	r := b.do(storage.Op{Kind: storage.DueRecords, Records: tube.JobBatches, MaxJobs: 100}).Result
	b.checkNow(r)
	return batchesOf(r.Batches())
}

func (b *harness) wantDueBatches(what string, want ...string) {
	b.Helper()
	if got := b.dueBatches(); !slices.Equal(got, want) {
		b.Fatalf("%s: due are %q, want %q", what, got, want)
	}
}

// testDueBatches: a batch is due when something may be to be done, claimed then, and due anew by the next event.
func testDueBatches(b *harness) {
	b.reopens = false // claims are lost
	id := b.putNew("t", member("x"))
	other := b.putNew("t", member("x"))
	b.wantDueBatches("put")
	b.putNew("t", tube.Tags{After: "x"}) // perhaps it has made a record in another part
	b.settle("x", tube.BatchOpen)
	b.putNew("t", tube.Tags{After: "x"})
	b.wantDueBatches("an after-job")
	b.seal("x")
	b.settle("x", tube.BatchOpen)
	b.must(tube.Delete, 1, id)
	b.must(tube.ReserveJob, 1, other)
	b.wantDueBatches("one is pending")
	b.must(tube.Bury, 1, other)
	if listener := b.listener; b.advance(0) >= 0 && listener.records[tube.JobBatches] == 0 {
		b.Error("it was not reported")
	}
	b.wantDueBatches("none is pending", "x")
	b.wantDueBatches("claimed")
	b.must(tube.Delete, 1, other)
	b.wantDueBatches("the last parked one is done", "x")
	b.advance(tube.ClaimTime + time.Second)
	b.wantDueBatches("the claim is over", "x")
	b.settle("x", tube.BatchDone)
	b.advance(tube.ClaimTime + time.Second)
	b.wantDueBatches("settled")
	b.putNew("t", tube.Tags{After: "x"})
	b.wantDueBatches("an after-job of what is done", "x")
}

// testBatchGone: a batch that has lost its first member is due, although others are pending.
func testBatchGone(b *harness) {
	b.reopens = false
	b.putNew("t", tube.Tags{Batch: "x", Key: "k"})
	b.putNew("t", tube.Tags{Batch: "x", Key: "l"})
	b.putNew("t", member("x"))
	b.settle("x", tube.BatchOpen)
	b.deleteKey("t", "k")
	b.wantDueBatches("the first is gone", "x")
	b.settle("x", tube.BatchFailing)
	b.deleteKey("t", "l")
	b.wantDueBatches("another is gone")
	b.putNew("t", tube.Tags{After: "x"})
	b.wantDueBatches("an after-job", "x")
}

// testBatchTTL: a batch that is not sealed in time is due.
func testBatchTTL(b *harness) {
	b.reopens = false
	b.putNew("t", tube.Tags{Batch: "short", BatchTTL: 40 * time.Second})
	b.putNew("t", tube.Tags{Batch: "short", BatchTTL: time.Second})
	b.putNew("t", member("later"))
	b.putNew("t", tube.Tags{Batch: "later", BatchTTL: 50 * time.Second})
	b.putNew("t", member("default"))
	if s := b.batchSum("short"); s.TTL != 40*time.Second {
		b.Errorf("the TTL is %v", s.TTL)
	}
	if c := b.batchParts("short")[0].Created; c%tube.Instant(time.Millisecond) != 0 || b.engine.Now != nil && b.at(0).Until(c).Abs() > time.Minute {
		b.Errorf("created at %d", c)
	}
	b.advance(30 * time.Second)
	b.wantDueBatches("too early")
	b.advance(11 * time.Second)
	b.wantDueBatches("the first", "short")
	b.settle("short", tube.BatchUnsealed)
	b.advance(10 * time.Second)
	b.wantDueBatches("the second", "later")
	b.settle("later", tube.BatchUnsealed)
	b.advance(tube.DefaultBatchTTL)
	b.wantDueBatches("a day later", "default")
}

// testForgetBatch: a record is removed only if nothing refers to it.
func testForgetBatch(b *harness) {
	b.reopens = false
	forget := func(what string, can bool) {
		b.Helper()
		for _, p := range b.batchParts("x") {
			if p.Pending+p.Parked+p.AfterHeld+p.AfterFailed == 0 && !can {
				continue
			}
			if b.settlePart("x", tube.Settlement{Part: p.Part, Stamp: p.Stamp, Due: tube.Never, Forget: true}, 9).NotFound == can {
				b.Fatalf("%s: forgotten is %v", what, !can)
			}
		}
	}
	id := b.putNew("t", member("x"))
	forget("pending", false)
	buryJob(b, id)
	forget("parked", false)
	b.must(tube.Delete, 1, id)
	after := b.putNew("t", tube.Tags{After: "x"})
	forget("held", false)
	b.settle("x", tube.BatchFailing)
	forget("failed", false)
	b.must(tube.Delete, 1, after)
	forget("empty", true)
	if b.batchParts("x") != nil || len(b.dueBatches()) > 0 || !b.aboutBatch(storage.CancelBatch, "x").NotFound {
		b.Error("it is still there")
	}
	b.putNew("t", member("x"))
	b.wantMembers("begun again", "x", pending)
}

// testListMembers lists the members of one batch in several tubes.
func testListMembers(b *harness) {
	if b.members("x", 3) != nil {
		b.Error("there are members")
	}
	var want []uint64
	for i := range 60 {
		want = append(want, b.putNew(fmt.Sprint("t", i%5), member("x")))
		b.putNew(fmt.Sprint("t", i%5), member("y"))
	}
	b.must(tube.Delete, 1, want[7])
	b.must(tube.ReserveJob, 1, want[8])
	want = slices.Delete(want, 7, 8)
	for _, limit := range []uint32{1, 7, 100} {
		if got := b.members("x", limit); !slices.Equal(got, want) {
			b.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
}

// members returns the ids of the members of a batch, page by page, sorted.
func (b *harness) members(name string, limit uint32) (ids []uint64) {
	b.Helper()
	for cursor, pages := "", 0; pages < 1000; pages++ {
		r := b.do(storage.Op{Kind: storage.ListMembers, MaxJobs: limit, Args: &storage.Args{Name: name, Cursor: cursor}}).Result
		if len(r.Jobs) > int(limit) {
			b.Errorf("a page of %d has %d", limit, len(r.Jobs))
		}
		for i := range r.Jobs {
			s := &r.Jobs[i]
			if ids = append(ids, s.ID); s.Metadata == nil || s.Metadata.Batch != name || s.Size == 0 {
				b.Errorf("listed: %s", showJob(s))
			}
		}
		if cursor = r.Cursor; cursor == "" {
			break
		}
	}
	slices.Sort(ids)
	return ids
}

// testCancelBatch: all members but the reserved ones are removed, and nobody else.
func testCancelBatch(b *harness) {
	const n = 3000
	if !b.aboutBatch(storage.CancelBatch, "x").NotFound || b.batchParts("x") != nil {
		b.Error("cancelled what does not exist")
	}
	for from := 0; from < n; from += 500 {
		ops := make([]storage.Op, 500)
		for i := range ops {
			ops[i] = storage.Op{Kind: storage.Put, Tube: fmt.Sprint("many", i%3), TTR: 60, Body: []byte("x"), Args: &storage.Args{Tags: &tube.Tags{Batch: "x"}}}
		}
		b.batch(ops...)
	}
	held, other := b.putNew("t", member("x")), b.putNew("t", member("y"))
	b.must(tube.ReserveJob, 1, held)
	b.putNew("t", tube.Tags{Batch: "x", HasDelay: true, Delay: time.Hour})
	buryJob(b, b.putNew("t", member("x")))
	waits := b.putNew("t", tube.Tags{Batch: "x", After: "y"})
	dead := b.putNew("t", tube.Tags{Batch: "x", Rules: toMorgue})
	failOnce(b, dead)
	letter := theDead(b, dead)
	after := b.putNew("t", tube.Tags{After: "x"})
	if a := b.aboutBatch(storage.CancelBatch, "x"); a.NotFound || a.Count != n+4 {
		b.Fatalf("cancelled %d", a.Count)
	}
	b.wantMembers("cancelled", "x", members{pending: 1, gone: n + 4})
	if !b.batchSum("x").Sealed || b.job(waits).State != tube.Gone || b.job(letter).State != tube.Gone || b.job(other).State != tube.Ready || b.job(held).State != tube.Reserved {
		b.Error("not sealed, or not those jobs are gone")
	}
	b.wantPut("t", member("x"), tube.PutSealed, 0, tube.Gone)
	b.wantAfter("cancelled", after, tube.Delayed, tube.NotParked)
	b.must(tube.Delete, 1, held)
	b.decide("x")
	b.wantAfter("the last one has ended", after, tube.Buried, tube.ParkedBatchFailed)
}

// testBatchesSurvive closes and reopens a store with batches; testBatchesCrash kills its process.
func testBatchesSurvive(b *harness) { testBatchesReopened(b, func() { b.close() }) }

func testBatchesCrash(b *harness) {
	testBatchesReopened(b, func() {
		b.engine.Crash(b.store)
		b.store = nil
	})
}

func testBatchesReopened(b *harness, end func()) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	for i := range 5 {
		id := b.putNew("t", tube.Tags{Batch: "x", BatchTTL: time.Hour, Key: fmt.Sprint("k", i)})
		switch i {
		case 0:
			b.must(tube.Delete, 1, id)
		case 1:
			b.deleteKey("t", "k1")
		case 2:
			buryJob(b, id)
		}
	}
	after, all := b.afterJobs("x")
	b.settle("x", tube.BatchFailing)
	b.seal("x")
	b.putNew("t", tube.Tags{Batch: "open", After: "x", AfterAll: true})
	b.seal("forgotten")
	b.forgetBatch("forgotten")
	before := b.batchSum("x")
	end()
	b.open()
	b.advance(10 * time.Second)
	if s := b.batchSum("x"); !reflect.DeepEqual(sumBatches([]*tube.JobBatch{&s}), sumBatches([]*tube.JobBatch{&before})) {
		b.Errorf("opened again: %+v\nwant %+v", s, before)
	}
	for _, p := range b.batchParts("x") {
		if len(p.After) > 0 && p.Verdict == tube.BatchFailing && p.Since == 0 || p.TTL != time.Hour && p.TTL != 0 {
			b.Errorf("opened again: %+v", p)
		}
	}
	if got := b.recordNames(tube.JobBatches, 9); !slices.Equal(got, []string{"open", "x"}) {
		b.Errorf("opened again: %q", got)
	}
	b.wantAfter("opened again", after, tube.Buried, tube.ParkedBatchFailed)
	b.wantAfter("opened again", all, tube.Delayed, tube.NotParked)
	b.wantPut("t", member("x"), tube.PutSealed, 0, tube.Gone)
	b.wantMembers("opened again", "open", pending)
	for _, id := range b.members("x", 2) {
		b.must(tube.Delete, 1, id)
	}
	b.decide("x")
	b.wantAfter("ended", all, tube.Ready, tube.NotParked)
	b.wantMembers("ended", "x", members{done: 4, gone: 1})
}

// testBatchesTogether: operations of one batch of operations see what those before it have done.
func testBatchesTogether(b *harness) {
	put := func(tags tube.Tags) storage.Op {
		return storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: []byte("x"), Args: &storage.Args{Tags: &tags}}
	}
	about := func(kind storage.Kind) storage.Op {
		return storage.Op{Kind: kind, Records: tube.JobBatches, Args: &storage.Args{Name: "x"}}
	}
	ops := b.batch(
		about(storage.GetRecord), put(member("x")), put(member("x")), about(storage.GetRecord), put(tube.Tags{After: "x"}),
		about(storage.SealBatch), put(member("x")), about(storage.CancelBatch), about(storage.GetRecord),
	)
	if !ops[0].Answer.NotFound || ops[6].Answer.Outcome != tube.PutSealed || ops[7].Answer.Count != 2 {
		b.Errorf("answered: %+v", ops)
	}
	if s := sumBatches(ops[3].Answer.Result.Batches())[0]; s.Pending != 2 {
		b.Errorf("after two puts: %+v", s)
	}
	if s := sumBatches(ops[8].Answer.Result.Batches())[0]; s.Pending != 0 || s.Gone != 2 || s.AfterHeld != 1 {
		b.Errorf("in the end: %+v", s)
	}
}

// testOvertaken: a settlement whose verdict was found before the last member ended, or the first one was gone, does not put off that the
// record is examined.
func testOvertaken(b *harness) {
	b.reopens = false
	for what, end := range map[string]func(id uint64){
		"the last one is done": func(id uint64) { b.must(tube.Delete, 1, id) },
		"the first is gone":    func(uint64) { b.deleteKey("t", "k") },
	} {
		id := b.putNew("t", tube.Tags{Batch: what, Key: "k"})
		b.putNew("t", tube.Tags{After: what})
		b.seal(what)
		b.wantDueBatches("sealed", what)
		parts := b.batchParts(what)
		end(id)
		for _, p := range parts {
			if b.settlePart(what, *p.Settlement(tube.BatchOpen, tube.Never), 9).NotFound {
				b.Errorf("%s: part %d was not settled", what, p.Part)
			}
		}
		b.wantDueBatches(what, what)
	}
}
