package storetest

import (
	"bytes"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// cases are the tests of single rules.
var cases = map[string]func(*bench){
	"ids":                 testIDs,
	"bodies":              testBodies,
	"ready order":         testReadyOrder,
	"several tubes":       testSeveralTubes,
	"delayed order":       testDelayedOrder,
	"buried order":        testBuriedOrder,
	"life of a job":       testMatrix,
	"release":             testRelease,
	"kick":                testKick,
	"long kick":           testLongKick,
	"pause":               testPause,
	"TTR":                 testTTR,
	"touch":               testTouch,
	"deadline soon":       testSoon,
	"leave":               testLeave,
	"leave with much":     testLeaveWithMuch,
	"urgent":              testUrgent,
	"tube lifetime":       testTubeLifetime,
	"tube order":          testTubeOrder,
	"tube counters":       testTubeCounters,
	"totals":              testTotals,
	"hints":               testHints,
	"due":                 testDue,
	"batch order":         testBatchOrder,
	"kicked and released": testKickedAndReleased,
	"large batch":         testLargeBatch,
	"many connections":    testManyConnections,
	"after close":         testAfterClose,
	"unknown ids":         testUnknownIDs,
	"what survives":       testSurvival,
	"what a crash keeps":  testCrash,
}

// countsOn are the cases that look at counters which a restart may begin anew.
var countsOn = map[string]bool{"pause": true, "TTR": true, "tube counters": true, "totals": true}

func testIDs(b *bench) {
	for want := uint64(1); want <= 3; want++ {
		if id := b.put("t", 0); id != want {
			b.Fatalf("put job %d, want %d", id, want)
		}
	}
	b.must(tube.Delete, 1, 3)
	if id := b.put("t", 0); id != 4 {
		b.Fatalf("id %d was given out after 3 was deleted, want 4", id)
	}
}

func testBodies(b *bench) {
	for _, body := range [][]byte{nil, {}, []byte("x"), []byte("a\r\nb\x00c\xff"), bytes.Repeat([]byte("\x00\r\n"), 100_000)} {
		id := b.do(storage.Op{Kind: storage.Put, Tube: "t", TTR: 9, Body: bytes.Clone(body)}).ID
		if a := b.do(storage.Op{Kind: storage.Peek, ID: id}); !bytes.Equal(a.Body, body) || a.ID != id {
			b.Errorf("peek returned job %d with %d bytes, want job %d with %d", a.ID, len(a.Body), id, len(body))
		}
		if a := b.do(storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}); !bytes.Equal(a.Body, body) || a.ID != id {
			b.Errorf("take returned job %d with %d bytes, want job %d with %d", a.ID, len(a.Body), id, len(body))
		}
	}
}

func testReadyOrder(b *bench) {
	low1, high1, low2, high2, top := b.put("t", 9), b.put("t", 5), b.put("t", 9), b.put("t", 5), b.put("t", 4294967295)
	if head := b.head("t", tube.Ready); head != high1 {
		b.Errorf("head of ready is %d, want %d", head, high1)
	}
	b.wantTake(1, "t", high1, high2, low1, low2, top)
	// A released job goes back to the place of its id.
	for _, id := range []uint64{low2, high2, low1} {
		if !b.move(tube.Release, 1, id, 7, 0) {
			b.Fatalf("job %d was not released", id)
		}
	}
	b.wantTake(1, "t", low1, low2, high2)
}

func testSeveralTubes(b *bench) {
	b1, a1, c1 := b.put("b", 5), b.put("a", 5), b.put("c", 4)
	for _, want := range []uint64{c1, b1, a1, 0} {
		if got := b.take(1, "a", "nothing", "b", "c"); got != want {
			b.Fatalf("took %d, want %d", got, want)
		}
	}
}

func testDelayedOrder(b *bench) {
	late := b.putWith("t", 0, 20, 60, "late")
	b.engine.Advance(5 * time.Millisecond)
	early := b.putWith("t", 9, 10, 60, "early")
	b.engine.Advance(5 * time.Millisecond)
	second := b.putWith("t", 1, 10, 60, "second")
	if got := b.head("t", tube.Delayed); got != early {
		b.Errorf("head of delayed is %d, want %d", got, early)
	}
	if got := b.job(late); got.TimeLeft < 19*time.Second || got.TimeLeft > 20*time.Second {
		b.Errorf("time left is %v, want nearly 20 s", got.TimeLeft)
	}
	b.wantTake(1, "t")
	b.advance(9 * time.Second)
	b.wantTake(1, "t")
	b.advance(1010 * time.Millisecond)
	b.wantTake(1, "t", second, early) // both are ready now, by priority
	b.advance(10 * time.Second)
	b.wantTake(1, "t", late)
	if s := b.job(late); s.Delay != 20 || s.TTR != 60 || s.Counters != (tube.Counters{tube.Reserves: 1}) {
		b.Errorf("after its delay: %+v", s)
	}
}

func testBuriedOrder(b *bench) {
	ids := []uint64{b.put("t", 3), b.put("t", 2), b.put("t", 1)}
	b.wantTake(1, "t", ids[2], ids[1], ids[0])
	for _, id := range []uint64{ids[1], ids[2], ids[0]} {
		if !b.move(tube.Bury, 1, id, 1000+uint32(id), 0) {
			b.Fatalf("job %d was not buried", id)
		}
	}
	if s := b.job(ids[0]); s.Pri != 1000+uint32(ids[0]) || s.Counters[tube.Buries] != 1 || s.State != tube.Buried {
		b.Errorf("after bury: %+v", s)
	}
	b.must(tube.Delete, 2, ids[2]) // one from the middle
	for _, want := range []uint64{ids[1], ids[0], 0} {
		if got := b.head("t", tube.Buried); got != want {
			b.Fatalf("head of buried is %d, want %d", got, want)
		}
		b.kick("t", 1)
	}
	b.wantTake(1, "t", ids[0], ids[1]) // by the priorities of their burials
}

func testRelease(b *bench) {
	id := b.put("t", 5)
	b.wantTake(1, "t", id)
	if !b.move(tube.Release, 1, id, 77, 30) {
		b.Fatal("not released")
	}
	s := b.job(id)
	if s.State != tube.Delayed || s.Pri != 77 || s.Delay != 30 || s.Counters[tube.Releases] != 1 || s.TimeLeft <= 28*time.Second {
		b.Errorf("after a release with delay: %+v", s)
	}
	b.advance(30*time.Second + 10*time.Millisecond)
	b.wantTake(1, "t", id)
	b.move(tube.Release, 1, id, 3, 0)
	if s := b.job(id); s.State != tube.Ready || s.Pri != 3 || s.Delay != 0 || s.Counters[tube.Releases] != 2 || s.TimeLeft != 0 {
		b.Errorf("after a release without delay: %+v", s)
	}
}

func testKick(b *bench) {
	d1, d2 := b.putWith("t", 1, 50, 60, ""), b.putWith("t", 1, 40, 60, "")
	buried := []uint64{b.put("t", 0), b.put("t", 0), b.put("t", 0)}
	b.wantTake(1, "t", buried...)
	for _, id := range buried {
		b.must(tube.Bury, 1, id)
	}
	if n := b.kick("t", 0); n != 0 {
		b.Errorf("kick 0 kicked %d", n)
	}
	if n := b.kick("t", 2); n != 2 {
		b.Errorf("kick 2 kicked %d", n)
	}
	b.wantTake(1, "t", buried[0], buried[1])
	if n := b.kick("t", 100); n != 1 { // buried ones only, though there are delayed ones
		b.Errorf("kick 100 with one buried job kicked %d", n)
	}
	b.wantTake(1, "t", buried[2])
	if n := b.kick("t", 1); n != 1 {
		b.Errorf("kick 1 with two delayed jobs kicked %d", n)
	}
	b.wantTake(1, "t", d2) // the nearest due first
	if n := b.kick("t", 4294967295); n != 1 {
		b.Errorf("kick with the largest bound kicked %d", n)
	}
	b.wantTake(1, "t", d1)
	if s := b.job(d1); s.Counters[tube.Kicks] != 1 || s.Delay != 50 {
		b.Errorf("after kick: %+v", s)
	}
	if n := b.kick("nothing", 9); n != 0 {
		b.Errorf("kick in a tube that is not there kicked %d", n)
	}
}

// testLongKick kicks more than an engine may do at once, with a command
// behind it in the same batch.
func testLongKick(b *bench) {
	const jobs = 1203
	var ops []storage.Op
	for range jobs {
		ops = append(ops, storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, TTR: 9})
	}
	b.batch(ops...)
	kick := storage.Op{Kind: storage.Kick, Tube: "t", Bound: jobs - 1}
	peek := storage.Op{Kind: storage.PeekHead, Tube: "t", State: tube.Delayed}
	done := b.batch(kick, peek, kick, peek)
	if got := done[0].Answer.Count; got != jobs-1 {
		b.Errorf("kicked %d, want %d", got, jobs-1)
	}
	if got := done[1].Answer.ID; got != jobs {
		b.Errorf("then the first delayed job is %d, want %d", got, jobs)
	}
	if got := done[2].Answer.Count; got != 1 {
		b.Errorf("kicked %d more, want 1", got)
	}
	if !done[3].Answer.NotFound {
		b.Errorf("then there is a delayed job: %d", done[3].Answer.ID)
	}
}

func testPause(b *bench) {
	if b.pause("t", 9) {
		b.Error("a tube that is not there was paused")
	}
	id := b.put("t", 5)
	if !b.pause("t", 9) {
		b.Fatal("not paused")
	}
	b.wantTake(1, "t")
	if s := b.tube("t"); s.Pause != 9 || s.Pauses != 1 || s.PauseLeft <= 8*time.Second || s.PauseLeft > 9*time.Second {
		b.Errorf("while paused: %+v", s)
	}
	b.ear.heard("t")
	b.put("t", 6)
	if b.ear.heard("t") {
		b.Error("a put into a paused tube was hinted at")
	}
	if !b.move(tube.ReserveJob, 1, id, 0, 0) {
		b.Error("reserve-job failed in a paused tube")
	}
	b.must(tube.Release, 1, id)
	b.advance(8900 * time.Millisecond)
	b.wantTake(1, "t")
	b.take(1, "t") // asks to be told
	b.advance(110 * time.Millisecond)
	if !b.ear.heard("t") {
		b.Error("the end of the pause was not hinted at")
	}
	b.wantTake(1, "t", id, 2)
	if s := b.tube("t"); s.Pause != 0 || s.PauseLeft != 0 || s.Pauses != 1 {
		b.Errorf("after the pause: %+v", s)
	}
	testResume(b)
}

// testResume checks that a pause of no length lets a tube go on at once.
func testResume(b *bench) {
	b.pause("t", 100)
	b.put("t", 1)
	b.take(1, "t")
	b.pause("t", 0)
	b.advance(2 * time.Millisecond)
	if !b.ear.heard("t") {
		b.Error("the end of the pause was not hinted at")
	}
	b.wantTake(1, "t", 3)
}

func testTTR(b *bench) {
	id, zero := b.putWith("t", 0, 0, 5, ""), b.putWith("t", 1, 0, 0, "")
	if s := b.job(zero); s.TTR != 1 {
		b.Errorf("TTR 0 became %d, want 1", s.TTR)
	}
	b.wantTake(1, "t", id, zero)
	b.advance(1010 * time.Millisecond)
	b.wantTake(2, "t", zero)
	b.advance(1 * time.Second)
	b.advance(2900 * time.Millisecond)
	if s := b.job(id); s.State != tube.Reserved || s.TimeLeft > time.Second {
		b.Errorf("just before the deadline: %+v", s)
	}
	b.advance(110 * time.Millisecond)
	if s := b.job(id); s.State != tube.Ready || s.Counters != (tube.Counters{tube.Reserves: 1, tube.Timeouts: 1}) {
		b.Errorf("after the deadline: %+v", s)
	}
	for _, m := range []tube.Move{tube.Release, tube.Bury, tube.Touch} {
		if b.move(m, 1, id, 0, 0) {
			b.Errorf("the late owner's %v applied", m)
		}
	}
	if got := b.totals().Timeouts; got != 3 {
		b.Errorf("%d timeouts are counted, want 3", got) // zero timed out twice
	}
	b.must(tube.Delete, 1, id) // as anybody's could, now that it is ready
}

func testTouch(b *bench) {
	id := b.putWith("t", 0, 0, 5, "")
	b.wantTake(1, "t", id)
	b.advance(4 * time.Second)
	if b.move(tube.Touch, 2, id, 0, 0) {
		b.Error("somebody else's touch applied")
	}
	b.must(tube.Touch, 1, id)
	b.advance(4 * time.Second)
	if s := b.job(id); s.State != tube.Reserved || s.Counters != (tube.Counters{tube.Reserves: 1}) {
		b.Errorf("4 s after the touch: %+v", s)
	}
	b.advance(1010 * time.Millisecond)
	if s := b.job(id); s.State != tube.Ready {
		b.Errorf("5 s after the touch: %+v", s)
	}
}

func testSoon(b *bench) {
	soon := func(h tube.Holder) time.Duration {
		b.Helper()
		a := b.do(storage.Op{Kind: storage.Take, Holder: h, Tubes: []string{"t"}})
		if !a.NotFound {
			b.Fatalf("there was a job: %d", a.ID)
		}
		return a.Soon
	}
	near := func(got, want time.Duration) {
		b.Helper()
		if got > want || got < want-500*time.Millisecond {
			b.Errorf("DEADLINE_SOON in %v, want %v", got, want)
		}
	}
	if got := soon(1); got != storage.Forever {
		b.Errorf("with no reservation DEADLINE_SOON comes in %v", got)
	}
	first, second := b.putWith("t", 0, 0, 10, ""), b.putWith("t", 1, 0, 20, "")
	b.wantTake(1, "t", first, second)
	near(soon(1), 9*time.Second)
	b.engine.Advance(2 * time.Second)
	b.must(tube.Touch, 1, first)
	near(soon(1), 9*time.Second)
	b.must(tube.Release, 1, first)
	b.must(tube.Delete, 1, first)
	near(soon(1), 17*time.Second)
	b.engine.Advance(17500 * time.Millisecond)
	if got := soon(1); got > 0 {
		b.Errorf("within the margin DEADLINE_SOON comes in %v", got)
	}
	if got := soon(2); got != storage.Forever {
		b.Errorf("for somebody else DEADLINE_SOON comes in %v", got)
	}
	job := b.put("t", 0)
	b.wantTake(1, "t", job)
	b.must(tube.Delete, 1, job)
	b.must(tube.Bury, 1, second)
	if got := soon(1); got != storage.Forever {
		b.Errorf("with nothing held any more DEADLINE_SOON comes in %v", got)
	}
}

func testLeave(b *bench) {
	mine, other := []uint64{b.put("t", 2), b.put("t", 1)}, b.put("t", 3)
	b.wantTake(1, "t", mine[1], mine[0], other)
	b.must(tube.Release, 1, other)
	b.take(2, "t")
	b.leave(1)
	for _, id := range mine {
		if s := b.job(id); s.State != tube.Ready || s.Counters != (tube.Counters{tube.Reserves: 1}) {
			b.Errorf("after its holder left: %+v", s)
		}
	}
	if s := b.job(other); s.State != tube.Reserved {
		b.Errorf("somebody else's job: %+v", s)
	}
	b.leave(1)
	b.leave(3)
	b.wantTake(3, "t", mine[1], mine[0])
}

func testLeaveWithMuch(b *bench) {
	const jobs = 1203
	var puts, takes []storage.Op
	for range jobs {
		puts = append(puts, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60})
		takes = append(takes, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}})
	}
	b.batch(puts...)
	b.batch(takes...)
	b.leave(1)
	if t := b.totals(); t.Ready != jobs || t.Reserved != 0 {
		b.Errorf("after its holder left %d are ready and %d reserved", t.Ready, t.Reserved)
	}
}

func testUrgent(b *bench) {
	b.put("t", 1023)
	id := b.put("t", 1024)
	b.putWith("t", 0, 100, 9, "")
	if u, v := b.tube("t").Urgent, b.totals().Urgent; u != 1 || v != 1 {
		b.Errorf("%d and %d urgent, want 1", u, v)
	}
	b.must(tube.ReserveJob, 1, id)
	b.move(tube.Release, 1, id, 7, 0)
	if u, v := b.tube("t").Urgent, b.totals().Urgent; u != 2 || v != 2 {
		b.Errorf("%d and %d urgent, want 2", u, v)
	}
	b.take(1, "t")
	b.take(1, "t")
	if u, v := b.tube("t").Urgent, b.totals().Urgent; u != 0 || v != 0 {
		b.Errorf("%d and %d urgent, want 0", u, v)
	}
}

func testTubeLifetime(b *bench) {
	exists := func(name string, want bool) {
		b.Helper()
		if got := b.tube(name) != nil; got != want {
			b.Fatalf("tube %s exists: %v, want %v", name, got, want)
		}
		if got := slices.Contains(b.tubes(), name); got != want {
			b.Fatalf("tube %s is listed: %v, want %v", name, got, want)
		}
	}
	exists("default", true)
	exists("t", false)
	b.attend(tube.Using, 1, "t")
	exists("t", true)
	b.attend(tube.Watching, 1, "t")
	b.attend(tube.Using, -1, "t")
	exists("t", true)
	id := b.put("t", 0)
	b.pause("t", 1000)
	b.attend(tube.Watching, -1, "t")
	exists("t", true)
	b.must(tube.ReserveJob, 1, id)
	exists("t", true)
	b.must(tube.Delete, 1, id)
	exists("t", false)
	b.attend(tube.Using, 1, "t")
	if s := b.tube("t"); s.Total != 0 || s.Deletes != 0 || s.Pauses != 0 || s.Pause != 0 {
		b.Errorf("a new tube remembers an old one: %+v", s)
	}
	b.batch(storage.Op{Kind: storage.Put, Tube: "t", TTR: 1}, // in one batch the tube stays
		storage.Op{Kind: storage.Attend, Role: tube.Using, Delta: -1, Tubes: []string{"t"}})
	exists("t", true)
	b.attend(tube.Using, -1, "default", "nothing")
	exists("default", true)
}

func testTubeOrder(b *bench) {
	b.attend(tube.Watching, 1, "a", "b", "m", "n", "o", "p")
	b.attend(tube.Watching, -1, "m")
	want := []string{"default", "a", "b", "p", "n", "o"}
	if got := b.tubes(); !slices.Equal(got, want) {
		b.Errorf("tubes are %v, want %v", got, want)
	}
}

func testTubeCounters(b *bench) {
	b.attend(tube.Using, 2, "t")
	b.attend(tube.Watching, 3, "t")
	ids := []uint64{b.put("t", 0), b.put("t", 5000), b.put("t", 1), b.putWith("t", 0, 9, 9, "")}
	b.must(tube.ReserveJob, 1, ids[2])
	b.must(tube.Bury, 1, ids[2])
	b.take(1, "t")
	got := b.tube("t")
	want := tube.TubeStats{Name: "t", Ready: 1, Reserved: 1, Delayed: 1, Buried: 1, Total: 4, Using: 2, Watching: 3}
	if *got != want {
		b.Errorf("got  %+v\nwant %+v", *got, want)
	}
	for _, id := range ids {
		b.must(tube.Delete, 1, id)
	}
	b.move(tube.Delete, 1, ids[0], 0, 0) // not found: does not count
	if got := b.tube("t"); got.Deletes != 4 || got.Total != 4 || got.Ready+got.Reserved+got.Delayed+got.Buried != 0 {
		b.Errorf("after all were deleted: %+v", *got)
	}
}

func testTotals(b *bench) {
	b.put("a", 0)
	b.put("b", 2000)
	b.putWith("c", 0, 9, 9, "")
	id := b.put("d", 0)
	b.must(tube.ReserveJob, 1, id)
	want := tube.Totals{Urgent: 1, Ready: 2, Reserved: 1, Delayed: 1, Jobs: 4, Tubes: 5}
	if got := b.totals(); got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
	b.must(tube.Bury, 1, id)
	want.Buried, want.Reserved = 1, 0
	if got := b.totals(); got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
	b.must(tube.Delete, 1, id)
	want.Buried, want.Tubes = 0, 4
	if got := b.totals(); got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// testHints checks that whoever found nothing is told of every way in which a
// job becomes ready.
func testHints(b *bench) {
	var id uint64
	ways := []struct {
		name          string
		before, after func()
	}{
		{"put", nil, func() { id = b.putWith("t", 0, 0, 2, "") }},
		{"release", nil, func() { b.must(tube.Release, 1, id) }},
		{"TTR", nil, func() { b.advance(2010 * time.Millisecond) }},
		{"holder gone", nil, func() { b.leave(1) }},
		{"kick-job", func() { b.must(tube.Bury, 1, id) }, func() { b.must(tube.KickJob, 2, id) }},
		{"kick", func() { b.must(tube.Bury, 1, id) }, func() { b.kick("t", 1) }},
		{"delay", func() { b.move(tube.Release, 1, id, 0, 3) }, func() { b.advance(3010 * time.Millisecond) }},
	}
	for _, way := range ways {
		if way.before != nil {
			way.before()
		}
		if got := b.take(2, "other", "t"); got != 0 {
			b.Fatalf("%s: took %d, want nothing", way.name, got)
		}
		b.ear.heard("t")
		way.after()
		if !b.ear.heard("t") {
			b.Errorf("%s: no hint", way.name)
		}
		if got := b.take(1, "t"); got != id {
			b.Fatalf("%s: took %d, want %d", way.name, got, id)
		}
	}
}

// testDue checks that the store asks for the tick in time.
func testDue(b *bench) {
	asked := func(what string, want time.Duration) {
		b.Helper()
		got := b.ear.due
		b.ear.due = storage.Forever
		if got > want+10*time.Millisecond || got < want-500*time.Millisecond {
			b.Errorf("%s: asked for a tick in %v, want %v", what, got, want)
		}
	}
	if next := b.advance(0); next < time.Second {
		b.Errorf("with no job something is due in %v", next)
	}
	b.ear.due = storage.Forever
	b.putWith("t", 0, 100, 9, "")
	asked("delay", 100*time.Second)
	b.putWith("t", 0, 50, 9, "")
	asked("earlier delay", 50*time.Second)
	id := b.putWith("t", 0, 0, 30, "")
	b.wantTake(1, "t", id)
	asked("TTR", 30*time.Second)
	b.pause("t", 20)
	asked("pause", 20*time.Second)
	b.engine.Advance(19500 * time.Millisecond)
	if next := b.advance(0); next > 510*time.Millisecond {
		b.Errorf("tick said %v, want 500ms", next)
	}
}

func testBatchOrder(b *bench) {
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 60}
	done := b.batch(take, put, put, take, take, take,
		storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: 1},
		storage.Op{Kind: storage.JobStats, ID: 1},
		storage.Op{Kind: storage.TubeStats, Tube: "t"},
		storage.Op{Kind: storage.Stats})
	for i, want := range map[int]uint64{0: 0, 1: 1, 2: 2, 3: 1, 4: 2, 5: 0} {
		if got := done[i].Answer.ID; got != want {
			b.Errorf("operation %d: job %d, want %d", i, got, want)
		}
	}
	if !done[7].Answer.NotFound {
		b.Errorf("job 1 is still there: %+v", done[7].Answer.Job)
	}
	if s := done[8].Answer.TubeStats; s == nil || s.Reserved != 1 || s.Deletes != 1 || s.Total != 2 {
		b.Errorf("the tube: %+v", s)
	}
	if s := done[9].Answer.Stats; s == nil || s.Reserved != 1 || s.Ready != 0 || s.Jobs != 2 {
		b.Errorf("all tubes: %+v", s)
	}
}

// testKickedAndReleased: in one batch jobs are kicked, and after that another one
// released; all are ready then.
func testKickedAndReleased(b *bench) {
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Pri: 7}
	move := func(m tube.Move, id uint64) storage.Op {
		return storage.Op{Kind: storage.Move, Move: m, Holder: 1, ID: id, Pri: 7}
	}
	b.batch(put, put, put, take, take, take)
	done := b.batch(move(tube.Bury, 1), move(tube.Bury, 2), storage.Op{Kind: storage.Kick, Tube: "t", Bound: 9}, move(tube.Release, 3),
		storage.Op{Kind: storage.TubeStats, Tube: "t"}, take, take, take)
	if s := done[4].Answer.TubeStats; s == nil || s.Ready != 3 || s.Buried != 0 || s.Reserved != 0 {
		b.Errorf("the tube: %+v", s)
	}
	for i := range uint64(3) {
		if got := done[5+i].Answer.ID; got != i+1 {
			b.Errorf("took job %d, want %d", got, i+1)
		}
	}
}

func testLargeBatch(b *bench) {
	const jobs = 5000
	ops := make([]storage.Op, jobs)
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Put, Tube: "t", Pri: uint32(i % 7), TTR: 60}
	}
	for i, op := range b.batch(ops...) {
		if op.Answer.ID != uint64(i+1) {
			b.Fatalf("put %d got id %d", i+1, op.Answer.ID)
		}
	}
}

// testManyConnections has several holders work at once: every job is taken by
// exactly one.
func testManyConnections(b *bench) {
	const holders, jobs = 8, 50
	taken := make(chan uint64, holders*jobs)
	for h := range tube.Holder(holders) {
		go func() {
			ops := make([]storage.Op, 0, 2*jobs)
			for range jobs {
				ops = append(ops, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60})
				ops = append(ops, storage.Op{Kind: storage.Take, Holder: h + 1, Tubes: []string{"t"}})
			}
			storage.DoWait(b.store, ops)
			for i := 1; i < len(ops); i += 2 {
				taken <- ops[i].Answer.ID
			}
		}()
	}
	seen := make(map[uint64]bool)
	for range holders * jobs {
		id := <-taken
		if id == 0 || seen[id] {
			b.Fatalf("job %d was taken twice, or there was none", id)
		}
		seen[id] = true
	}
}

func testAfterClose(b *bench) {
	b.close()
	store := b.engine.Open(b)
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	ops := []storage.Op{{Kind: storage.Put, Tube: "t"}}
	storage.DoWait(store, ops)
	if ops[0].Answer.Err == nil {
		b.Error("a closed store took a job")
	}
}

func testUnknownIDs(b *bench) {
	b.put("t", 0)
	for _, id := range []uint64{0, 2, 1<<53 - 1, 1 << 53, 1<<64 - 1} {
		for m := range tube.Expire {
			if m != tube.Reserve && b.move(m, 1, id, 0, 0) {
				b.Errorf("%v of job %d applied", m, id)
			}
		}
		if a := b.do(storage.Op{Kind: storage.Peek, ID: id}); !a.NotFound {
			b.Errorf("peek found job %d", id)
		}
		if s := b.job(id); s.State != tube.Gone {
			b.Errorf("job %d is %v", id, s.State)
		}
	}
}

// testSurvival reopens a store that was closed.
func testSurvival(b *bench) {
	testReopened(b, func() { b.close() })
}

// testCrash reopens a store whose process was killed.
func testCrash(b *bench) {
	testReopened(b, func() {
		b.engine.Crash(b.store)
		b.store = nil
	})
}

func testReopened(b *bench, end func()) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	ready, delayed, dead := b.put("t", 5), b.putWith("t", 6, 100, 9, "delayed"), b.put("t", 0)
	buried := []uint64{b.put("t", 7), b.put("t", 8), b.put("t", 9)}
	held := b.putWith("t", 4, 0, 77, "held")
	for _, id := range []uint64{buried[2], buried[0], buried[1], held, dead, ready} {
		b.must(tube.ReserveJob, 1, id)
	}
	for _, i := range []int{2, 0, 1} {
		b.move(tube.Bury, 1, buried[i], uint32(70+i), 0)
	}
	b.move(tube.Release, 1, ready, 55, 0)
	b.must(tube.Delete, 1, dead)
	b.pause("t", 1000)
	end()
	b.open()
	b.advance(10 * time.Second) // an instance that is gone is noticed

	if s := b.job(ready); s.State != tube.Ready || s.Pri != 55 || s.Counters != (tube.Counters{tube.Reserves: 1, tube.Releases: 1}) {
		b.Errorf("a released job: %+v", s)
	}
	if s := b.job(delayed); s.State != tube.Delayed || s.TimeLeft > 90*time.Second || s.TimeLeft < 80*time.Second {
		b.Errorf("a delayed job: %+v", s)
	}
	if s := b.job(held); s.State != tube.Ready || s.TTR != 77 || s.Counters != (tube.Counters{tube.Reserves: 1}) {
		b.Errorf("a job that was reserved: %+v", s)
	}
	if s := b.job(dead); s.State != tube.Gone {
		b.Errorf("a deleted job: %+v", s)
	}
	if s := b.tube("t"); s == nil || s.Pause != 1000 {
		b.Errorf("a paused tube: %+v", s)
	}
	for _, i := range []int{2, 0, 1} {
		if got := b.head("t", tube.Buried); got != buried[i] {
			b.Errorf("the first buried job is %d, want %d", got, buried[i])
		}
		if s := b.job(buried[i]); s.Pri != uint32(70+i) || s.Counters[tube.Buries] != 1 {
			b.Errorf("a buried job: %+v", s)
		}
		b.kick("t", 1)
	}
	if id := b.put("t", 0); id <= held {
		b.Errorf("id %d was given out again", id)
	}
}

// transition is one way in which a job moves when it is asked to.
type transition struct {
	state tube.State // of the job before
	mine  bool       // reserved by who asks
	move  tube.Move
	to    tube.State
	grows tube.Counter
}

// transitions are all there are; whatever is not here is NOT_FOUND.
var transitions = []transition{
	{tube.Ready, false, tube.ReserveJob, tube.Reserved, tube.Reserves},
	{tube.Ready, false, tube.Delete, tube.Gone, tube.NoCounter},
	{tube.Delayed, false, tube.ReserveJob, tube.Reserved, tube.Reserves},
	{tube.Delayed, false, tube.Delete, tube.Gone, tube.NoCounter},
	{tube.Delayed, false, tube.KickJob, tube.Ready, tube.Kicks},
	{tube.Buried, false, tube.ReserveJob, tube.Reserved, tube.Reserves},
	{tube.Buried, false, tube.Delete, tube.Gone, tube.NoCounter},
	{tube.Buried, false, tube.KickJob, tube.Ready, tube.Kicks},
	{tube.Reserved, true, tube.Delete, tube.Gone, tube.NoCounter},
	{tube.Reserved, true, tube.Release, tube.Ready, tube.Releases},
	{tube.Reserved, true, tube.Bury, tube.Buried, tube.Buries},
	{tube.Reserved, true, tube.Touch, tube.Reserved, tube.NoCounter},
}

func findTransition(state tube.State, mine bool, move tube.Move) *transition {
	for i := range transitions {
		if t := &transitions[i]; t.state == state && t.mine == mine && t.move == move {
			return t
		}
	}
	return nil
}

// testMatrix goes through every state, move and holder.
func testMatrix(b *bench) {
	tried := 0
	for _, state := range []tube.State{tube.Ready, tube.Delayed, tube.Buried, tube.Reserved} {
		for _, mine := range []bool{false, true} {
			if mine && state != tube.Reserved {
				continue
			}
			for _, move := range []tube.Move{tube.ReserveJob, tube.Delete, tube.Release, tube.Bury, tube.Touch, tube.KickJob} {
				id := b.jobIn(state, mine)
				before := b.job(id)
				applied := b.move(move, 1, id, before.Pri, 0)
				after := b.job(id)
				want := findTransition(state, mine, move)
				tried++
				if applied != (want != nil) {
					b.Errorf("%v job (mine: %v), %v: applied %v", state, mine, move, applied)
					continue
				}
				if want == nil {
					if after.State != before.State || after.Counters != before.Counters {
						b.Errorf("%v job (mine: %v), %v did not apply but made it %+v", state, mine, move, after)
					}
				} else if counters := before.Counters; want.to == tube.Gone {
					if after.State != tube.Gone {
						b.Errorf("%v job (mine: %v), %v: not gone but %+v", state, mine, move, after)
					}
				} else {
					if want.grows != tube.NoCounter {
						counters[want.grows]++
					}
					if after.State != want.to || after.Counters != counters || after.Pri != before.Pri {
						b.Errorf("%v job (mine: %v), %v: %+v", state, mine, move, after)
					}
				}
			}
		}
	}
	if tried != 30 {
		b.Errorf("tried %d combinations, want 30", tried)
	}
}

// jobIn makes a job in the state; when reserved, by holder 1 or 2.
func (b *bench) jobIn(state tube.State, mine bool) uint64 {
	b.Helper()
	delay := uint32(0)
	if state == tube.Delayed {
		delay = 10_000
	}
	id := b.putWith("matrix", 9, delay, 10_000, "")
	holder := tube.Holder(2)
	if mine {
		holder = 1
	}
	if state == tube.Reserved || state == tube.Buried {
		b.must(tube.ReserveJob, holder, id)
	}
	if state == tube.Buried {
		b.move(tube.Bury, holder, id, 9, 0)
	}
	if s := b.job(id); s.State != state {
		b.Fatalf("job is %v, want %v", s.State, state)
	}
	return id
}
