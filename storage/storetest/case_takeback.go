package storetest

import (
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// takeBack takes a job back from whoever holds it, and reports whether somebody did.
func (b *harness) takeBack(id uint64, by, reason string) bool {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.Move, Move: tube.Expire, ID: id, Args: &storage.Args{By: by, Reason: reason}})
	if a.Err != nil {
		b.Fatalf("taking back job %d: %v", id, a.Err)
	}
	return !a.NotFound
}

// wantFenced checks that a holder can do nothing with a job any more.
func (b *harness) wantFenced(what string, h tube.Holder, id, lease uint64) {
	b.Helper()
	for _, move := range []tube.Move{tube.Touch, tube.SaveCheckpoint, tube.Release, tube.Snooze, tube.Bury, tube.Finish, tube.Delete} {
		a := b.do(storage.Op{Kind: storage.Move, Move: move, Holder: h, ID: id, Args: &storage.Args{Lease: lease, Data: []byte("late")}})
		if a.Err != nil || !a.NotFound {
			b.Fatalf("%s: a late %v of job %d was answered with %+v", what, move, id, a)
		}
	}
}

// testTakenBack: a job that is taken back is ready at once, and its holder has lost it.
func testTakenBack(b *harness) {
	for what, id := range b.ofManySizes("t") {
		if b.takeBack(id, "", "") {
			b.Fatalf("%s: a job was taken back that nobody holds", what)
		}
		b.must(tube.ReserveJob, 1, id)
		before := b.totals().Timeouts
		if !b.takeBack(id, "a worker", "taken back by ada") {
			b.Fatalf("%s: the job was not taken back", what)
		}
		s := b.job(id)
		if s.State != tube.Ready || s.Counters[tube.Timeouts] != 1 || s.Counters[tube.Reserves] != 1 || b.totals().Timeouts != before+1 {
			b.Fatalf("%s: taken back: %s", what, showJob(&s))
		}
		last := s.Metadata.AllNotes().Attempts
		if len(last) != 1 || last[0].How != tube.FailedByTTR || last[0].Holder != "a worker" || last[0].Reason != "taken back by ada" {
			b.Fatalf("%s: its attempts are %+v", what, last)
		}
		if b.takeBack(id, "", "") {
			b.Fatalf("%s: it was taken back twice", what)
		}
		b.wantFenced(what, 1, id, 0)
		b.must(tube.ReserveJob, 2, id)
		b.wantFenced(what, 1, id, 0)
		b.must(tube.Release, 2, id)
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Release, 1, id)
		b.must(tube.Delete, 1, id)
		id = b.put("t", 5)
		b.must(tube.ReserveJob, 2, id)
		b.must(tube.Delete, 2, id)
	}
	if b.takeBack(12345, "", "") {
		b.Fatal("a job was taken back that does not exist")
	}
}

// testLeaseTakenBack: a lease is fenced, also when the job is leased again.
func testLeaseTakenBack(b *harness) {
	id := b.put("t", 5)
	_, token := b.lease("t")
	if !b.takeBack(id, "", "by hand") {
		b.Fatal("a leased job was not taken back")
	}
	if s := b.job(id); s.State != tube.Ready || s.Leased {
		b.Fatalf("taken back: %s", showJob(&s))
	}
	b.wantFenced("ready", tube.LeaseHolder, id, token)
	_, next := b.lease("t")
	b.wantFenced("leased again", tube.LeaseHolder, id, token)
	if b.do(storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: tube.LeaseHolder, ID: id, Args: &storage.Args{Lease: next}}).NotFound {
		b.Fatal("the present lease cannot delete the job")
	}
}

// testTakenBackRules: taking back is a failure to the rules, as the end of the TTR is.
func testTakenBackRules(b *harness) {
	id := b.putNew("t", tube.Tags{Rules: tube.Rules{Retry: []time.Duration{10 * time.Second}, Dead: "dead"}})
	b.must(tube.ReserveJob, 1, id)
	b.takeBack(id, "", "")
	if s := b.job(id); s.State != tube.Delayed || s.Metadata.AllNotes().Reason != tube.ReasonTTR {
		b.Fatalf("after the first: %s", showJob(&s))
	}
	b.must(tube.ReserveJob, 1, id)
	b.takeBack(id, "", "too often")
	b.awaitSent(id)
	dead := b.head("dead", tube.Ready)
	s := b.job(dead)
	if s.Metadata == nil || s.Metadata.FromID != id || s.Metadata.AllNotes().Reason != "too often" {
		b.Fatalf("after the second: %s", showJob(&s))
	}
}

// testTakenBackSurvives: that a job was taken back survives a restart.
func testTakenBackSurvives(b *harness) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	id := b.put("t", 5)
	b.must(tube.ReserveJob, 1, id)
	b.takeBack(id, "", "by hand")
	b.close()
	b.open()
	if s := b.job(id); s.State != tube.Ready || s.Counters[tube.Timeouts] != 1 || s.Metadata.AllNotes().Reason != "by hand" {
		b.Errorf("after a restart: %s", showJob(&s))
	}
}

// testTakenBackOfMany: of many jobs that a holder got at once, it loses only the one, whether it deletes the others before or after.
func testTakenBackOfMany(b *harness) {
	const many = 20
	puts, takes := make([]storage.Op, many), make([]storage.Op, many)
	for i := range puts {
		puts[i] = storage.Op{Kind: storage.Put, Tube: "t", Pri: 5, TTR: 60, Body: fmt.Append(nil, "body ", i)}
		takes[i] = storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	}
	b.batch(puts...)
	taken := b.batch(takes...)
	b.must(tube.Delete, 1, taken[0].Answer.ID)
	lost := taken[many/2].Answer.ID
	if !b.takeBack(lost, "", "") {
		b.Fatal("the job was not taken back")
	}
	deletes := make([]storage.Op, many)
	for i := range deletes {
		deletes[i] = storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: taken[i].Answer.ID}
	}
	b.must(tube.ReserveJob, 2, lost)
	for i, op := range b.batch(deletes...) {
		if want := i == 0 || op.ID == lost; op.Answer.NotFound != want {
			b.Errorf("delete %d of job %d: not found: %v", i, op.ID, op.Answer.NotFound)
		}
	}
	b.must(tube.Delete, 2, lost)
	if s := b.totals(); s.Reserved+s.Ready > 0 {
		b.Errorf("jobs are left: %+v", s)
	}
}

// wantHung checks which jobs count as hung, and for how long they are held, about.
func (b *harness) wantHung(what string, held time.Duration, ids ...uint64) {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.ListHung, MaxJobs: 10, Args: new(storage.Args)})
	if a.Err != nil || a.NotFound || len(a.Result.Jobs) != len(ids) {
		b.Fatalf("%s: hung are %+v, want %v", what, a.Result, ids)
	}
	for i, s := range a.Result.Jobs {
		if s.ID != ids[i] || s.State != tube.Reserved || s.Tube != "t" || s.HeldFor < held-b.slack(held) || s.HeldFor > held+b.slack(held) {
			b.Fatalf("%s: job %d is held for %v, want %d for %v: %s", what, s.ID, s.HeldFor, ids[i], held, showJob(&s))
		}
	}
	if n := b.do(storage.Op{Kind: storage.Stats}).Stats.Hung; int(n) < len(ids) {
		b.Errorf("%s: %d are counted, not %d", what, n, len(ids))
	}
}

// slack is by how much a long time can differ on a slow machine.
func (b *harness) slack(d time.Duration) time.Duration { return d / 10 }

// touchFor touches a job again and again for ten TTRs of a minute, and some seconds.
func (b *harness) touchFor(h tube.Holder, id, lease uint64) {
	b.Helper()
	for range 16 {
		b.advance(40 * time.Second)
		if b.do(storage.Op{Kind: storage.Move, Move: tube.Touch, Holder: h, ID: id, Args: &storage.Args{Lease: lease}}).NotFound {
			b.Fatal("the job cannot be touched")
		}
	}
}

// testHung: a job that is touched for very long counts as hung, until somebody else may get it.
func testHung(b *harness) {
	other, id := b.put("t", 9), b.put("t", 5)
	b.must(tube.ReserveJob, 1, id)
	b.wantHung("at first", 0)
	b.must(tube.ReserveJob, 2, other)
	b.touchFor(1, id, 0)
	b.wantHung("after ten TTRs", 640*time.Second, id) // the TTR of the other job has ended
	b.must(tube.Touch, 1, id)
	b.wantHung("touched again", 640*time.Second, id)
	b.takeBack(id, "", "")
	b.wantHung("taken back", 0)
	b.must(tube.ReserveJob, 1, id)
	b.wantHung("reserved again", 0)
	b.touchFor(1, id, 0)
	b.wantHung("again", 640*time.Second, id)
	b.must(tube.Delete, 1, id)
	b.wantHung("deleted", 0)
	b.must(tube.ReserveJob, 1, other)
	b.touchFor(1, other, 0)
	b.advance(61 * time.Second)
	b.wantHung("after the TTR", 0)
}

// testHungPages: pages list each of the jobs that hang, whichever of them end.
func testHungPages(b *harness) {
	ended := b.put("t", 5)
	b.must(tube.ReserveJob, 1, ended)
	want := map[uint64]bool{ended: true}
	for range 5 {
		id := b.put("t", 5)
		b.must(tube.ReserveJob, 1, id)
		want[id] = true
	}
	for range 16 {
		b.advance(40 * time.Second)
		for id := range want {
			b.must(tube.Touch, 1, id)
		}
	}
	b.must(tube.Release, 1, ended)
	delete(want, ended)
	for skip := 0; skip < 6; {
		a := b.do(storage.Op{Kind: storage.ListHung, MaxJobs: 2, Args: &storage.Args{Skip: skip}})
		if a.Count > 0 {
			continue
		}
		for _, s := range a.Result.Jobs {
			if !want[s.ID] {
				b.Errorf("job %d is listed twice", s.ID)
			}
			delete(want, s.ID)
		}
		skip += 2
	}
	if len(want) > 0 {
		b.Errorf("%v are not listed", want)
	}
}

// testHungLease is testHung for a lease.
func testHungLease(b *harness) {
	id := b.put("t", 5)
	_, token := b.lease("t")
	b.touchFor(tube.LeaseHolder, id, token)
	b.wantHung("after ten TTRs", 640*time.Second, id)
	b.takeBack(id, "", "")
	b.lease("t")
	b.wantHung("leased again", 0)
}

// testHungReports: a worker that says how far it is does not hang.
func testHungReports(b *harness) {
	id := b.put("t", 5)
	b.must(tube.ReserveJob, 1, id)
	b.progress(1, id, 0, "1/9")
	b.touchFor(1, id, 0)
	b.wantHung("with a progress", 0)
}

// testTakenBackInBatch: its holder has lost a job also if what it does next is carried out together with the taking back.
func testTakenBackInBatch(b *harness) {
	for _, late := range []tube.Move{tube.Delete, tube.Release, tube.Bury, tube.Touch} {
		id := b.put("t", 5)
		b.must(tube.ReserveJob, 1, id)
		ops := b.batch(storage.Op{Kind: storage.Move, Move: tube.Expire, ID: id}, storage.Op{Kind: storage.Move, Move: late, Holder: 1, ID: id})
		if ops[0].Answer.NotFound || !ops[1].Answer.NotFound {
			b.Errorf("not found: taking back %v, and a late %v %v", ops[0].Answer.NotFound, late, ops[1].Answer.NotFound)
		}
		if s := b.job(id); s.State != tube.Ready {
			b.Errorf("after a late %v: %s", late, showJob(&s))
		}
		b.must(tube.Delete, 2, id)
	}
}
