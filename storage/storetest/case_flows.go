package storetest

import (
	"bytes"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// flow returns what has happened in a tube since the store was opened. A store that does not
// count passes.
func (b *harness) flow(name string) (f tube.Flow, counts bool) {
	b.Helper()
	reporter, ok := b.store.(storage.Reporter)
	if !ok {
		return f, false
	}
	r := reporter.Report()
	for i := range r.Named {
		if r.Named[i].Tube == name {
			return r.Named[i].Flow, true
		}
	}
	b.Errorf("nothing was counted for tube %s", name)
	return f, true
}

// wantFlow checks what has happened in a tube. Of times it checks only the buckets.
func (b *harness) wantFlow(name string, want tube.Flow) {
	b.Helper()
	got, counts := b.flow(name)
	got.Waits.Sum, got.Runs.Sum = 0, 0
	want.Waits.Sum, want.Runs.Sum = 0, 0
	if counts && got != want {
		b.Errorf("tube %s:\ngot  %+v\nwant %+v", name, got, want)
	}
}

// timesOf returns a histogram of these times.
func timesOf(times ...time.Duration) (t tube.Times) {
	for _, d := range times {
		t.Observe(d)
	}
	return t
}

// testFlows moves jobs through tubes that are watched, so that the tubes stay, and compares
// what was counted with what was done. Times are far from the bounds of their buckets.
func testFlows(b *harness) {
	b.ref(tube.Watching, 1, "many", "t", "kicked", "leases", "policy", "keys", "from", "to", "after", "large", "tagged")
	b.flowMany()
	b.flowOfOne()
	b.flowOfLeases()
	b.flowOfRules()
	b.flowOfMoves()
	b.flowOfBatch()
	b.flowOfLarge()
	b.flowOfTagged()
}

// flowMany puts, takes and deletes jobs together.
func (b *harness) flowMany() {
	const n = 20
	puts, takes, deletes := make([]storage.Op, n), make([]storage.Op, n), make([]storage.Op, n)
	for i := range n {
		puts[i] = storage.Op{Kind: storage.Put, Tube: "many", Pri: 9, TTR: 100, Body: []byte("b")}
		takes[i] = storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"many"}}
	}
	b.batch(puts...)
	b.advance(3 * time.Second)
	b.batch(takes...)
	b.advance(30 * time.Second)
	for i := range n {
		deletes[i] = storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: takes[i].Answer.ID}
	}
	b.batch(deletes...)
	want := tube.Flow{Puts: n, Deletes: n}
	want.Counts[tube.Reserves] = n
	want.Waits.Counts[6], want.Runs.Counts[8] = n, n // up to 5 s, up to a minute
	b.wantFlow("many", want)
}

// flowOfOne returns a job to its tube in each way.
func (b *harness) flowOfOne() {
	id := b.putWith("t", 9, 10, 60, "b")
	b.advance(20 * time.Second) // it waits for 10 s
	b.wantTake(1, "t", id)
	b.must(tube.Release, 1, id)
	b.wantTake(1, "t", id)
	b.must(tube.Bury, 1, id)
	b.kick("t", 1)
	b.wantTake(1, "t", id)
	b.advance(61 * time.Second)
	b.wantTake(1, "t", id)
	b.advance(30 * time.Second)
	b.must(tube.Touch, 1, id)
	b.advance(40 * time.Second)
	b.must(tube.Delete, 1, id)
	b.must(tube.Delete, 1, b.put("t", 9)) // it was never reserved
	b.wantFlow("t", tube.Flow{
		Puts: 2, Deletes: 2, Counts: [tube.NumCounters]uint64{tube.Reserves: 4, tube.Timeouts: 1, tube.Releases: 1, tube.Buries: 1, tube.Kicks: 1},
		Waits: timesOf(10 * time.Second), Runs: timesOf(70 * time.Second),
	})
	id = b.putWith("kicked", 9, 1000, 60, "")
	b.must(tube.KickJob, 0, id)
	other := b.put("kicked", 9)
	b.releaseAll(1)
	b.must(tube.ReserveJob, 1, other)
	b.releaseAll(1) // no failure, and not counted
	if f, counts := b.flow("kicked"); counts && (f.Counts != [tube.NumCounters]uint64{tube.Reserves: 1, tube.Kicks: 1}) {
		b.Errorf("%+v", f)
	}
}

// flowOfLeases reserves a job by lease.
func (b *harness) flowOfLeases() {
	b.put("leases", 9)
	b.advance(3 * time.Second)
	id, token := b.lease("leases")
	b.advance(30 * time.Second)
	if !b.leased(tube.Touch, id, token) {
		b.Fatal("not touched")
	}
	b.advance(45 * time.Second)
	if !b.leased(tube.Delete, id, token) {
		b.Fatal("not deleted")
	}
	b.wantFlow("leases", tube.Flow{
		Puts: 1, Deletes: 1, Counts: [tube.NumCounters]uint64{tube.Reserves: 1}, Waits: timesOf(3 * time.Second), Runs: timesOf(75 * time.Second),
	})
}

// flowOfRules exhausts a job, and uses keys.
func (b *harness) flowOfRules() {
	b.setPolicy("policy", &tube.Policy{Rules: tube.Rules{Max: 1}})
	id := b.put("policy", 9)
	b.advance(3 * time.Second)
	b.wantTake(1, "policy", id)
	b.must(tube.Release, 1, id)
	b.wantFlow("policy", tube.Flow{
		Puts: 1, Parked: 1, Counts: [tube.NumCounters]uint64{tube.Reserves: 1, tube.Releases: 1}, Waits: timesOf(3 * time.Second),
	})
	if s := b.tube("policy"); s.Waits.Counts != timesOf(3*time.Second).Counts || s.Runs.Count() != 0 {
		b.Errorf("stats-tube says %+v", s)
	}
	b.putNew("keys", tube.Tags{Key: "k"})
	b.wantPut("keys", tube.Tags{Key: "k"}, tube.PutExisting, b.peekKey("keys", "k").ID, tube.Ready)
	b.putNew("keys", tube.Tags{Key: "k", OnDuplicate: tube.Replace})
	b.deleteKey("keys", "k")
	b.wantFlow("keys", tube.Flow{Puts: 2, Deletes: 2})
}

// flowOfMoves moves jobs to another tube, and flushes the first one.
func (b *harness) flowOfMoves() {
	for range 5 {
		b.put("from", 9)
	}
	if n := b.moveJobs("from", tube.Ready, "to", 3); n != 3 {
		b.Fatalf("%d jobs were moved", n)
	}
	b.flush("from", tube.Ready)
	b.wantFlow("from", tube.Flow{Puts: 5, Deletes: 5})
	b.wantFlow("to", tube.Flow{Puts: 3})
}

// flowOfBatch parks one of two after-jobs of a batch that has failed.
func (b *harness) flowOfBatch() {
	b.putNew("members", member("flow"))
	b.afterJobs("flow")
	b.settle("flow", tube.BatchFailed)
	b.wantFlow("after", tube.Flow{Puts: 2, Parked: 1})
}

// flowOfLarge reserves a job with a large body.
func (b *harness) flowOfLarge() {
	a := b.do(storage.Op{Kind: storage.Put, Tube: "large", Pri: 9, TTR: 100, Body: bytes.Repeat([]byte("x"), 50_000)})
	b.advance(3 * time.Second)
	b.wantTake(1, "large", a.ID)
	b.advance(30 * time.Second)
	b.must(tube.Delete, 1, a.ID)
	b.wantFlow("large", tube.Flow{
		Puts: 1, Deletes: 1, Counts: [tube.NumCounters]uint64{tube.Reserves: 1}, Waits: timesOf(3 * time.Second), Runs: timesOf(30 * time.Second),
	})
}

// flowOfTagged reserves jobs with tags, and deletes one and finishes another.
func (b *harness) flowOfTagged() {
	for _, end := range []tube.Move{tube.Delete, tube.Finish} {
		id := b.putNew("tagged", tube.Tags{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Hour)}})
		b.advance(3 * time.Second)
		b.wantTake(1, "tagged", id)
		b.advance(30 * time.Second)
		b.must(end, 1, id)
	}
	b.wantFlow("tagged", tube.Flow{
		Puts: 2, Deletes: 2, Counts: [tube.NumCounters]uint64{tube.Reserves: 2}, Waits: timesOf(3*time.Second, 3*time.Second),
		Runs: timesOf(30*time.Second, 30*time.Second),
	})
}

// testOldestReady checks the age of the oldest ready job of a tube, whatever its priority, and
// whether or not it was put in the order of priorities.
func testOldestReady(b *harness) {
	wantAge := func(want time.Duration) {
		b.Helper()
		if got := b.tube("t").OldestReady; !near(got, want, 9*time.Second) {
			b.Errorf("the oldest ready job is %v old, want %v", got, want)
		}
	}
	b.ref(tube.Watching, 1, "t")
	wantAge(0)
	var ids []uint64
	for i := range tube.MaxPriorities {
		ids = append(ids, b.put("t", uint32(100-10*i)), b.put("t", uint32(100+10*i)))
		if i < 3 {
			b.advance(100 * time.Second)
		}
		if i == tube.MaxPriorities/2-1 {
			break
		}
	}
	wantAge(300 * time.Second)
	for n, want := range []time.Duration{300, 200, 200, 100} { // while the oldest jobs are reserved
		b.must(tube.ReserveJob, 1, ids[n])
		wantAge(want * time.Second)
	}
	b.pause("t", 5)
	if s := b.tube("t"); s.HasPolicy {
		b.Error("it has a policy")
	}
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{Max: 1}})
	if s := b.tube("t"); !s.HasPolicy {
		b.Error("it has no policy")
	}
}
