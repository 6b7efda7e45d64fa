package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

const aTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// someMeta has names and values of many lengths.
func someMeta() []tube.Meta {
	return []tube.Meta{{Name: "Content-Type", Value: "text/plain"}, {Name: "b", Value: ""}, {Name: "a_1", Value: "\"ä\\\n\t" + strings.Repeat("x", 800)}}
}

// wantNotes checks the notes of a job, but for its attempts and its first put. With a reason it was said within the last minute.
func (b *harness) wantNotes(what string, id uint64, want tube.Notes) {
	b.Helper()
	s := b.job(id)
	got := *s.Metadata.AllNotes()
	if b.engine.Now != nil && got.Reason != "" {
		now := tube.Instant(b.engine.Now().UnixNano())
		if got.FailedAt > now || got.FailedAt < now-tube.Instant(time.Minute) || got.FailedAt%tube.Instant(time.Millisecond) != 0 {
			b.Errorf("%s: said at %d, and now it is %d", what, got.FailedAt, now)
		}
	}
	if (got.FailedAt != 0) != (got.Reason != "") {
		b.Errorf("%s: %q was said at %d", what, got.Reason, got.FailedAt)
	}
	got.FailedAt, got.Attempts, got.FirstPut = 0, nil, 0
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("%s: the notes of job %d are %+v\nwant %+v", what, id, got, want)
	}
}

// fail reserves a job and ends that with a move and a reason.
func (b *harness) fail(m tube.Move, id uint64, reason string) {
	b.Helper()
	b.must(tube.ReserveJob, 1, id)
	op := storage.Op{Kind: storage.Move, Move: m, Holder: 1, ID: id, Args: &storage.Args{Reason: reason}}
	if b.do(op).NotFound {
		b.Fatalf("%v of job %d with a reason was not possible", m, id)
	}
}

// testMeta: a job keeps what it was put with, whatever happens to it.
func testMeta(b *harness) {
	tags := tube.Tags{Key: "k", Meta: someMeta(), Trace: aTrace, Rules: tube.Rules{Max: 2}}
	want := tube.Notes{Meta: tags.Meta, Trace: tags.Trace}
	id := b.putNew("t", tags)
	b.wantNotes("put", id, want)
	if a := b.do(storage.Op{Kind: storage.Peek, ID: id}); string(a.Body) != "body" {
		b.Errorf("the body is %q", a.Body)
	}
	only := b.putNew("t", tube.Tags{Trace: aTrace})
	b.wantNotes("only a trace", only, tube.Notes{Trace: aTrace})
	list := b.do(storage.Op{Kind: storage.ListJobs, Tube: "t", State: tube.Ready, MaxJobs: 9, Args: &storage.Args{}}).Result.Jobs
	if len(list) != 2 || !reflect.DeepEqual(*list[0].Metadata.AllNotes(), want) {
		b.Errorf("listed: %+v", list)
	}
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Release, 1, id)
	b.wantNotes("released", id, want)
	want.Reason = "no such user"
	b.fail(tube.Release, id, want.Reason)
	b.wantNotes("exhausted", id, want)
	b.wantRetries("exhausted", id, tube.Buried, tube.ParkedDeliveries, 2, 2)
	b.must(tube.KickJob, 1, id)
	b.wantNotes("kicked", id, want)
	if s := b.job(id); s.Metadata.Key != "k" || s.Rules.Max != 2 {
		b.Errorf("in the end: %s", showJob(&s))
	}
}

// testReason: the last reason stays with a job, whatever its length.
func testReason(b *harness) {
	longest := strings.Repeat("é", tube.MaxReason/2)
	for what, id := range map[string]uint64{
		"plain": b.putWith("t", 5, 0, 60, "body"), "empty": b.putWith("t", 5, 0, 60, ""),
		"large": b.putWith("t", 5, 0, 60, strings.Repeat("body", 20_000)), "tagged": b.putNew("t", tube.Tags{Key: "k", Meta: someMeta()}),
	} {
		size := len(b.do(storage.Op{Kind: storage.Peek, ID: id}).Body)
		notes := *b.job(id).Metadata.AllNotes()
		for _, reason := range []string{"a", "0123456789abcd", "0123456789abcde", longest, "", "short", longest} {
			move := tube.Release
			if len(reason)%2 == 0 {
				move = tube.Bury
			}
			if b.fail(move, id, reason); reason != "" {
				notes.Reason = reason
			}
			b.wantNotes(what, id, notes)
		}
		if n := len(b.do(storage.Op{Kind: storage.Peek, ID: id}).Body); n != size {
			b.Errorf("%s: the body has %d bytes, and had %d", what, n, size)
		}
		b.must(tube.Delete, 1, id)
	}
	if s := b.tube("t"); s != nil {
		b.Errorf("the tube is left: %+v", s)
	}
}

// testReasonLeased: the owner of a lease says why it fails.
func testReasonLeased(b *harness) {
	id := b.put("t", 5)
	for _, move := range []tube.Move{tube.Bury, tube.Release, tube.Park} {
		if b.job(id).State == tube.Buried {
			b.must(tube.KickJob, 1, id)
		}
		_, token := b.lease("t")
		op := storage.Op{Kind: storage.Move, Move: move, Holder: tube.LeaseHolder, ID: id, Args: &storage.Args{Lease: token + 1, Reason: "not mine"}}
		if !b.do(op).NotFound {
			b.Fatal("a wrong token is accepted")
		}
		op.Args = &storage.Args{Lease: token, Reason: "by " + move.String()}
		if b.do(op).NotFound {
			b.Fatalf("%v was not possible", move)
		}
		b.wantNotes("leased", id, tube.Notes{Reason: "by " + move.String()})
	}
	b.wantRetries("parked", id, tube.Buried, tube.ParkedRefused, 1, 3)
}

// testReasonTTR: it is recorded that a TTR has run out, but not for plain jobs.
func testReasonTTR(b *harness) {
	plain, tagged, held, emptied := b.put("t", 5), b.putNew("t", tube.Tags{Key: "k"}), b.put("u", 5), b.putNew("t", tube.Tags{})
	b.setPolicy("u", &tube.Policy{HasQuotaJobs: true, QuotaJobs: 9})
	for _, id := range []uint64{plain, tagged, held, emptied} {
		b.must(tube.ReserveJob, 1, id)
	}
	b.advance(60_010 * time.Millisecond)
	ttr := tube.Notes{Reason: tube.ReasonTTR}
	b.wantNotes("plain", plain, tube.Notes{})
	b.wantNotes("with a key", tagged, ttr)
	b.wantNotes("in a tube with a policy", held, ttr)
	b.wantNotes("put with tags that say nothing", emptied, tube.Notes{})
	if s := b.job(plain); s.Metadata != nil {
		b.Errorf("a plain job has %+v", s.Metadata)
	}
	b.fail(tube.Release, tagged, "something else")
	b.wantNotes("failed by a worker", tagged, tube.Notes{Reason: "something else"})
}

// testNotesMove: dead letters and moved jobs keep the notes.
func testNotesMove(b *harness) {
	for _, body := range []string{"body", strings.Repeat("large", 2000)} {
		tags := &tube.Tags{Meta: someMeta(), Trace: aTrace, Rules: tube.Rules{Max: 1, Dead: "morgue"}}
		want := tube.Notes{Meta: tags.Meta, Trace: tags.Trace, Reason: "it died"}
		id := b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: []byte(body), Args: &storage.Args{Tags: tags}}).ID
		b.fail(tube.Release, id, want.Reason)
		b.awaitSent(id)
		dead := b.head("morgue", tube.Ready)
		b.wantNotes("a dead letter", dead, want)
		if s := b.job(dead); s.Metadata.FromID != id || s.Metadata.FromTube != "t" {
			b.Errorf("a dead letter: %s", showJob(&s))
		}
		b.do(storage.Op{Kind: storage.MoveJobs, Tube: "morgue", State: tube.Ready, MaxJobs: 1, Args: &storage.Args{To: "other"}})
		moved := b.head("other", tube.Ready)
		b.wantNotes("a moved job", moved, want)
		want.Reason = strings.Repeat("again", 100)
		b.fail(tube.Bury, moved, want.Reason)
		b.wantNotes("after a move", moved, want)
		if a := b.do(storage.Op{Kind: storage.Peek, ID: moved}); string(a.Body) != body {
			b.Errorf("the body has %d bytes now", len(a.Body))
		}
		b.must(tube.Delete, 1, moved)
	}
}

// attempts returns the attempts of a job, whose times must be within the last minutes and in order, without the times.
func (b *harness) attempts(id uint64) []tube.Attempt {
	b.Helper()
	s := b.job(id)
	all, after := slices.Clone(s.Metadata.AllNotes().Attempts), tube.Latest
	for i := range all {
		at := all[i].At
		if at > after || at%tube.Instant(time.Millisecond) != 0 || b.engine.Now != nil && at < tube.Instant(b.engine.Now().Add(-time.Hour).UnixNano()) {
			b.Errorf("attempt %d at %d", i, at)
		}
		after, all[i].At = at, 0
	}
	return all
}

func (b *harness) wantAttempts(what string, id uint64, want ...tube.Attempt) {
	b.Helper()
	if got := b.attempts(id); !slices.Equal(got, want) {
		b.Fatalf("%s: the attempts of job %d are %+v\nwant %+v", what, id, got, want)
	}
}

// failBy is fail by a holder with a name.
func (b *harness) failBy(m tube.Move, id uint64, holder, reason string) {
	b.Helper()
	b.must(tube.ReserveJob, 1, id)
	if b.do(storage.Op{Kind: storage.Move, Move: m, Holder: 1, ID: id, Args: &storage.Args{Reason: reason, By: holder}}).NotFound {
		b.Fatalf("%v of job %d by %q was not possible", m, id, holder)
	}
}

// testAttempts: a job keeps its last attempts, whatever its size.
func testAttempts(b *harness) {
	for what, id := range map[string]uint64{
		"small": b.putNew("t", tube.Tags{Key: "small"}), "with meta": b.putNew("t", tube.Tags{Meta: someMeta()}),
		"large": b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: bytes.Repeat([]byte("x"), 80_000), Args: &storage.Args{Tags: &tube.Tags{Key: "large"}}}).ID,
	} {
		size := len(b.do(storage.Op{Kind: storage.Peek, ID: id}).Body)
		b.wantAttempts(what, id)
		want := b.failOften(what, id)
		if n := len(b.do(storage.Op{Kind: storage.Peek, ID: id}).Body); n != size {
			b.Errorf("%s: the body has %d bytes, and had %d", what, n, size)
		}
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Snooze, 1, id)
		b.must(tube.ReserveJob, 1, id)
		b.do(storage.Op{Kind: storage.ReleaseAll, Holder: 1})
		b.wantAttempts(what+" given back", id, want...)
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Delete, 1, id)
	}
}

// failOften lets a job fail in several ways, more often than it remembers. It returns the attempts that it has then.
func (b *harness) failOften(what string, id uint64) (want []tube.Attempt) {
	b.Helper()
	long, name := strings.Repeat("é", tube.MaxReason/2-1), strings.Repeat("w", tube.MaxHolder)
	moves := map[tube.Failed]tube.Move{tube.FailedByRelease: tube.Release, tube.FailedByBury: tube.Bury}
	for n, a := range []tube.Attempt{
		{How: tube.FailedByRelease}, {How: tube.FailedByBury, Holder: name, Reason: "x" + long}, {How: tube.FailedByRelease, Holder: "w", Reason: "short"},
		{How: tube.FailedByTTR, Reason: tube.ReasonTTR}, {How: tube.FailedByRelease, Holder: name, Reason: long}, {How: tube.FailedByRelease, Holder: "w"},
		{How: tube.FailedByRelease, Holder: name, Reason: long}, {How: tube.FailedByRelease, Holder: name, Reason: long},
	} {
		if a.How == tube.FailedByTTR {
			b.must(tube.ReserveJob, 1, id)
			b.advance(60_010 * time.Millisecond)
		} else {
			b.failBy(moves[a.How], id, a.Holder, a.Reason)
		}
		a.Reason = strings.TrimSuffix(a.Reason[:min(len(a.Reason), tube.MaxAttemptReason)], "\xc3")
		want = append([]tube.Attempt{a}, want...)
		want = want[:min(len(want), tube.MaxAttempts)]
		b.wantAttempts(fmt.Sprint(what, " ", n), id, want...)
	}
	b.wantNotes(what, id, tube.Notes{Meta: b.job(id).Metadata.AllNotes().Meta, Reason: long})
	return want
}

// testAttemptsOfPlain: a job without metadata, in a tube without a policy, has attempts only if a reason is given.
func testAttemptsOfPlain(b *harness) {
	plain, ruled := b.put("t", 5), b.put("u", 5)
	b.setPolicy("u", &tube.Policy{HasQuotaJobs: true, QuotaJobs: 9})
	for _, id := range []uint64{plain, ruled} {
		b.failBy(tube.Release, id, "w", "")
		b.failBy(tube.Bury, id, "w", "")
	}
	if s := b.job(plain); s.Metadata != nil {
		b.Errorf("a plain job has %+v", s.Metadata)
	}
	b.wantAttempts("in a tube with a policy", ruled, tube.Attempt{How: tube.FailedByRelease, Holder: "w"}) // a bury without a reason is none
	b.failBy(tube.Bury, plain, "w", "why")
	b.wantAttempts("plain", plain, tube.Attempt{How: tube.FailedByBury, Holder: "w", Reason: "why"})
	b.must(tube.KickJob, 1, plain)
	_, token := b.lease("t")
	b.do(storage.Op{Kind: storage.Move, Move: tube.Park, Holder: tube.LeaseHolder, ID: plain, Args: &storage.Args{Lease: token, By: "l"}})
	b.wantAttempts("leased", plain, tube.Attempt{How: tube.FailedByRefusal, Holder: "l"}, tube.Attempt{How: tube.FailedByBury, Holder: "w", Reason: "why"})
}

// testFirstPut: dead letters, and what becomes of them, know when the first of these jobs was put, and keep its attempts.
func testFirstPut(b *harness) {
	for _, body := range []string{"body", strings.Repeat("large", 2000)} {
		tags := &tube.Tags{Rules: tube.Rules{Max: 1, Dead: "morgue"}}
		id := b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: []byte(body), Args: &storage.Args{Tags: tags}}).ID
		put := b.job(id).Created
		if s := b.job(id); s.Metadata.AllNotes().FirstPut != 0 {
			b.Errorf("a new job: %s", showJob(&s))
		}
		b.advance(1100 * time.Millisecond)
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Release, 1, id)
		want := []tube.Attempt{{How: tube.FailedByRelease}}
		b.awaitSent(id)
		for what := range 3 {
			dead := b.head("morgue", tube.Ready)
			if got := b.job(dead).Metadata.AllNotes().FirstPut; got.Until(put).Abs() >= time.Millisecond {
				b.Errorf("%d: first put %v, and was put %v", what, got, put)
			}
			b.wantAttempts("dead", dead, want...)
			b.do(storage.Op{Kind: storage.Replay, ID: dead})
			b.awaitSent(dead)
			back := b.head("t", tube.Ready)
			b.wantAttempts("back", back, want...)
			b.failBy(tube.Release, back, "again", "")
			want = append([]tube.Attempt{{How: tube.FailedByRelease, Holder: "again"}}, want...)
			b.awaitSent(back)
		}
		b.must(tube.Delete, 1, b.head("morgue", tube.Ready))
	}
}

// testSnooze: a release that is no failure counts for no rule.
func testSnooze(b *harness) {
	for what, id := range map[string]uint64{
		"plain": b.put("t", 5), "with rules": b.putNew("t", tube.Tags{Rules: tube.Rules{Max: 1, Retry: []time.Duration{time.Hour}}}),
	} {
		for n := range uint32(3) {
			b.must(tube.ReserveJob, 1, id)
			if !b.move(tube.Snooze, 1, id, 7, 5*(n%2)) {
				b.Fatalf("%s: not possible", what)
			}
			state := []tube.State{tube.Ready, tube.Delayed}[n%2]
			b.wantRetries(what, id, state, tube.NotParked, 0, 0)
			if s := b.job(id); s.Pri != 7 || s.Delay != 5*(n%2) || s.Counters[tube.Releases] != n+1 || s.Counters[tube.Reserves] != n+1 {
				b.Errorf("%s: %s", what, showJob(&s))
			}
		}
		b.fail(tube.Release, id, "now it fails")
		if s := b.job(id); s.Metadata.Failures(&s.Counters) != 1 || s.Metadata.Deliveries(&s.Counters) != 1 {
			b.Errorf("%s: %s", what, showJob(&s))
		}
		b.must(tube.Delete, 1, id)
	}
}

// testNotesSurvive closes and reopens a store with notes, and lets it crash.
func testNotesSurvive(b *harness) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	id := b.putNew("t", tube.Tags{Meta: someMeta(), Trace: aTrace})
	want := tube.Notes{Meta: someMeta(), Trace: aTrace, Reason: "before the end"}
	b.fail(tube.Bury, id, want.Reason)
	b.must(tube.ReserveJob, 1, b.put("t", 1))
	b.close()
	b.open()
	b.wantNotes("reopened", id, want)
	want.Reason = strings.Repeat("crash ", 50)
	b.fail(tube.Bury, id, want.Reason)
	b.engine.Crash(b.store)
	b.open()
	b.wantNotes("crashed", id, want)
	b.wantAttempts("crashed", id, tube.Attempt{How: tube.FailedByBury, Reason: strings.Repeat("crash ", 50)[:tube.MaxAttemptReason]},
		tube.Attempt{How: tube.FailedByBury, Reason: "before the end"})
}
