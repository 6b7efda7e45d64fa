package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

func testPause(b *harness) {
	if b.pause("t", 60) {
		b.Error("a tube that does not exist was paused")
	}
	id := b.put("t", 5)
	if !b.pause("t", 60) {
		b.Fatal("not paused")
	}
	b.wantTake(1, "t")
	if s := b.tube("t"); s.Pause != 60 || s.Pauses != 1 || s.PauseLeft <= 55*time.Second || s.PauseLeft > 60*time.Second {
		b.Errorf("while paused: %+v", s)
	}
	b.listener.woken("t")
	b.put("t", 6)
	if b.listener.woken("t") {
		b.Error("a put into a paused tube sent a wake-up")
	}
	if !b.move(tube.ReserveJob, 1, id, 0, 0) {
		b.Error("reserve-job failed in a paused tube")
	}
	b.must(tube.Release, 1, id)
	b.advance(58 * time.Second)
	b.wantTake(1, "t")
	b.take(1, "t") // registers for a wake-up
	b.advance(2 * time.Second)
	if !b.listener.woken("t") {
		b.Error("the end of the pause sent no wake-up")
	}
	b.wantTake(1, "t", id, 2)
	if s := b.tube("t"); s.Pause != 0 || s.PauseLeft != 0 || s.Pauses != 1 {
		b.Errorf("after the pause: %+v", s)
	}
	testResume(b)
}

// testResume checks that a pause of length 0 ends a pause at once.
func testResume(b *harness) {
	b.pause("t", 100)
	b.put("t", 1)
	b.take(1, "t")
	b.pause("t", 0)
	b.advance(2 * time.Millisecond)
	if !b.listener.woken("t") {
		b.Error("the end of the pause sent no wake-up")
	}
	b.wantTake(1, "t", 3)
}

func testTTR(b *harness) {
	id, zero := b.putWith("t", 0, 0, 60, ""), b.putWith("t", 1, 0, 0, "")
	if s := b.job(zero); s.TTR != 1 {
		b.Errorf("TTR 0 became %d, want 1", s.TTR)
	}
	b.wantTake(1, "t", id, zero)
	b.advance(1010 * time.Millisecond)
	b.wantTake(2, "t", zero)
	b.advance(1 * time.Second)
	b.advance(57 * time.Second)
	if s := b.job(id); s.State != tube.Reserved || s.TimeLeft > time.Second {
		b.Errorf("just before the deadline: %+v", s)
	}
	b.advance(1 * time.Second)
	if s := b.job(id); s.State != tube.Ready || s.Counters != (tube.Counters{tube.Reserves: 1, tube.Timeouts: 1}) {
		b.Errorf("after the deadline: %+v", s)
	}
	for _, m := range []tube.Move{tube.Release, tube.Bury, tube.Touch} {
		if b.move(m, 1, id, 0, 0) {
			b.Errorf("%v of the former holder succeeded", m)
		}
	}
	if got := b.totals().Timeouts; got != 3 {
		b.Errorf("%d timeouts are counted, want 3", got) // zero timed out twice
	}
	b.must(tube.Delete, 1, id) // any holder can delete it, now that it is ready
}

func testTouch(b *harness) {
	id := b.putWith("t", 0, 0, 5, "")
	b.wantTake(1, "t", id)
	b.advance(4 * time.Second)
	if b.move(tube.Touch, 2, id, 0, 0) {
		b.Error("the touch of another holder succeeded")
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

// testSoon checks when a Take that finds nothing must be answered DEADLINE_SOON.
func testSoon(b *harness) {
	b.wantSoon(1, storage.Forever)
	first, second := b.putWith("t", 0, 0, 10, ""), b.putWith("t", 1, 0, 20, "")
	b.wantTake(1, "t", first, second)
	b.wantSoon(1, 9*time.Second)
	b.engine.Advance(2 * time.Second)
	b.must(tube.Touch, 1, first)
	b.wantSoon(1, 9*time.Second)
	b.must(tube.Release, 1, first)
	b.must(tube.Delete, 1, first)
	b.wantSoon(1, 17*time.Second)
	b.engine.Advance(17500 * time.Millisecond)
	if got := b.soon(1); got > 0 {
		b.Errorf("within the margin DEADLINE_SOON comes in %v", got)
	}
	b.wantSoon(2, storage.Forever)
	job := b.put("t", 0)
	b.wantTake(1, "t", job)
	b.must(tube.Delete, 1, job)
	b.must(tube.Bury, 1, second)
	b.wantSoon(1, storage.Forever)
}

// soon returns when DEADLINE_SOON is due for a holder. There must be no job in "t".
func (b *harness) soon(h tube.Holder) time.Duration {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.Take, Holder: h, Tubes: []string{"t"}})
	if !a.NotFound {
		b.Fatalf("there was a job: %d", a.ID)
	}
	return a.Soon
}

// wantSoon checks when DEADLINE_SOON is due for a holder, to half a second.
func (b *harness) wantSoon(h tube.Holder, want time.Duration) {
	b.Helper()
	got := b.soon(h)
	if got > want || got < want-500*time.Millisecond || want == storage.Forever && got != want {
		b.Errorf("DEADLINE_SOON for %d in %v, want %v", h, got, want)
	}
}

// testWakeUps checks that a server that found nothing gets a wake-up for every way in which a job
// becomes ready.
func testWakeUps(b *harness) {
	var id uint64
	ways := []struct {
		name          string
		before, after func()
	}{
		{"put", nil, func() { id = b.putWith("t", 0, 0, 2, "") }},
		{"release", nil, func() { b.must(tube.Release, 1, id) }},
		{"TTR", nil, func() { b.advance(2010 * time.Millisecond) }},
		{"holder gone", nil, func() { b.releaseAll(1) }},
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
		b.listener.woken("t")
		way.after()
		if !b.listener.woken("t") {
			b.Errorf("%s: no wake-up", way.name)
		}
		if got := b.take(1, "t"); got != id {
			b.Fatalf("%s: took %d, want %d", way.name, got, id)
		}
	}
}

// testDue checks that the store asks for a Tick in time.
func testDue(b *harness) {
	wantDue := func(what string, want time.Duration) {
		b.Helper()
		got := b.listener.due
		b.listener.due = storage.Forever
		if got > want+10*time.Millisecond || got < want-500*time.Millisecond {
			b.Errorf("%s: asked for a tick in %v, want %v", what, got, want)
		}
	}
	if next := b.advance(0); next < time.Second {
		b.Errorf("with no job something is due in %v", next)
	}
	b.listener.due = storage.Forever
	b.putWith("t", 0, 100, 9, "")
	wantDue("delay", 100*time.Second)
	b.putWith("t", 0, 50, 9, "")
	wantDue("earlier delay", 50*time.Second)
	id := b.putWith("t", 0, 0, 30, "")
	b.wantTake(1, "t", id)
	wantDue("TTR", 30*time.Second)
	b.pause("t", 20)
	wantDue("pause", 20*time.Second)
	b.engine.Advance(19500 * time.Millisecond)
	if next := b.advance(0); next > 510*time.Millisecond {
		b.Errorf("Tick returned %v, want 500ms", next)
	}
}
