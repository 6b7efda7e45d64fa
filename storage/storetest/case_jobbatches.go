package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

func (b *harness) aboutBatch(kind storage.Kind, name string) storage.Answer {
	b.Helper()
	return b.do(storage.Op{Kind: kind, Records: tube.JobBatches, MaxJobs: 100, Args: &storage.Args{Name: name}})
}

// batchParts returns the records of a batch.
func (b *harness) batchParts(name string) []*tube.JobBatch {
	b.Helper()
	a := b.aboutBatch(storage.GetRecord, name)
	if a.NotFound {
		return nil
	}
	b.checkNow(a.Result)
	return a.Result.Batches()
}

// batchSum returns the sum of the records of a batch, with that of the stamps; empty if there is none.
func (b *harness) batchSum(name string) (sum tube.JobBatch) {
	b.Helper()
	parts := b.batchParts(name)
	for _, s := range sumBatches(parts) {
		sum = *s
	}
	for _, p := range parts {
		sum.Stamp += p.Stamp
	}
	return sum
}

// members are the counts of a batch.
type members struct{ pending, parked, done, gone uint64 }

func (b *harness) wantMembers(what, name string, want members) {
	b.Helper()
	if s := b.batchSum(name); (members{s.Pending, s.Parked, s.Done, s.Gone}) != want {
		b.Fatalf("%s: the members of %s are %+v, want %+v", what, name, s, want)
	}
}

func (b *harness) seal(name string) {
	b.Helper()
	b.aboutBatch(storage.SealBatch, name)
}

// settle carries out a verdict in all parts, and returns how many jobs that has changed.
func (b *harness) settle(name string, v tube.Verdict) (n int) {
	b.Helper()
	for _, p := range b.batchParts(name) {
		a := b.settlePart(name, *p.Settlement(v, tube.Never), 100)
		if a.NotFound {
			b.Fatalf("part %d of %s was not settled", p.Part, name)
		}
		n += a.Count
	}
	return n
}

func (b *harness) settlePart(name string, s tube.Settlement, limit uint32) storage.Answer {
	b.Helper()
	return b.do(storage.Op{Kind: storage.SettleBatch, MaxJobs: limit, Args: &storage.Args{Name: name, Settle: &s}})
}

// decide finds the verdict about a batch, and carries it out.
func (b *harness) decide(name string) tube.Verdict {
	b.Helper()
	v := verdictOf(b.batchSum(name))
	b.settle(name, v)
	return v
}

// wantAfter checks a job that runs after a batch. Its state says how far it is: Delayed is held, Ready may run,
// Buried is parked.
func (b *harness) wantAfter(what string, id uint64, state tube.State, why tube.Parked) {
	b.Helper()
	s, held, after := b.job(id), tube.NotHeld, state == tube.Delayed || why == tube.ParkedBatchFailed || why == tube.ParkedBatchUnsealed
	if state == tube.Delayed {
		held = tube.HeldByBatch
	}
	f := tube.Metadata{}
	if s.Metadata != nil {
		f = *s.Metadata
	}
	if s.State != state || s.Held != held || s.TimeLeft != 0 && held != tube.NotHeld || f.Parked != why || (f.After != "") != after {
		b.Fatalf("%s: the after-job is %s, want %v, %q, %q", what, showJob(&s), state, held, why)
	}
}

func member(name string) tube.Tags { return tube.Tags{Batch: name} }

// afterJobs puts one job with after: and one with after-all: into tube "after".
func (b *harness) afterJobs(name string) (after, all uint64) {
	b.Helper()
	return b.putNew("after", tube.Tags{After: name}), b.putNew("after", tube.Tags{After: name, AfterAll: true})
}

// memberEnd is a way in which a member of a batch is parked or ends, or does not.
type memberEnd struct {
	tags tube.Tags
	do   func(b *harness, id uint64)
	want members
	open bool // the batch is sealed only after that
}

// failOnce lets a job end as its rules say.
func failOnce(b *harness, id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Release, 1, id) }

func reserveJob(b *harness, id uint64) { b.must(tube.ReserveJob, 1, id) }
func buryJob(b *harness, id uint64)    { reserveJob(b, id); b.must(tube.Bury, 1, id) }
func deleteJob(b *harness, id uint64)  { b.must(tube.Delete, 1, id) }
func kickJob(b *harness, id uint64)    { b.must(tube.KickJob, 1, id) }
func replayJob(b *harness, id uint64)  { b.replay(id) }
func nothing(b *harness, id uint64)    {}

// waitFor lets some time pass.
func waitFor(d time.Duration) func(*harness, uint64) {
	return func(b *harness, id uint64) { b.advance(d) }
}

// moveTo moves the jobs of a state from "t" to "u".
func moveTo(state tube.State) func(*harness, uint64) {
	return func(b *harness, id uint64) { b.moveJobs("t", state, "u", 9) }
}

// flushOf flushes the jobs of "t" in a state.
func flushOf(state tube.State) func(*harness, uint64) {
	return func(b *harness, id uint64) { b.flush("t", state) }
}

// replaceBy puts a job with the same key, of another batch or of none.
func replaceBy(batch string) func(*harness, uint64) {
	return func(b *harness, id uint64) {
		b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace, Batch: batch})
	}
}

// both does two things, one after the other.
func both(first, second func(*harness, uint64)) func(*harness, uint64) {
	return func(b *harness, id uint64) { first(b, id); second(b, id) }
}

// dead lets a job become a dead letter in tube "morgue", and does something with that.
func dead(do func(b *harness, letter uint64)) func(*harness, uint64) {
	return func(b *harness, id uint64) { failOnce(b, id); do(b, theDead(b, id)) }
}

// theDead returns the dead letter in tube "morgue".
func theDead(b *harness, id uint64) uint64 { b.awaitSent(id); return b.head("morgue", tube.Ready) }

func deleteByLease(b *harness, id uint64) {
	if leased, token := b.lease("t"); leased != id || !b.leased(tube.Delete, id, token) {
		b.Error("the lease cannot be deleted")
	}
}

// moveBack moves dead letters to "t".
func moveBack(b *harness, id uint64) { b.moveJobs("morgue", tube.Ready, "t", 9) }

var (
	inAnHour = tube.Tags{HasDelay: true, Delay: time.Hour}
	parkedIn = tube.Tags{Expire: tube.LifetimeOf(5 * time.Second), Rules: tube.Rules{OnExpire: tube.ExpirePark}}
	once     = tube.Tags{Rules: tube.Rules{Max: 1}}
	toMorgue = tube.Rules{Max: 1, Dead: "morgue"}
	mortal   = tube.Tags{Rules: toMorgue}

	pending = members{pending: 1}
	parked  = members{parked: 1}
	done    = members{done: 1}
	gone    = members{gone: 1}
)

// memberEnds are the ways for a job in tube "t" with the key "k".
var memberEnds = map[string]memberEnd{
	"deleted":               {do: deleteJob, want: done},
	"deleted by its holder": {do: both(reserveJob, deleteJob), want: done},
	"deleted while delayed": {tags: inAnHour, do: deleteJob, want: done},
	"deleted while buried":  {do: both(buryJob, deleteJob), want: done},
	"deleted by lease":      {do: deleteByLease, want: done},
	"deleted by its key":    {do: func(b *harness, id uint64) { b.deleteKey("t", "k") }, want: gone},
	"flushed":               {do: flushOf(tube.Gone), want: gone},
	"flushed while buried":  {do: both(buryJob, flushOf(tube.Buried)), want: gone},
	"cancelled":             {do: func(b *harness, id uint64) { b.aboutBatch(storage.CancelBatch, "x") }, want: gone},
	"expired":               {tags: expire(5 * time.Second), do: waitFor(6 * time.Second), want: gone},
	"expired: parked":       {tags: parkedIn, do: waitFor(6 * time.Second), want: parked},

	"replaced":                         {do: replaceBy(""), want: gone},
	"replaced by one of another batch": {do: replaceBy("y"), want: gone},
	"replaced by a member":             {do: replaceBy("x"), want: pending, open: true},
	"parked one replaced by a member":  {do: both(buryJob, replaceBy("x")), want: pending, open: true},
	"its key is kept":                  {do: func(b *harness, id uint64) { b.putTagged("t", tube.Tags{Key: "k", Batch: "x"}) }, want: pending},

	"reserved":              {do: reserveJob, want: pending},
	"holder gone":           {do: both(reserveJob, func(b *harness, id uint64) { b.giveBack(1) }), want: pending},
	"TTR over":              {do: both(reserveJob, waitFor(70*time.Second)), want: pending},
	"released":              {do: failOnce, want: pending},
	"buried":                {do: buryJob, want: parked},
	"exhausted":             {tags: once, do: failOnce, want: parked},
	"exhausted by TTR":      {tags: once, do: both(reserveJob, waitFor(70*time.Second)), want: parked},
	"kicked":                {do: both(buryJob, func(b *harness, id uint64) { b.kick("t", 1) }), want: pending},
	"kicked by id":          {do: both(buryJob, kickJob), want: pending},
	"replayed":              {do: both(buryJob, replayJob), want: pending},
	"reserved while buried": {do: both(buryJob, reserveJob), want: pending},
	"buried again":          {do: both(buryJob, buryJob), want: parked},

	"a dead letter":          {tags: mortal, do: dead(nothing), want: parked},
	"a reserved dead letter": {tags: mortal, do: dead(reserveJob), want: parked},
	"a dead letter kicked":   {tags: mortal, do: dead(both(buryJob, func(b *harness, id uint64) { b.kick("morgue", 1) })), want: parked},
	"a dead letter deleted":  {tags: mortal, do: dead(deleteJob), want: done},
	"a dead letter flushed":  {tags: mortal, do: dead(func(b *harness, id uint64) { b.flush("morgue", tube.Gone) }), want: gone},
	"a dead letter replayed": {tags: mortal, do: dead(replayJob), want: pending},

	"a dead letter moved back":        {tags: mortal, do: dead(moveBack), want: pending},
	"a replayed dead letter moved":    {tags: mortal, do: dead(both(replayJob, moveFromHome)), want: pending},
	"a dead letter moved back and on": {tags: mortal, do: dead(both(moveBack, moveFromHome)), want: pending},

	"moved":              {do: moveTo(tube.Ready), want: pending},
	"moved and deleted":  {do: both(moveTo(tube.Ready), func(b *harness, id uint64) { deleteJob(b, b.head("u", tube.Ready)) }), want: done},
	"moved while buried": {do: both(buryJob, moveTo(tube.Buried)), want: parked},
}

// moveFromHome moves a job from "t", where it was exhausted and to which it has come back, to "u". It is no dead letter there.
func moveFromHome(b *harness, _ uint64) {
	b.moveJobs("t", tube.Ready, "u", 9)
	id := b.head("u", tube.Ready)
	s := b.job(id)
	if s.Metadata.FromTube != "" || s.Metadata.FromID != 0 || s.Metadata.Key != "k" || s.Metadata.Batch != "x" {
		b.Errorf("moved from where it was exhausted: %+v", s.Metadata)
	}
	if b.replay(id) {
		b.Error("it was replayed")
	}
}

// testMemberEnds: a member is counted once, whatever becomes of it, and the after-jobs never run too early and never wait
// for ever.
func testMemberEnds(b *harness) {
	for what, end := range memberEnds {
		tags := end.tags
		tags.Key, tags.Batch = "k", "x"
		id := b.putNew("t", tags)
		after, all := b.afterJobs("x")
		if !end.open {
			b.seal("x")
		}
		b.wantMembers("before "+what, "x", pending)
		end.do(b, id)
		b.seal("x")
		b.wantMembers(what, "x", end.want)
		b.decide("x")
		b.wantAfterEnd(what, end.want, after, all)
		for _, name := range []string{"t", "u", "morgue", "after"} {
			b.flushHeld(name)
		}
		b.forgetBatch("x")
		b.forgetBatch("y")
	}
}

// wantAfterEnd checks the after-jobs of a sealed batch of one member.
func (b *harness) wantAfterEnd(what string, m members, after, all uint64) {
	b.Helper()
	switch m {
	case done:
		b.wantAfter(what, after, tube.Ready, tube.NotParked)
		b.wantAfter(what, all, tube.Ready, tube.NotParked)
	case pending:
		b.wantAfter(what, after, tube.Delayed, tube.NotParked)
		b.wantAfter(what, all, tube.Delayed, tube.NotParked)
	default:
		b.wantAfter(what, after, tube.Buried, tube.ParkedBatchFailed)
		b.wantAfter(what, all, tube.Ready, tube.NotParked)
	}
}

// flushHeld removes all jobs of a tube, also those that are reserved by connection 1.
func (b *harness) flushHeld(name string) {
	b.Helper()
	b.giveBack(1)
	b.advance(0)
	b.flush(name, tube.Gone)
}

// forgetBatch removes the records of a batch.
func (b *harness) forgetBatch(name string) {
	b.Helper()
	for _, p := range b.batchParts(name) {
		if b.settlePart(name, tube.Settlement{Part: p.Part, Stamp: p.Stamp, Verdict: p.Verdict, Due: tube.Never, Forget: true}, 1).NotFound {
			b.Fatalf("%s was not forgotten: %+v", name, p)
		}
	}
}

// testBatchBeforeSealed: nothing runs before all members were put, even if those so far are done.
func testBatchBeforeSealed(b *harness) {
	after, all := b.afterJobs("x")
	b.must(tube.Delete, 1, b.putNew("t", member("x")))
	b.wantMembers("one is done", "x", done)
	if v := b.decide("x"); v != tube.BatchOpen {
		b.Errorf("before it is sealed: %v", v)
	}
	b.wantAfter("not sealed", after, tube.Delayed, tube.NotParked)
	b.advance(time.Hour)
	b.wantAfter("an hour later", all, tube.Delayed, tube.NotParked)
	second := b.putNew("t", member("x"))
	b.seal("x")
	b.decide("x")
	b.wantAfter("one is pending", after, tube.Delayed, tube.NotParked)
	b.must(tube.Delete, 1, second)
	b.decide("x")
	b.wantAfter("done", after, tube.Ready, tube.NotParked)
	b.wantAfter("done", all, tube.Ready, tube.NotParked)
	b.wantMembers("done", "x", members{done: 2})
}

// testEmptyBatch: an empty batch that is sealed is done, and so is what is put after it later.
func testEmptyBatch(b *harness) {
	b.seal("x")
	if s := b.batchSum("x"); !s.Sealed || s.Stamp == 0 {
		b.Fatalf("sealed: %+v", s)
	}
	b.seal("x")
	after, all := b.afterJobs("x")
	b.decide("x")
	b.wantAfter("empty", after, tube.Ready, tube.NotParked)
	b.wantAfter("empty", all, tube.Ready, tube.NotParked)
}

// testPutKeyTaken: a put of a member whose key a job has that is no member of the batch says so, and adds nothing; repeated, or with the
// tombstone of a key, it is answered as ever.
func testPutKeyTaken(b *harness) {
	plain, other := b.putNew("t", tube.Tags{Key: "plain"}), b.putNew("t", tube.Tags{Key: "other", Batch: "y"})
	own := b.putNew("t", tube.Tags{Key: "own", Batch: "x"})
	b.must(tube.ReserveJob, 1, other)
	for _, on := range []tube.OnDuplicate{tube.NotSaid, tube.Keep, tube.Fail, tube.Follow} {
		b.wantPut("t", tube.Tags{Key: "plain", Batch: "x", OnDuplicate: on}, tube.PutDuplicate, plain, tube.Ready)
		if on != tube.Follow { // that is for the next run of a job that was started
			b.wantPut("t", tube.Tags{Key: "other", Batch: "x", OnDuplicate: on}, tube.PutDuplicate, other, tube.Reserved)
		}
	}
	b.wantPut("t", tube.Tags{Key: "own", Batch: "x"}, tube.PutExisting, own, tube.Ready)
	b.wantPut("t", tube.Tags{Key: "plain", After: "x"}, tube.PutExisting, plain, tube.Ready)
	b.wantMembers("nothing was added", "x", pending)
	b.putNew("t", tube.Tags{Key: "plain", Batch: "x", OnDuplicate: tube.Replace})
	b.wantMembers("replaced", "x", members{pending: 2})
	done := b.putNew("t", tube.Tags{Key: "done", Rules: tube.Rules{KeyTTL: time.Hour, HasKeyTTL: true}})
	b.must(tube.Delete, 1, done)
	b.wantPut("t", tube.Tags{Key: "done", Batch: "x"}, tube.PutExisting, done, tube.Gone)
}

// testPutSealed: a sealed batch gets no members; a key that is taken is answered first.
func testPutSealed(b *harness) {
	id := b.putNew("t", tube.Tags{Batch: "x", Key: "k"})
	b.must(tube.ReserveJob, 1, id)
	again := b.putNew("t", member("x")) // it puts itself again while it is reserved
	b.seal("x")
	b.wantPut("t", member("x"), tube.PutSealed, 0, tube.Gone)
	b.wantPut("t", tube.Tags{Batch: "x", Key: "other", BatchTTL: time.Minute, After: "y"}, tube.PutSealed, 0, tube.Gone)
	b.wantPut("t", tube.Tags{Batch: "x", Key: "k"}, tube.PutExisting, id, tube.Reserved)
	b.wantPut("t", tube.Tags{Batch: "x", Key: "k", OnDuplicate: tube.Fail}, tube.PutDuplicate, id, tube.Reserved)
	b.setPolicy("t", &tube.Policy{QuotaJobs: 1, HasQuotaJobs: true})
	b.wantPut("t", member("x"), tube.PutSealed, 0, tube.Gone)
	if s := b.batchSum("x"); s.Pending != 2 || s.TTL != 0 || b.batchParts("y") != nil {
		b.Errorf("puts that were refused have left %+v", s)
	}
	if !b.refused(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Batch: "z", After: "y"}}}) || b.batchParts("z") != nil || b.batchParts("y") != nil {
		b.Error("a put beyond a quota has made a batch")
	}
	b.must(tube.Delete, 1, id)
	b.must(tube.Delete, 1, again)
	b.wantMembers("both are done", "x", members{done: 2})
}

// testBatchStamp: the stamp grows when a member becomes pending and when the batch is sealed, and only then.
func testBatchStamp(b *harness) {
	b.reopens = false // the stamp is not kept
	last := uint64(0)
	check := func(what string, grows bool) {
		b.Helper()
		if s := b.batchSum("x").Stamp; (s > last) != grows || s < last {
			b.Fatalf("%s: the stamp is %d after %d", what, s, last)
		} else {
			last = s
		}
	}
	id := b.putNew("t", member("x"))
	check("put", true)
	b.putNew("t", member("x"))
	check("put another", true)
	b.must(tube.ReserveJob, 1, id)
	check("reserved", false)
	b.must(tube.Release, 1, id)
	check("released", false)
	buryJob(b, id)
	check("buried", false)
	b.must(tube.KickJob, 1, id)
	check("kicked", true)
	b.afterJobs("x")
	check("after-jobs", false)
	b.settle("x", tube.BatchOpen)
	check("settled", false)
	buryJob(b, id)
	b.must(tube.ReserveJob, 1, id)
	check("reserved while buried", true)
	b.must(tube.Delete, 1, id)
	check("deleted", false)
	b.seal("x")
	check("sealed", true)
	b.seal("x")
	check("sealed again", false)
}

// testWithdrawn: jobs that are withdrawn leave nothing behind, neither in batches nor in the records of batches that nothing else
// has named, nor a key that stays taken.
func testWithdrawn(b *harness) {
	withdraw := func(ids ...uint64) {
		for _, id := range ids {
			b.must(tube.Withdraw, 0, id)
		}
	}
	withdraw(b.putNew("t", tube.Tags{Batch: "x", Key: "k", Rules: tube.Rules{KeyTTL: time.Hour}}), b.putNew("u", tube.Tags{After: "x", Batch: "y"}))
	if got := b.recordNames(tube.JobBatches, 9); len(got) != 0 {
		b.Errorf("after all were withdrawn: %q", got)
	}
	kept := b.putNew("t", tube.Tags{Batch: "x", Key: "k"})
	after, x := b.putNew("t", tube.Tags{After: "x"}), member("x")
	delayed := b.do(storage.Op{Kind: storage.Put, Tube: "u", Delay: 9, TTR: 60, Args: &storage.Args{Tags: &x}}).ID
	b.must(tube.ReserveJob, 1, kept)
	if b.move(tube.Withdraw, 0, kept, 0, 0) || b.move(tube.Withdraw, 1, kept, 0, 0) {
		b.Error("a reserved job was withdrawn")
	}
	b.seal("x")
	b.must(tube.Delete, 1, kept)
	withdraw(delayed)
	b.wantMembers("withdrawn", "x", members{done: 1})
	if v := b.decide("x"); v != tube.BatchDone {
		b.Errorf("the verdict is %v", v)
	}
	b.wantAfter("done", after, tube.Ready, tube.NotParked)
}
