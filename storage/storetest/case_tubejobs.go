package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// flush flushes a tube and returns how many jobs were removed.
func (b *harness) flush(name string, s tube.State) int {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Flush, Tube: name, State: s}).Count
}

// moveJobs moves jobs to another tube and returns how many.
func (b *harness) moveJobs(from string, s tube.State, to string, limit uint32) int {
	b.Helper()
	return b.do(storage.Op{Kind: storage.MoveJobs, Tube: from, State: s, MaxJobs: limit, Args: &storage.Args{To: to}}).Count
}

// list returns a page of jobs, and the cursor of the next one.
func (b *harness) list(name string, s tube.State, limit uint32, cursor string) ([]tube.JobStats, string) {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.ListJobs, Tube: name, State: s, MaxJobs: limit, Args: &storage.Args{Cursor: cursor}})
	if a.Result == nil {
		return nil, ""
	}
	return a.Result.Jobs, a.Result.Cursor
}

// listAll lists all jobs, in pages, and returns their ids.
func (b *harness) listAll(name string, s tube.State, limit uint32) (ids []uint64) {
	b.Helper()
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		var jobs []tube.JobStats
		jobs, cursor = b.list(name, s, limit, cursor)
		if len(jobs) > int(limit) || len(jobs) < int(limit) && cursor != "" || pages > 2000 {
			b.Fatalf("page %d of %d has %d jobs, and the cursor %q", pages, limit, len(jobs), cursor)
		}
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// wantList checks which jobs are listed, with pages of several sizes.
func (b *harness) wantList(name string, s tube.State, want ...uint64) {
	b.Helper()
	for _, limit := range []uint32{1, 2, uint32(len(want)), 1000} {
		if got := b.listAll(name, s, max(limit, 1)); !slices.Equal(got, want) {
			b.Errorf("%v jobs of %s in pages of %d: %v, want %v", s, name, limit, got, want)
		}
	}
}

// inAllStates puts two jobs for each state into a tube. Holder 1 holds the reserved jobs.
func (b *harness) inAllStates(name string) (ready, delayed, buried, reserved []uint64) {
	b.Helper()
	id := func(pri, delay uint32) uint64 { return b.putWith(name, pri, delay, 1000, fmt.Sprint("body ", pri)) }
	ready, delayed = []uint64{id(9, 0), id(8, 0)}, []uint64{id(3, 700), id(2, 600)}
	buried, reserved = []uint64{id(1, 0), id(2, 0)}, []uint64{id(1, 0), id(2, 0)}
	for _, j := range slices.Concat(buried, reserved) {
		b.must(tube.ReserveJob, 1, j)
	}
	b.move(tube.Bury, 1, buried[1], 6, 0)
	b.move(tube.Bury, 1, buried[0], 7, 0)
	slices.Reverse(ready) // the better priority first
	slices.Reverse(delayed)
	slices.Reverse(buried)
	return ready, delayed, buried, reserved
}

// testFlush flushes each state, and all states.
func testFlush(b *harness) {
	if n := b.flush("nothing", tube.Gone); n != 0 {
		b.Errorf("%d jobs were flushed from a tube that does not exist", n)
	}
	b.ref(tube.Using, 1, "t")
	other := b.put("u", 1)
	for _, s := range []tube.State{tube.Ready, tube.Delayed, tube.Buried, tube.Reserved} {
		b.inAllStates("t")
		if n := b.flush("t", s); n != 2 {
			b.Errorf("%d %v jobs were flushed, want 2", n, s)
		}
		got := b.tube("t")
		if left := map[tube.State]uint64{tube.Ready: got.Ready, tube.Delayed: got.Delayed, tube.Buried: got.Buried, tube.Reserved: got.Reserved}; left[s] != 0 {
			b.Errorf("after flushing %v jobs: %+v", s, got)
		}
		if n := b.flush("t", s); n != 0 {
			b.Errorf("%d more were flushed", n)
		}
		if n, rest := b.flush("t", tube.Gone), map[bool]int{true: 6, false: 4}[s == tube.Reserved]; n != rest {
			b.Errorf("%d jobs were flushed in the end, want %d", n, rest)
		}
		b.flush("t", tube.Reserved)
	}
	_, _, _, reserved := b.inAllStates("t")
	if n := b.flush("t", tube.Gone); n != 6 {
		b.Errorf("%d jobs were flushed, want 6", n)
	}
	b.must(tube.Delete, 1, reserved[0])
	b.flush("t", tube.Reserved)
	if b.move(tube.Delete, 1, reserved[1], 0, 0) || b.move(tube.Touch, 1, reserved[1], 0, 0) {
		b.Error("a job that was flushed is still held")
	}
	if s := b.tube("t"); s.Deletes != 5*8 || s.Total != 5*8 || s.Ready+s.Reserved+s.Delayed+s.Buried+s.Urgent != 0 {
		b.Errorf("in the end: %+v", s)
	}
	if s := b.totals(); s.Ready != 1 || s.Reserved+s.Delayed+s.Buried != 0 {
		b.Errorf("in the end: %+v", s)
	}
	b.wantTake(1, "u", other)
}

// testFlushKeys: the keys of flushed jobs stay taken for as long as the rules say.
func testFlushKeys(b *harness) {
	long := b.putNew("t", tube.Tags{Key: "long", Rules: tube.Rules{KeyTTL: 50 * time.Second, HasKeyTTL: true}})
	b.putNew("t", tube.Tags{Key: "short"})
	leased, token := b.lease("t")
	if n := b.flush("t", tube.Gone) + b.flush("t", tube.Reserved); n != 2 {
		b.Errorf("%d jobs were flushed, want 2", n)
	}
	if b.leased(tube.Delete, leased, token) {
		b.Error("a leased job was not flushed")
	}
	b.putNew("t", tube.Tags{Key: "short"})
	b.wantPut("t", tube.Tags{Key: "long"}, tube.PutExisting, long, tube.Gone)
	b.advance(51 * time.Second)
	b.putNew("t", tube.Tags{Key: "long"})
}

// testMoveJobs moves jobs in each state.
func testMoveJobs(b *harness) {
	ready, delayed, buried, reserved := b.inAllStates("t")
	last := b.put("t", 1<<31)
	if b.moveJobs("t", tube.Ready, "t", 9) != 0 || b.moveJobs("t", tube.Reserved, "u", 9) != 0 || b.moveJobs("t", tube.Gone, "u", 9) != 0 ||
		b.moveJobs("nothing", tube.Ready, "u", 9) != 0 || b.moveJobs("t", tube.Ready, "u", 0) != 0 {
		b.Error("jobs were moved that must not be")
	}
	old := b.put("u", 5)
	b.must(tube.ReserveJob, 1, old)
	b.must(tube.Bury, 1, old)
	for s, ids := range map[tube.State][]uint64{tube.Ready: ready, tube.Delayed: delayed, tube.Buried: buried} {
		var before []tube.JobStats
		for _, id := range ids {
			before = append(before, b.job(id))
		}
		if n := b.moveJobs("t", s, "u", 2); n != 2 {
			b.Fatalf("%d %v jobs were moved", n, s)
		}
		after, _ := b.list("u", s, 9, "")
		if s == tube.Buried {
			after = after[1:] // old comes first
		}
		b.checkMoved(before, after)
	}
	if b.job(last).State != tube.Ready || b.job(reserved[0]).State != tube.Reserved {
		b.Error("jobs are gone that were not moved")
	}
	if t, u := b.tube("t"), b.tube("u"); t.Deletes != 6 || t.Ready != 1 || t.Delayed+t.Buried != 0 || u.Total != 7 || u.Ready != 2 || u.Delayed != 2 || u.Buried != 3 {
		b.Errorf("in the end: %+v, %+v", t, u)
	}
	b.advance(700 * time.Second)
	moved, _ := b.list("u", tube.Ready, 9, "")
	if len(moved) != 4 || moved[0].Pri != 2 || moved[1].Pri != 3 {
		b.Errorf("when the delayed ones are due: %+v", moved)
	}
	b.releaseAll(1)
}

// checkMoved compares jobs with their copies in tube "u".
func (b *harness) checkMoved(before, after []tube.JobStats) {
	b.Helper()
	if len(after) != len(before) {
		b.Fatalf("of %d jobs %d are in the other tube", len(before), len(after))
	}
	for i := range before {
		old, moved := before[i], after[i]
		if b.job(old.ID).State != tube.Gone || moved.ID <= old.ID || i > 0 && moved.ID <= after[i-1].ID {
			b.Errorf("job %d has become %d", old.ID, moved.ID)
		}
		if moved.State != old.State || moved.Pri != old.Pri || moved.TTR != old.TTR || moved.Delay != old.Delay || !near(moved.TimeLeft, old.TimeLeft, 5*time.Second) ||
			moved.Counters != (tube.Counters{}) {
			b.Errorf("a job was moved: it was %+v\nand is %+v", old, moved)
		}
		if deliveries := old.Counters.Deliveries(); deliveries > 0 && (moved.Metadata == nil || moved.Metadata.Deliveries(&moved.Counters) != deliveries) {
			b.Errorf("it was delivered %d times, and now: %+v", deliveries, moved.Metadata)
		}
		if a := b.do(storage.Op{Kind: storage.Peek, ID: moved.ID}); !slices.Contains([]string{"body 9", "body 8", "body 3", "body 2", "body 1"}, string(a.Body)) {
			b.Errorf("its body is %q", a.Body)
		}
	}
}

// testMoveMetadata checks which metadata moved jobs keep.
func testMoveMetadata(b *harness) {
	rules := tube.Rules{Retry: []time.Duration{0, 0}, Dead: "morgue", KeyTTL: 100 * time.Second, HasKeyTTL: true}
	id := b.putNew("t", tube.Tags{Key: "k", Rules: rules})
	taken := b.putNew("t", tube.Tags{Key: "taken"})
	b.putNew("u", tube.Tags{Key: "taken"})
	gone := b.putNew("u", tube.Tags{Key: "k", Rules: tube.Rules{KeyTTL: 100 * time.Second, HasKeyTTL: true}})
	b.must(tube.Delete, 1, gone)
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Release, 1, id)
	if n := b.moveJobs("t", tube.Ready, "u", 9); n != 2 || b.job(taken).State != tube.Gone {
		b.Fatalf("%d jobs were moved", n)
	}
	b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Gone) // as if it had been deleted
	moved := b.peekKey("u", "k").ID
	s := b.job(moved)
	if s.Metadata == nil || s.Metadata.Key != "k" || !reflect.DeepEqual(s.Metadata.Rules, rules) {
		b.Fatalf("job %d has become %d: %+v", id, moved, s.Metadata)
	}
	if jobs, _ := b.list("u", tube.Ready, 9, ""); len(jobs) != 3 || jobs[2].Metadata != nil && jobs[2].Metadata.Key != "" {
		b.Errorf("one whose key is taken there: %+v", jobs)
	}
	b.wantRetries("moved after a failure", moved, tube.Ready, tube.NotParked, 1, 1)
	b.must(tube.ReserveJob, 1, moved)
	b.must(tube.Release, 1, moved)
	b.wantRetries("the second failure", moved, tube.Ready, tube.NotParked, 2, 2)
	b.must(tube.ReserveJob, 1, moved)
	b.must(tube.Release, 1, moved)
	b.awaitSent(moved)
	a := b.peekKey("morgue", "k")
	if s := b.job(a.ID); string(a.Body) != "body" || s.Metadata == nil || s.Metadata.FromTube != "u" || s.Metadata.FromID != moved {
		b.Fatalf("the third failure: %+v, %+v", s, s.Metadata)
	}
	b.moveJobs("morgue", tube.Ready, "t2", 1)
	if s := b.job(b.peekKey("t2", "k").ID); s.Metadata == nil || s.Metadata.FromTube != "u" || s.Metadata.FromID != moved {
		b.Errorf("a dead letter that was moved: %+v", s.Metadata)
	}
}

// testMoveParked: a parked job stays parked, and its failures count from zero when it is kicked.
func testMoveParked(b *harness) {
	id := b.putNew("t", tube.Tags{Rules: tube.Rules{Max: 1}})
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Release, 1, id)
	b.moveJobs("t", tube.Buried, "u", 1)
	moved := b.head("u", tube.Buried)
	b.wantRetries("moved", moved, tube.Buried, tube.ParkedDeliveries, 1, 1)
	b.must(tube.KickJob, 1, moved)
	b.wantRetries("kicked", moved, tube.Ready, tube.NotParked, 0, 0)
	b.must(tube.ReserveJob, 1, moved)
	b.must(tube.Release, 1, moved)
	b.wantRetries("exhausted again", moved, tube.Buried, tube.ParkedDeliveries, 1, 1)
}

// testMoveJob moves single jobs in each state: they keep what they are and what they wait for.
func testMoveJob(b *harness) {
	b.putNew("t", member("x"))
	move := func(id uint64, to string) bool {
		return !b.do(storage.Op{Kind: storage.MoveJob, ID: id, Args: &storage.Args{To: to}}).NotFound
	}
	tags := tube.Tags{Group: "g", Batch: "y", Expire: tube.LifetimeOf(time.Hour), Meta: []tube.Meta{{Name: "a", Value: "b"}}}
	for state, enter := range map[string]func(id uint64){
		"ready": func(uint64) {}, "held": func(uint64) {}, "delayed": func(uint64) {},
		"buried": func(id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Bury, 1, id) },
	} {
		tags.Key, tags.After, tags.Delay, tags.HasDelay = state, "", 0, state == "delayed"
		if state == "held" {
			tags.After = "x"
		} else if state == "delayed" {
			tags.Delay = time.Minute
		}
		id := b.putNew("t", tags)
		enter(id)
		before, batch := b.job(id), b.batchSum("y")
		if !move(id, "u") {
			b.Fatalf("%s: not moved", state)
		}
		b.awaitSent(id)
		after := b.job(b.peekKey("u", state).ID)
		m := after.Metadata
		if after.State != before.State || m.Group != "g" || m.Batch != "y" || m.After != tags.After || m.Expires != before.Metadata.Expires || len(m.AllNotes().Meta) != 1 ||
			!near(after.TimeLeft, before.TimeLeft, 5*time.Second) {
			b.Errorf("%s: it was %s\nand is %s", state, showJob(&before), showJob(&after))
		}
		if s := b.batchSum("y"); s.Pending != batch.Pending || s.Parked != batch.Parked || s.Done+s.Gone != 0 {
			b.Errorf("%s: the batch was %+v, and is %+v", state, batch, s)
		}
		if move(after.ID, "u") {
			b.Error("moved to its own tube")
		}
	}
	held := b.putNew("t", tube.Tags{})
	if b.must(tube.ReserveJob, 1, held); move(held, "u") || move(999999, "u") {
		b.Error("moved what is reserved or gone")
	}
}

// testListJobs lists jobs in each state.
func testListJobs(b *harness) {
	b.wantList("nothing", tube.Ready)
	ready, delayed, buried, reserved := b.inAllStates("t")
	b.put("u", 1)
	b.wantList("t", tube.Ready, ready...)
	b.wantList("t", tube.Delayed, delayed...)
	b.wantList("t", tube.Buried, buried...)
	b.wantList("t", tube.Reserved, reserved...)
	b.wantList("t", tube.Gone)
	jobs, _ := b.list("t", tube.Delayed, 1, "")
	j := b.job(delayed[0])
	j.Size = len("body 2") // which only lists have
	if !sameJob(jobs[0], j, 5*time.Second) || jobs[0].Age > time.Minute {
		b.Errorf("listed %+v, want %+v", jobs[0], j)
	}
	id := b.putNew("k", tube.Tags{Key: "key", Rules: tube.Rules{Max: 3}})
	if jobs, cursor := b.list("k", tube.Ready, 9, ""); len(jobs) != 1 || cursor != "" || jobs[0].ID != id || jobs[0].Metadata == nil || jobs[0].Metadata.Key != "key" || jobs[0].Rules.Max != 3 {
		b.Errorf("listed %+v, cursor %q", jobs, cursor)
	}
	b.must(tube.ReserveJob, 1, ready[0])
	b.move(tube.Release, 1, ready[0], 20, 0) // its position changes
	b.wantList("t", tube.Ready, ready[1], ready[0])
	b.releaseAll(1)
}

// testListWhileChanging: each page continues where the previous one ended, even if the last job
// of that page is gone.
func testListWhileChanging(b *harness) {
	var ids []uint64
	for range 6 {
		ids = append(ids, b.put("t", 5))
	}
	early := b.put("t", 4)
	jobs, cursor := b.list("t", tube.Ready, 3, "")
	if len(jobs) != 3 || jobs[0].ID != early || jobs[2].ID != ids[1] {
		b.Fatalf("first %+v", jobs)
	}
	b.put("t", 3) // before the cursor
	for _, id := range []uint64{early, ids[1], ids[3]} {
		b.must(tube.Delete, 1, id)
	}
	late := b.put("t", 6)
	jobs, cursor = b.list("t", tube.Ready, 2, cursor)
	if len(jobs) != 2 || jobs[0].ID != ids[2] || jobs[1].ID != ids[4] {
		b.Errorf("then %+v", jobs)
	}
	jobs, cursor = b.list("t", tube.Ready, 2, cursor)
	if len(jobs) != 2 || jobs[0].ID != ids[5] || jobs[1].ID != late || cursor != "" {
		b.Errorf("in the end %+v, cursor %q", jobs, cursor)
	}
}

// testMany flushes, moves and lists more jobs than an engine handles in one part, in random order.
func testMany(b *harness) {
	const jobs = 1203
	var puts []storage.Op
	for i := range jobs {
		puts = append(puts, storage.Op{Kind: storage.Put, Tube: "t", Pri: uint32(i * 7919 % jobs), TTR: 100, Body: []byte(fmt.Sprint(i))})
	}
	b.batch(puts...)
	slices.SortStableFunc(puts, func(x, y storage.Op) int { return int(x.Pri) - int(y.Pri) })
	var want, moved []uint64
	for i := range puts {
		want = append(want, puts[i].Answer.ID)
	}
	for _, limit := range []uint32{100, 1000} {
		if got := b.listAll("t", tube.Ready, limit); !slices.Equal(got, want) {
			b.Fatalf("in pages of %d, %d jobs are listed", limit, len(got))
		}
	}
	if jobs, cursor := b.list("t", tube.Ready, 5000, ""); len(jobs) != tube.MaxListed || cursor == "" {
		b.Errorf("a page of 5,000 has %d jobs and the cursor %q", len(jobs), cursor)
	}
	if n := b.moveJobs("t", tube.Ready, "u", jobs-1); n != jobs-1 {
		b.Fatalf("%d jobs were moved", n)
	}
	if moved = b.listAll("u", tube.Ready, 1000); len(moved) != jobs-1 || !slices.IsSorted(moved) {
		b.Fatalf("%d jobs are in the other tube, sorted: %v", len(moved), slices.IsSorted(moved))
	}
	for _, i := range []int{0, 600, jobs - 2} {
		if a := b.do(storage.Op{Kind: storage.Peek, ID: moved[i]}); string(a.Body) != string(puts[i].Body) {
			b.Errorf("job %d has the body %q, want %q", moved[i], a.Body, puts[i].Body)
		}
	}
	if n := b.flush("t", tube.Gone) + b.flush("u", tube.Ready); n != jobs {
		b.Errorf("%d jobs were flushed", n)
	}
}
