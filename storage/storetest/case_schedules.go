package storetest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// fullSchedule returns the first record of a schedule in which everything is set.
func fullSchedule(name string) *tube.Schedule {
	const ms = tube.Instant(time.Millisecond)
	return &tube.Schedule{
		Name: name, Version: 1, Body: []byte("a \"body\"\r\n\x00\xff"),
		Tube: "t", Pri: math.MaxUint32, TTR: 77,
		Tags: &tube.Tags{
			Delay: 1500 * time.Millisecond, HasDelay: true, Key: "k ä\"", Group: "g", Expire: tube.LifetimeOf(time.Hour),
			Rules: fullPolicy().Rules, Meta: someMeta(), Trace: aTrace,
		},
		Timing:  tube.Timing{Cron: "30 2 * * 1-5", Every: 1001 * time.Millisecond, Zone: "America/Argentina/Buenos_Aires", From: ms, Until: tube.Latest, Spread: time.Hour},
		Overlap: tube.OverlapBuffer, HasCatchUp: true, CatchUp: 36 * time.Hour, CatchUpAll: 1000,
		Due: tube.Never, Begin: 1_790_000_000_001 * ms, Last: 1_790_000_000_002 * ms, Next: 1_790_000_000_003 * ms,
		Paused: true, Missed: 1<<63 + 1, Stopped: 12,
	}
}

// dueIn returns the first record of a schedule that is due in that time, in whole seconds, for
// tube "t".
func (b *harness) dueIn(name string, in time.Duration) *tube.Schedule {
	return dueAt(name, b.at(in))
}

func dueAt(name string, due tube.Instant) *tube.Schedule {
	return &tube.Schedule{Name: name, Version: 1, Body: []byte("body of " + name), Tube: "t", TTR: 60, Due: due}
}

// at returns the time by the clock of the store in that time, in whole milliseconds.
func (b *harness) at(in time.Duration) tube.Instant {
	now := b.began
	if b.engine.Now != nil {
		now = b.engine.Now()
	}
	return tube.Instant(now.Add(in).Truncate(time.Millisecond).UnixNano())
}

// trySchedule writes a record and returns whether that was possible.
func (b *harness) trySchedule(s *tube.Schedule) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.SetSchedule, Tube: s.Tube, Args: &storage.Args{Schedule: s}}).NotFound
}

func (b *harness) setSchedule(s *tube.Schedule) {
	b.Helper()
	if !b.trySchedule(s) {
		b.Fatalf("version %d of %s could not be written", s.Version, s.Name)
	}
}

// schedule returns a record, nil if there is none of that name.
func (b *harness) schedule(name string) *tube.Schedule {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: name}})
	if a.NotFound {
		return nil
	}
	b.checkNow(a.Result)
	if len(a.Result.Schedules()) != 1 {
		b.Fatalf("%d records of the name %s", len(a.Result.Schedules()), name)
	}
	return a.Result.Schedules()[0]
}

// checkNow checks the time in an answer.
func (b *harness) checkNow(r *storage.Result) {
	b.Helper()
	if off := b.at(0).Until(r.Now); b.engine.Now != nil && off.Abs() > time.Minute {
		b.Errorf("the time of the store is %v off", off)
	}
}

func (b *harness) wantSchedule(what string, want *tube.Schedule) {
	b.Helper()
	if got := b.schedule(want.Name); got == nil || !sameSchedule(got, want) {
		b.Fatalf("%s: the record is %+v\nwant %+v", what, got, want)
	}
}

func (b *harness) deleteSchedule(name string) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.DeleteSchedule, Args: &storage.Args{Name: name}}).NotFound
}

// claim returns the records that are due, and claims them.
func (b *harness) claim(limit uint32) []*tube.Schedule {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: limit})
	b.checkNow(a.Result)
	return a.Result.Schedules()
}

func (b *harness) wantClaim(what string, limit uint32, names ...string) {
	b.Helper()
	if got := namesOf(b.claim(limit)); !slices.Equal(got, names) {
		b.Fatalf("%s: due are %q, want %q", what, got, names)
	}
}

func namesOf(schedules []*tube.Schedule) (names []string) {
	for _, s := range schedules {
		names = append(names, s.Name)
	}
	return names
}

// putScheduled puts the job of a schedule for the nominal time of n ms, with tags.
func (b *harness) putScheduled(s *tube.Schedule, n int, tags tube.Tags) storage.Answer {
	b.Helper()
	return b.do(scheduledPut(s, n, tags))
}

func scheduledPut(s *tube.Schedule, n int, tags tube.Tags) storage.Op {
	tags.Occurrence = &tube.Occurrence{Schedule: s.Name, Nominal: tube.Instant(n) * tube.Instant(time.Millisecond)}
	return storage.Op{
		Kind: storage.PutScheduled, Tube: s.Tube, Pri: s.Pri, TTR: s.TTR, Body: s.Body, Args: &storage.Args{Tags: &tags, Schedule: s},
	}
}

// wantScheduled puts the job of the next version of a schedule, and checks its answer. It returns
// that version.
func (b *harness) wantScheduled(what string, s *tube.Schedule, tags tube.Tags, want tube.PutResult, id uint64, state tube.State) *tube.Schedule {
	b.Helper()
	next := *s
	next.Version++
	a := b.putScheduled(&next, 7, tags)
	if a.NotFound || a.Outcome != want || a.ID != id || a.State != state {
		b.Fatalf("%s: answered job %d, %d; want outcome %d, job %d, %v", what, a.ID, a.Outcome, want, id, state)
	}
	next.Results.Count(1, 7*tube.Instant(time.Millisecond), tube.PutAnswer{Result: want, ID: id})
	b.wantSchedule(what, &next)
	return &next
}

// putNewScheduled is wantScheduled for a put that succeeds. It returns the id of the job, too.
func (b *harness) putNewScheduled(s *tube.Schedule, tags tube.Tags) (*tube.Schedule, uint64) {
	b.Helper()
	next := *s
	next.Version++
	a := b.putScheduled(&next, 7, tags)
	if a.NotFound || a.Outcome != tube.PutNew || a.ID == 0 {
		b.Fatalf("a put by %s was answered %d, job %d", s.Name, a.Outcome, a.ID)
	}
	if state := b.job(a.ID).State; a.State != state {
		b.Errorf("a put by %s was answered %v, but the job is %v", s.Name, a.State, state)
	}
	next.Results.Count(1, 7*tube.Instant(time.Millisecond), tube.PutAnswer{ID: a.ID})
	b.wantSchedule("put", &next)
	return &next, a.ID
}

// wantOccurrence checks which schedule has put a job, and for when; "": none has.
func (b *harness) wantOccurrence(what string, id uint64, schedule string, n int) {
	b.Helper()
	s := b.job(id)
	want := &tube.Occurrence{Schedule: schedule, Nominal: tube.Instant(n) * tube.Instant(time.Millisecond)}
	if schedule == "" {
		want = nil
	}
	var got *tube.Occurrence
	if s.Metadata != nil {
		got = s.Metadata.Occurrence
	}
	if s.State == tube.Gone || !reflect.DeepEqual(got, want) {
		b.Fatalf("%s: job %d is %s\nwant %+v", what, id, showJob(&s), want)
	}
}

// testSchedules writes, reads and deletes records. Each write must know the latest version.
func testSchedules(b *harness) {
	s := fullSchedule("s")
	if b.schedule("s") != nil || b.deleteSchedule("s") {
		b.Fatal("found what was never written")
	}
	for _, version := range []uint64{0, 2, math.MaxUint64} {
		wrong := *s
		if wrong.Version = version; b.trySchedule(&wrong) {
			b.Fatalf("version %d was written at first", version)
		}
	}
	b.setSchedule(s)
	b.wantSchedule("written", s)
	if !reflect.DeepEqual(b.schedule("s").Tags, s.Tags) {
		b.Errorf("the tags are %+v", b.schedule("s").Tags)
	}
	next := &tube.Schedule{Name: "s", Version: 2, Tube: "t", TTR: 1, Due: 1}
	for _, version := range []uint64{0, 1, 3} {
		wrong := *next
		if wrong.Version = version; b.trySchedule(&wrong) {
			b.Fatalf("version %d was written over version 1", version)
		}
	}
	b.wantSchedule("not replaced", s)
	b.setSchedule(next)
	b.wantSchedule("replaced", next)
	large := *next
	large.Name, large.Version, large.Body = "large", 1, bytes.Repeat([]byte("ä\n"), 30_000)
	b.setSchedule(&large)
	b.wantSchedule("large", &large)
	b.wantSchedule("beside a large one", next)
	if b.trySchedule(s) || !b.deleteSchedule("s") || b.deleteSchedule("s") || b.schedule("s") != nil {
		b.Error("deleted twice, or not at all")
	}
	if got := b.claim(100); len(got) != 1 || !sameSchedule(got[0], &large) {
		b.Errorf("due after a deletion: %+v", got)
	}
	b.setSchedule(s) // begins again, perhaps in another tube
	b.wantSchedule("written again", s)
	b.deleteSchedule("s")
	moved := *s
	moved.Tube = "other"
	b.setSchedule(&moved)
	b.wantSchedule("in another tube", &moved)
	if got := b.tubes(); !slices.Equal(got, []string{"default"}) {
		b.Errorf("schedules have created tubes: %v", got)
	}
}

// recordNames returns the names of all records of a kind, page by page. In several partitions several records can have one name.
func (b *harness) recordNames(kind tube.RecordKind, limit uint32) (names []string) {
	b.Helper()
	for cursor, pages := "", 0; pages < 100; pages++ {
		r := b.do(storage.Op{Kind: storage.ListRecords, Records: kind, MaxJobs: limit, Args: &storage.Args{Cursor: cursor}}).Result
		b.checkNow(r)
		for _, record := range r.Records {
			names = append(names, record.RecordName())
		}
		if cursor = r.Cursor; cursor == "" {
			return slices.Compact(names)
		}
		if kind == tube.Schedules && len(r.Records) != int(limit) {
			b.Errorf("a page of %d has %d", limit, len(r.Records))
		}
	}
	b.Fatalf("the pages of %d have no end", limit)
	return nil
}

// testListRecords lists records of several tubes in the order of their names.
func testListRecords(b *harness) {
	names := []string{"$", "(a)", "A", "a", "a b", "a-b", "a.b", "aa", "b", "z_", "z_1", "ä"}
	for kind, write := range map[tube.RecordKind]func(name string, n int){
		tube.Schedules:  func(name string, n int) { b.setSchedule(listedSchedule(name, n)) },
		tube.JobBatches: func(name string, n int) { b.putNew(fmt.Sprint("tube", n%4), member(name)) },
	} {
		if got := b.recordNames(kind, 3); got != nil {
			b.Fatalf("at first: %q", got)
		}
		for i, name := range slices.Backward(names) {
			write(name, i)
		}
		for _, limit := range []uint32{1, 3, 5, 12, 13, math.MaxUint32} {
			if got := b.recordNames(kind, limit); !slices.Equal(got, names) {
				b.Errorf("in pages of %d: %q", limit, got)
			}
		}
	}
	list := func(limit uint32, cursor string) *storage.Result {
		return b.do(storage.Op{Kind: storage.ListRecords, Records: tube.Schedules, MaxJobs: limit, Args: &storage.Args{Cursor: cursor}}).Result
	}
	first := list(4, "")
	for i, s := range first.Schedules() {
		want := listedSchedule(names[i], i)
		if want.Body = nil; !sameSchedule(s, want) {
			b.Errorf("listed: %+v", s)
		}
	}
	b.deleteSchedule("a b")
	b.deleteSchedule("aa")
	if got := namesOf(list(3, first.Cursor).Schedules()); !slices.Equal(got, []string{"a-b", "a.b", "b"}) {
		b.Errorf("after deletions: %q", got)
	}
}

func listedSchedule(name string, n int) *tube.Schedule {
	s := fullSchedule(name)
	s.Tube, s.Pri = fmt.Sprint("tube", n%4), uint32(n)
	return s
}

// testDueSchedules: records are returned once they are due, the earliest first, and to one caller
// only.
func testDueSchedules(b *harness) {
	b.reopens = false // claims are lost
	b.wantClaim("none", 9)
	now := b.at(0)
	for name, in := range map[string]time.Duration{"c": 40 * time.Second, "b": 30 * time.Second, "a": 40 * time.Second, "d": 20 * time.Second, "z": time.Hour} {
		b.setSchedule(dueAt(name, now+tube.Instant(in)))
	}
	never := b.dueIn("never", 0)
	never.Due = tube.Never
	b.setSchedule(never)
	b.wantClaim("too early", 9)
	if next := b.advance(10 * time.Second); next > 10*time.Second {
		b.Errorf("the store says nothing is due for %v", next)
	}
	b.advance(31 * time.Second)
	claimed := time.Now()
	b.wantClaim("the earliest two", 2, "d", "b")
	got := b.claim(9)
	if time.Since(claimed) < tube.ClaimTime && !slices.Equal(namesOf(got), []string{"a", "c"}) {
		b.Fatalf("then %q", namesOf(got))
	}
	for _, s := range got {
		want := b.schedule(s.Name)
		if !sameSchedule(s, want) || string(s.Body) != "body of "+s.Name || s.Version != 1 {
			b.Errorf("due: %+v, and it is %+v", s, want)
		}
	}
	if got := b.claim(9); time.Since(claimed) < tube.ClaimTime && len(got) > 0 {
		b.Fatalf("claimed twice: %q", namesOf(got))
	}
	b.advance(tube.ClaimTime)
	b.wantClaim("claims end", 9, "d", "b", "a", "c")
	b.deleteSchedule("a")
	b.advance(tube.ClaimTime)
	b.wantClaim("deleted", 9, "d", "b", "c")
}

// testClaimsEnd: the record that replaces a claimed one can be due at once, or later.
func testClaimsEnd(b *harness) {
	b.reopens = false
	before := b.at(-time.Minute)
	for _, name := range []string{"set", "put", "later", "never"} {
		b.setSchedule(dueAt(name, before))
	}
	b.wantClaim("at first", 9, "later", "never", "put", "set")
	next := func(name string, in time.Duration) *tube.Schedule {
		s := b.dueIn(name, in)
		s.Version = 2
		return s
	}
	b.putScheduled(next("put", -time.Second), 1, tube.Tags{})
	b.setSchedule(next("set", -2*time.Second))
	b.setSchedule(next("later", 30*time.Second))
	never := next("never", 0)
	never.Due = tube.Never
	b.setSchedule(never)
	claimed := time.Now()
	if got := namesOf(b.claim(9)); time.Since(claimed) < tube.ClaimTime && !slices.Equal(got, []string{"set", "put"}) {
		b.Fatalf("written again, so due are %q", got)
	}
	if b.trySchedule(next("set", 0)) || b.trySchedule(b.dueIn("set", 0)) { // they change nothing
		b.Fatal("an old version was written")
	}
	if got := b.claim(9); time.Since(claimed) < tube.ClaimTime && len(got) > 0 {
		b.Fatalf("claimed twice: %q", namesOf(got))
	}
	b.deleteSchedule("put")
	b.setSchedule(b.dueIn("put", -time.Second))
	if got := namesOf(b.claim(9)); time.Since(claimed) < tube.ClaimTime && !slices.Equal(got, []string{"put"}) {
		b.Fatalf("deleted and written again, so due are %q", got)
	}
	b.advance(31 * time.Second)
	b.wantClaim("in the end", 9, "set", "put", "later")
}

// testSchedulesDue: a Tick reports that a record is due, until it is returned, and again when its
// claim ends.
func testSchedulesDue(b *harness) {
	b.reopens = false
	wantReport := func(what string, want bool) {
		b.Helper()
		b.listener.mu.Lock()
		defer b.listener.mu.Unlock()
		if got := b.listener.records[tube.Schedules] > 0; got != want && (want || !b.engine.runsByItself()) {
			b.Fatalf("%s: reported: %v", what, got)
		}
		b.listener.records[tube.Schedules] = 0
	}
	wantDue := func(what string, want time.Duration) {
		b.Helper()
		if got := b.listener.due; got > want+10*time.Millisecond {
			b.Errorf("%s: asked for a tick in %v, want %v", what, got, want)
		}
		b.listener.due = storage.Forever
	}
	b.advance(0)
	wantReport("no schedule", false)
	b.listener.due = storage.Forever
	b.setSchedule(b.dueIn("s", 100*time.Second))
	wantDue("written", 100*time.Second)
	later := b.dueIn("later", 200*time.Second)
	b.setSchedule(later)
	later.Version, later.Due = 2, b.at(50*time.Second)
	b.setSchedule(later)
	wantDue("written again", 50*time.Second)
	b.advance(40 * time.Second)
	wantReport("too early", false)
	for range 3 {
		b.advance(11 * time.Second)
		wantReport("due", true)
	}
	b.wantClaim("due", 9, "later")
	b.advance(tube.ClaimTime)
	wantReport("its claim has ended", true)
	b.wantClaim("its claim has ended", 9, "later")
	b.deleteSchedule("later")
	b.advance(tube.ClaimTime)
	wantReport("deleted", false)
	b.advance(100 * time.Second)
	wantReport("the other one", true)
	b.wantClaim("the other one", 9, "s")
	done := b.dueIn("s", 0)
	done.Version, done.Due = 2, tube.Never
	b.setSchedule(done)
	b.listener.mu.Lock()
	b.listener.records[tube.Schedules] = 0
	b.listener.mu.Unlock()
	b.advance(10 * time.Second)
	wantReport("never again", false)
}

// testPutScheduled: the put is one of those with tags, and its result is counted in the record.
func testPutScheduled(b *harness) {
	s := fullSchedule("s")
	s.Pri = 7
	a := b.putScheduled(s, 5, tube.Tags{Group: "g", HasDelay: true, Delay: 1500 * time.Millisecond, Meta: someMeta(), Rules: tube.Rules{Max: 3}})
	if a.NotFound || a.Outcome != tube.PutNew || a.State != tube.Delayed {
		b.Fatalf("the first put: %+v", a)
	}
	first := b.job(a.ID)
	if first.Pri != 7 || first.TTR != 77 || first.Delay != 2 || first.Metadata == nil || first.Metadata.Group != "g" || first.Metadata.Max != 3 || len(first.Metadata.AllNotes().Meta) != 3 {
		b.Errorf("the first job: %s", showJob(&first))
	}
	if peeked := b.do(storage.Op{Kind: storage.Peek, ID: a.ID}); !bytes.Equal(peeked.Body, s.Body) {
		b.Errorf("its body is %q", peeked.Body)
	}
	b.wantOccurrence("the first", a.ID, "s", 5)
	want := *s
	want.Results.Count(1, 5*tube.Instant(time.Millisecond), tube.PutAnswer{ID: a.ID})
	b.wantSchedule("the first put", &want)
	if at := b.schedule("s").Results.At; at%tube.Instant(time.Millisecond) != 0 || b.engine.Now != nil && b.at(0).Until(at).Abs() > time.Minute {
		b.Errorf("the first put was at %d, and now it is %d", at, b.at(0))
	}
	b.must(tube.Delete, 1, a.ID)

	for _, version := range []uint64{0, 1, 3} {
		wrong := *s
		if wrong.Version = version; !b.putScheduled(&wrong, 6, tube.Tags{Key: "k"}).NotFound {
			b.Fatalf("version %d was put after version 1", version)
		}
	}
	if b.head("t", tube.Ready) != 0 || !b.peekKey("t", "k").NotFound {
		b.Error("a put without the right version has created a job")
	}
	b.wantSchedule("not put", &want)

	next := b.wantScheduledResults(&want)
	again := *next
	again.Version++
	again.Results = tube.ScheduleResults{} // they are not written
	b.setSchedule(&again)
	again.Results = next.Results
	b.wantSchedule("its results stay", &again)
	b.deleteSchedule("s")
	b.setSchedule(s)
	b.wantSchedule("its results are gone", s)
}

// wantScheduledResults puts by a schedule with every result. It returns the last version.
func (b *harness) wantScheduledResults(s *tube.Schedule) *tube.Schedule {
	b.Helper()
	held := tube.Tags{Key: "k", Rules: tube.Rules{KeyTTL: 50 * time.Second, HasKeyTTL: true}}
	s, first := b.putNewScheduled(s, held)
	fail, replace := tube.Tags{Key: "k", OnDuplicate: tube.Fail}, held
	replace.OnDuplicate = tube.Replace
	s = b.wantScheduled("keep", s, held, tube.PutExisting, first, tube.Ready)
	s = b.wantScheduled("fail", s, fail, tube.PutDuplicate, first, tube.Ready)
	s, second := b.putNewScheduled(s, replace)
	if b.job(first).State != tube.Gone {
		b.Error("the job that was replaced still exists")
	}
	b.must(tube.Delete, 1, second)
	s, again := b.putNewScheduled(s, held) // a tombstone is no job
	b.must(tube.Delete, 1, again)
	s, third := b.putNewScheduled(s, fail)
	b.do(storage.Op{Kind: storage.SealBatch, Tube: "t", Args: &storage.Args{Name: "sealed"}})
	s = b.wantScheduled("a sealed batch", s, tube.Tags{Batch: "sealed"}, tube.PutSealed, 0, tube.Gone)
	b.setPolicy("t", &tube.Policy{QuotaJobs: 1, HasQuotaJobs: true})
	s = b.wantScheduled("a quota", s, tube.Tags{}, tube.PutRefused, 0, tube.Gone)
	s = b.wantScheduled("a quota, and a key", s, held, tube.PutExisting, third, tube.Ready)
	s, last := b.putNewScheduled(s, replace)
	b.setPolicy("t", &tube.Policy{OnDuplicate: tube.Fail})
	s = b.wantScheduled("a policy", s, held, tube.PutDuplicate, last, tube.Ready)
	if r := s.Results; r.Put != 6 || r.Overlapped != 4 || r.Refused != 2 {
		b.Errorf("the results are %+v", r)
	}
	if got := b.tube("t"); got.Ready != 1 {
		b.Errorf("in the end: %+v", got)
	}
	return s
}

// testFollow: a job that was started gives its key to the next one, and others keep it.
func testFollow(b *harness) {
	follow := tube.Tags{Key: "k", OnDuplicate: tube.Follow, Rules: tube.Rules{KeyTTL: time.Hour, HasKeyTTL: true}}
	started := map[string]func(id uint64){
		"reserved": func(id uint64) { b.must(tube.ReserveJob, 1, id) },
		"released": func(id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Release, 1, id) },
		"snoozed":  func(id uint64) { b.must(tube.ReserveJob, 1, id); b.move(tube.Snooze, 1, id, 0, 100) },
		"buried":   func(id uint64) { b.must(tube.ReserveJob, 1, id); b.must(tube.Bury, 1, id) },
		"leased":   func(uint64) { b.lease("t") },
		"moved": func(id uint64) {
			b.must(tube.ReserveJob, 1, id)
			b.must(tube.Release, 1, id)
			b.moveJobs("t", tube.Ready, "u", 1)
			b.flush("t", tube.Gone)
			b.deleteKey("t", "k")
			b.moveJobs("u", tube.Ready, "t", 1)
		},
	}
	s := b.dueIn("s", time.Hour)
	b.setSchedule(s)
	for what, start := range started {
		var id, second uint64
		if s, id = b.putNewScheduled(s, follow); what != "moved" {
			s = b.wantScheduled(what+" not yet", s, follow, tube.PutExisting, id, tube.Ready)
		}
		if start(id); what == "moved" {
			id = b.peekKey("t", "k").ID
		}
		before := b.job(id)
		if s, second = b.putNewScheduled(s, follow); b.peekKey("t", "k").ID != second {
			b.Fatalf("%s: job %d has the key, want %d", what, b.peekKey("t", "k").ID, second)
		}
		after := b.job(id)
		if before.Metadata.Key != "k" || after.Metadata == nil || after.Metadata.Key != "" || after.State != before.State || after.Counters != before.Counters || !reflect.DeepEqual(after.Metadata.Rules, follow.Rules) {
			b.Fatalf("%s: it was %s\nand is %s", what, showJob(&before), showJob(&after))
		}
		s = b.wantScheduled(what+", and one waits", s, follow, tube.PutExisting, second, tube.Ready)
		b.deleteJob(id)
		if b.peekKey("t", "k").ID != second {
			b.Errorf("%s: its end has changed the key", what)
		}
		b.must(tube.Delete, 1, second)
		s, id = b.putNewScheduled(s, follow) // a tombstone is no job
		b.must(tube.Delete, 1, id)
		b.advance(2 * time.Hour)
	}
	s, id := b.putNewScheduled(s, follow)
	b.must(tube.ReserveJob, 1, id)
	b.setPolicy("t", &tube.Policy{QuotaJobs: 1, HasQuotaJobs: true})
	b.wantScheduled("a quota", s, follow, tube.PutRefused, 0, tube.Gone)
	if b.peekKey("t", "k").ID != id {
		b.Error("a put that is refused has taken a key")
	}
}

// deleteJob removes a job, whoever holds it.
func (b *harness) deleteJob(id uint64) {
	b.Helper()
	s := b.job(id)
	if s.Leased {
		b.advance(time.Duration(s.TTR+1) * time.Second)
	}
	b.must(tube.Delete, 1, id)
}

// testOccurrence: a job keeps which schedule has put it, whatever happens to it.
func testOccurrence(b *harness) {
	s := b.dueIn("s", time.Hour)
	a := b.putScheduled(s, 1_790_000_000_123, tube.Tags{Key: "k", Rules: tube.Rules{Max: 1, Dead: "morgue"}})
	b.wantOccurrence("put", a.ID, "s", 1_790_000_000_123)
	list, _ := b.list("t", tube.Ready, 9, "")
	if len(list) != 1 || list[0].Metadata == nil || list[0].Metadata.Occurrence == nil {
		b.Errorf("listed: %+v", list)
	}
	b.moveJobs("t", tube.Ready, "u", 1)
	moved := b.peekKey("u", "k").ID
	b.wantOccurrence("moved", moved, "s", 1_790_000_000_123)
	b.fail(tube.Release, moved, "no such user")
	b.awaitSent(moved)
	dead := b.peekKey("morgue", "k").ID
	b.wantOccurrence("a dead letter", dead, "s", 1_790_000_000_123)
	b.replay(dead)
	back := b.peekKey("u", "k").ID
	b.wantOccurrence("replayed", back, "s", 1_790_000_000_123)
	b.must(tube.ReserveJob, 1, back)
	b.move(tube.Snooze, 1, back, 0, 1)
	b.advance(2 * time.Second)
	b.wantOccurrence("snoozed", back, "s", 1_790_000_000_123)
	b.must(tube.Delete, 1, back)

	only := tube.Tags{Occurrence: &tube.Occurrence{Schedule: "(elsewhere)", Nominal: tube.Instant(time.Millisecond)}}
	id := b.putNew("t", only)
	b.wantOccurrence("a copy", id, "(elsewhere)", 1)
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Bury, 1, id)
	b.must(tube.KickJob, 1, id)
	b.wantOccurrence("kicked", id, "(elsewhere)", 1)
	for _, tags := range []tube.Tags{{Group: "g", Occurrence: only.Occurrence}, {Batch: "x", Occurrence: only.Occurrence}} {
		b.wantOccurrence("a copy in a group or a batch", b.putNew("t", tags), "(elsewhere)", 1)
	}
	b.wantOccurrence("of no schedule", b.putNew("t", tube.Tags{Key: "k"}), "", 0)
}

// testScheduledOnce: of many who put for the same version at the same time, one does.
func testScheduledOnce(b *harness) {
	b.reopens = false
	const rounds, callers = 25, 8
	b.usePlain()
	s := b.dueIn("s", -time.Minute)
	for range rounds {
		var won atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if !b.try(scheduledPut(s, int(s.Version), tube.Tags{})).NotFound {
					won.Add(1)
				}
			})
		}
		if all.Wait(); won.Load() != 1 {
			b.Fatalf("version %d was put %d times", s.Version, won.Load())
		}
		next := *s
		next.Version++
		s = &next
	}
	if got := b.tube("t"); got == nil || got.Ready != rounds {
		b.Errorf("%d versions have put %+v", rounds, got)
	}
	if r := b.schedule("s").Results; r.Put != rounds || r.Overlapped+r.Refused != 0 {
		b.Errorf("the results are %+v", r)
	}
}

// testSchedulesBatch: operations of a batch see what those before it have done, and equal bodies
// can be the same memory.
func testSchedulesBatch(b *harness) {
	s := b.dueIn("s", -time.Minute)
	second, third := *s, *s
	second.Version, third.Version, third.Due = 2, 3, tube.Never
	get := storage.Op{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: "s"}}
	due := storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: 9}
	set := storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Schedule: s}}
	ops := b.batch(
		get, set, set, due, scheduledPut(&second, 2, tube.Tags{}), scheduledPut(&second, 2, tube.Tags{}), due, scheduledPut(&third, 3, tube.Tags{}), due, get,
		storage.Op{Kind: storage.DeleteSchedule, Args: &storage.Args{Name: "s"}}, get, set,
	)
	for i, notFound := range []bool{true, false, true, false, false, true, false, false, false, false, false, true, false} {
		if ops[i].Answer.NotFound != notFound {
			b.Errorf("operation %d: not found is %v", i, !notFound)
		}
	}
	for i, n := range map[int]int{3: 1, 6: 1, 8: 0} {
		if got := len(ops[i].Answer.Result.Schedules()); got != n {
			b.Errorf("operation %d: %d are due, want %d", i, got, n)
		}
	}
	for _, i := range []int{4, 7} {
		if a := b.do(storage.Op{Kind: storage.Peek, ID: ops[i].Answer.ID}); string(a.Body) != "body of s" {
			b.Errorf("job %d has the body %q", a.ID, a.Body)
		}
	}
}

// testSchedulesSurvive closes and reopens a store with schedules.
func testSchedulesSurvive(b *harness) { testSchedulesReopened(b, func() { b.close() }) }

// testSchedulesCrash does the same with a store whose process was killed.
func testSchedulesCrash(b *harness) {
	testSchedulesReopened(b, func() {
		b.engine.Crash(b.store)
		b.store = nil
	})
}

// testSchedulesReopened checks what survives when a store ends by calling end.
func testSchedulesReopened(b *harness, end func()) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	full, large := fullSchedule("full"), b.dueIn("large", 2*time.Minute)
	large.Body = bytes.Repeat([]byte("\x00ä"), 30_000)
	b.setSchedule(full)
	b.setSchedule(large)
	b.setSchedule(b.dueIn("gone", time.Minute))
	b.deleteSchedule("gone")
	b.setPolicy("other", &tube.Policy{HasQuotaJobs: true})
	put := b.dueIn("put", time.Minute)
	b.setSchedule(put)
	put, id := b.putNewScheduled(put, tube.Tags{Key: "k", OnDuplicate: tube.Follow})
	b.must(tube.ReserveJob, 1, id)
	put, follower := b.putNewScheduled(put, tube.Tags{Key: "k", OnDuplicate: tube.Follow})
	refused := *put
	refused.Name, refused.Tube, refused.Results = "refused", "other", tube.ScheduleResults{}
	b.setSchedule(&tube.Schedule{Name: "refused", Version: 1, Tube: "other"})
	b.setSchedule(&tube.Schedule{Name: "refused", Version: 2, Tube: "other"})
	refused.Version = 2
	after := b.wantScheduled("a quota", &refused, tube.Tags{}, tube.PutRefused, 0, tube.Gone)
	end()
	b.open()
	b.advance(10 * time.Second)
	for _, s := range []*tube.Schedule{full, large, put, after} {
		b.wantSchedule("opened again", s)
	}
	if b.schedule("gone") != nil || b.trySchedule(full) {
		b.Error("a record that was deleted, or a version that was replaced, is back")
	}
	b.wantOccurrence("opened again", id, "put", 7)
	b.wantOccurrence("opened again", follower, "put", 7)
	if b.peekKey("t", "k").ID != follower || b.job(id).Metadata.Key != "" {
		b.Errorf("job %d has the key, want %d", b.peekKey("t", "k").ID, follower)
	}
	b.advance(2 * time.Minute)
	b.wantClaim("opened again", 9, "put", "refused", "large")
	b.putNewScheduled(put, tube.Tags{})
}
