package storetest

import (
	"errors"
	"math"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// putTagged puts a job with tags, with priority 10 and a TTR of 60 s.
func (b *harness) putTagged(name string, tags tube.Tags) (a storage.Answer) {
	b.Helper()
	a = b.do(storage.Op{Kind: storage.Put, Tube: name, Pri: 10, TTR: 60, Body: []byte("body"), Args: &storage.Args{Tags: &tags}})
	if a.Err != nil {
		b.Fatalf("a put with tags was answered %+v", a)
	}
	return a
}

// putNew puts a job, which must succeed, and returns its id. The state in the answer must be that of
// the job.
func (b *harness) putNew(name string, tags tube.Tags) uint64 {
	b.Helper()
	a := b.putTagged(name, tags)
	if a.Outcome != tube.PutNew {
		b.Fatalf("a put into %s with %+v was answered %+v", name, tags, a)
	}
	if stats := b.do(storage.Op{Kind: storage.JobStats, ID: a.ID}); a.State != stats.Job.State {
		b.Errorf("a put with %+v was answered %v, but the job is %v", tags, a.State, stats.Job.State)
	}
	return a.ID
}

// wantPut puts a job, which must not succeed, because job id has its key, or had it.
func (b *harness) wantPut(name string, tags tube.Tags, want tube.PutResult, id uint64, state tube.State) {
	b.Helper()
	if a := b.putTagged(name, tags); a.Outcome != want || a.ID != id || a.State != state {
		b.Errorf("a put with key %s was answered %+v, job %d; want outcome %d, job %d, %v", tags.Key, *a.Result, a.ID, want, id, state)
	}
}

// refused reports whether the store refuses a put because of a quota.
func (b *harness) refused(op storage.Op) bool {
	b.Helper()
	sent := lent([]storage.Op{op})
	storage.DoWait(b.store, sent)
	if err := sent[0].Answer.Err; err != nil && !errors.Is(err, storage.ErrQuota) {
		b.Fatal(err)
	}
	return sent[0].Answer.Err != nil
}

func (b *harness) deleteKey(name, key string) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.DeleteKey, Tube: name, Args: &storage.Args{Key: key}}).NotFound
}

func (b *harness) peekKey(name, key string) storage.Answer {
	b.Helper()
	return b.do(storage.Op{Kind: storage.PeekKey, Tube: name, Args: &storage.Args{Key: key}})
}

// testTagsDelay puts jobs with delays to the millisecond, and with due times.
func testTagsDelay(b *harness) {
	delay := func(d time.Duration) tube.Tags { return tube.Tags{HasDelay: true, Delay: d} }
	late := b.putNew("t", delay(40_500*time.Millisecond))
	soon := b.putNew("t", delay(30_250*time.Millisecond))
	now := b.putNew("t", delay(0))
	if s := b.job(late); s.State != tube.Delayed || s.Delay != 41 || s.TimeLeft > 40_500*time.Millisecond || s.TimeLeft < 35*time.Second {
		b.Errorf("with a delay: %+v", s)
	}
	past := b.putNew("t", tube.Tags{HasAt: true, At: 1})
	b.wantTake(1, "t", now, past)
	at := b.putNew("t", tube.Tags{HasAt: true, At: tube.Instant(b.began.Add(34 * time.Second).UnixNano())})
	if s := b.job(at); s.State != tube.Delayed || s.TimeLeft > 35*time.Second || s.TimeLeft < 30*time.Second {
		b.Errorf("due at a time: %+v", s)
	}
	never := b.putNew("t", tube.Tags{HasAt: true, At: tube.Latest})
	if s := b.job(never); s.State != tube.Delayed || s.Delay != math.MaxUint32 || tube.Latest.Until(tube.Instant(b.began.UnixNano()))-s.TimeLeft > time.Minute {
		b.Errorf("due at the latest time: %+v", s)
	}
	b.advance(30_300 * time.Millisecond)
	b.wantTake(1, "t", soon)
	b.advance(5 * time.Second)
	b.wantTake(1, "t", at)
	b.advance(5500 * time.Millisecond)
	b.wantTake(1, "t", late)
}

// testKeys puts jobs whose key is taken, by a job in each state.
func testKeys(b *harness) {
	key := func(onDuplicate tube.OnDuplicate) tube.Tags { return tube.Tags{Key: "k", OnDuplicate: onDuplicate} }
	id := b.putNew("t", key(tube.NotSaid))
	other := b.putNew("u", key(tube.Fail))
	b.wantPut("t", key(tube.NotSaid), tube.PutExisting, id, tube.Ready)
	b.wantPut("t", key(tube.Keep), tube.PutExisting, id, tube.Ready)
	b.wantPut("t", key(tube.Fail), tube.PutDuplicate, id, tube.Ready)
	if s := b.tube("t"); s.Ready != 1 {
		b.Errorf("after puts that created no job: %+v", s)
	}
	b.wantTake(1, "t", id)
	b.wantPut("t", key(tube.Keep), tube.PutExisting, id, tube.Reserved)
	b.move(tube.Release, 1, id, 10, 100)
	b.wantPut("t", key(tube.Keep), tube.PutExisting, id, tube.Delayed)
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Bury, 1, id)
	b.wantPut("t", key(tube.Fail), tube.PutDuplicate, id, tube.Buried)
	b.must(tube.ReserveJob, 1, id)
	second := b.putNew("t", key(tube.Replace))
	if b.job(id).State != tube.Gone || b.move(tube.Delete, 1, id, 0, 0) {
		b.Error("the job that was replaced still exists")
	}
	b.must(tube.Delete, 1, second)
	third := b.putNew("t", key(tube.Keep))
	if s := b.job(third); s.Metadata == nil || s.Metadata.Key != "k" || s.Counters != (tube.Counters{}) || s.Pri != 10 || s.TTR != 60 {
		b.Errorf("the third: %+v", s)
	}
	if a := b.peekKey("u", "k"); a.ID != other || string(a.Body) != "body" {
		b.Errorf("in the other tube job %d has it: %q", a.ID, a.Body)
	}
}

// testKeyTTL checks tombstones: keys stay taken after their jobs are removed, in every way.
func testKeyTTL(b *harness) {
	tags := tube.Tags{Key: "k", Rules: tube.Rules{HasKeyTTL: true, KeyTTL: 30 * time.Second}}
	removals := []func(id uint64){
		func(id uint64) { b.must(tube.Delete, 1, id) },
		func(id uint64) { b.deleteKey("t", "k") },
		func(id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Delete, 1, id) },
		func(id uint64) { b.must(tube.ReserveJob, 1, id); b.deleteKey("t", "k") },
	}
	for _, remove := range removals {
		id := b.putNew("t", tags)
		remove(id)
		b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Gone)
		b.wantPut("t", tube.Tags{Key: "k", OnDuplicate: tube.Fail}, tube.PutDuplicate, id, tube.Gone)
		if a := b.peekKey("t", "k"); !a.NotFound {
			b.Errorf("job %d has the key", a.ID)
		}
		b.advance(28 * time.Second)
		b.wantPut("t", tags, tube.PutExisting, id, tube.Gone)
		b.advance(2010 * time.Millisecond)
	}
	id := b.putNew("t", tags)
	b.must(tube.Delete, 1, id)
	tags.OnDuplicate = tube.Replace
	b.putNew("t", tags)
	id = b.putNew("t", tags) // it replaces an existing job
	b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Ready)
	b.advance(31 * time.Second)
	b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Ready)
	b.must(tube.Delete, 1, id)
	id = b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace}) // has no key-ttl itself
	b.must(tube.Delete, 1, id)
	b.putNew("t", tube.Tags{Key: "k"})
}

// testKeyTaken checks which tombstone counts where a key had several: only the last one, and none
// if a job has come to the key, by a put or from another tube.
func testKeyTaken(b *harness) {
	for _, ttl := range []time.Duration{20, 40} {
		id := b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace, Rules: tube.Rules{HasKeyTTL: true, KeyTTL: ttl * time.Second}})
		b.must(tube.Delete, 1, id)
		if ttl == 40 {
			b.advance(25 * time.Second) // past the end of the first one
			b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Gone)
		}
	}
	b.putNew("u", tube.Tags{Key: "k"})
	if n := b.moveJobs("u", tube.Ready, "t", 1); n != 1 {
		b.Fatalf("%d jobs were moved", n)
	}
	b.awaitKey("t", "k")
	b.must(tube.Delete, 1, b.peekKey("t", "k").ID)
	b.putNew("t", tube.Tags{Key: "k"})
}

// awaitKey waits until a job has a key: a moved job can take a moment.
func (b *harness) awaitKey(name, key string) {
	b.Helper()
	for limit := time.Now().Add(learnLimit); b.peekKey(name, key).NotFound; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			b.Fatalf("no job of %s has the key %s", name, key)
		}
		b.advance(0)
	}
}

// testByKey finds jobs by their keys, and deletes them, in each state.
func testByKey(b *harness) {
	if a := b.peekKey("t", "k"); !a.NotFound || b.deleteKey("t", "k") {
		b.Error("there is a job that was never put")
	}
	prepare := map[tube.State]func(uint64){
		tube.Ready:    func(uint64) {},
		tube.Reserved: func(id uint64) { b.must(tube.ReserveJob, 1, id) },
		tube.Delayed:  func(id uint64) { b.must(tube.ReserveJob, 1, id); b.move(tube.Release, 1, id, 1, 100) },
		tube.Buried:   func(id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Bury, 1, id) },
	}
	for state, moveTo := range prepare {
		id := b.putNew("t", tube.Tags{Key: "k"})
		moveTo(id)
		if a := b.peekKey("t", "k"); a.ID != id || string(a.Body) != "body" {
			b.Errorf("a %v job: peek-key finds %d with %q", state, a.ID, a.Body)
		}
		if !b.deleteKey("t", "k") || b.job(id).State != tube.Gone || b.deleteKey("t", "k") {
			b.Errorf("a %v job was not deleted exactly once", state)
		}
		if b.move(tube.Delete, 1, id, 0, 0) || b.move(tube.Release, 1, id, 0, 0) {
			b.Errorf("a %v job can still be finished", state)
		}
	}
	if t := b.totals(); t.Ready+t.Reserved+t.Delayed+t.Buried != 0 || t.Tubes != 1 {
		b.Errorf("in the end: %+v", t)
	}
}

// testFindKey searches all tubes for a key.
func testFindKey(b *harness) {
	find := func(key string) storage.Answer {
		return b.do(storage.Op{Kind: storage.FindKey, Args: &storage.Args{Key: key}})
	}
	b.put("a", 1) // so that the tubes are in another order
	c, a := b.putNew("c", tube.Tags{Key: "k"}), b.putNew("a", tube.Tags{Key: "k"})
	b.putNew("a", tube.Tags{Key: "kk"})
	gone := b.putNew("b", tube.Tags{Key: "k"})
	b.must(tube.Delete, 1, gone)
	b.must(tube.ReserveJob, 1, a)
	found := find("k")
	if found.NotFound || found.Result == nil || len(found.Result.Jobs) != 2 {
		b.Fatalf("found %+v", found.Result)
	}
	jobs := found.Result.Jobs
	if jobs[0].ID != c || jobs[0].Tube != "c" || jobs[1].ID != a || jobs[1].State != tube.Reserved || jobs[1].Metadata.Key != "k" {
		b.Errorf("found %+v", jobs)
	}
	if !find("nothing").NotFound {
		b.Error("found a job with a key that no job has")
	}
	b.advance(5 * time.Second)
	for i, j := range find("k").Result.Jobs {
		if j.Created != jobs[i].Created || j.Age < jobs[i].Age+5*time.Second-time.Millisecond || j.Created == 0 {
			b.Errorf("5 s later %+v has become %+v", jobs[i], j)
		}
	}
}
