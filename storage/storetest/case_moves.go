package storetest

import (
	"time"

	"redstalk/tube"
)

// transition is a way in which a command moves a job.
type transition struct {
	state tube.State // of the job before
	mine  bool       // the caller holds it
	move  tube.Move
	to    tube.State
	grows tube.Counter
}

// transitions are all possible transitions. Anything else is NOT_FOUND.
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

// testMatrix tries every move on a job in every state, held by the caller or by another
// holder.
func testMatrix(b *harness) {
	tried := 0
	for _, state := range []tube.State{tube.Ready, tube.Delayed, tube.Buried, tube.Reserved} {
		for _, mine := range []bool{false, true} {
			if mine && state != tube.Reserved {
				continue
			}
			for _, move := range []tube.Move{tube.ReserveJob, tube.Delete, tube.Release, tube.Bury, tube.Touch, tube.KickJob} {
				b.tryMove(state, mine, move)
				tried++
			}
		}
	}
	if tried != 30 {
		b.Errorf("tried %d combinations, want 30", tried)
	}
}

// tryMove does a move with a new job and compares the result with transitions.
func (b *harness) tryMove(state tube.State, mine bool, move tube.Move) {
	b.Helper()
	id := b.jobIn(state, mine)
	before := b.job(id)
	applied := b.move(move, 1, id, before.Pri, 0)
	after := b.job(id)
	want := findTransition(state, mine, move)
	if applied != (want != nil) {
		b.Errorf("%v job (mine: %v), %v: applied %v", state, mine, move, applied)
		return
	}
	if want == nil {
		if after.State != before.State || after.Counters != before.Counters {
			b.Errorf("%v job (mine: %v), %v was not possible but made it %+v", state, mine, move, after)
		}
		return
	}
	if want.to == tube.Gone {
		if after.State != tube.Gone {
			b.Errorf("%v job (mine: %v), %v: not gone but %+v", state, mine, move, after)
		}
		return
	}
	counters := before.Counters
	if want.grows != tube.NoCounter {
		counters[want.grows]++
	}
	if after.State != want.to || after.Counters != counters || after.Pri != before.Pri {
		b.Errorf("%v job (mine: %v), %v: %+v", state, mine, move, after)
	}
}

// jobIn creates a job in a state. A reserved job is held by holder 1 if mine is true, else by
// holder 2.
func (b *harness) jobIn(state tube.State, mine bool) uint64 {
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

func testRelease(b *harness) {
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

func testKick(b *harness) {
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
	if n := b.kick("t", 100); n != 1 { // buried jobs only, though there are delayed jobs
		b.Errorf("kick 100 with one buried job kicked %d", n)
	}
	b.wantTake(1, "t", buried[2])
	if n := b.kick("t", 1); n != 1 {
		b.Errorf("kick 1 with two delayed jobs kicked %d", n)
	}
	b.wantTake(1, "t", d2) // the earliest due time first
	if n := b.kick("t", 4294967295); n != 1 {
		b.Errorf("kick with the largest number kicked %d", n)
	}
	b.wantTake(1, "t", d1)
	if s := b.job(d1); s.Counters[tube.Kicks] != 1 || s.Delay != 50 {
		b.Errorf("after kick: %+v", s)
	}
	if n := b.kick("nothing", 9); n != 0 {
		b.Errorf("kick in a tube that does not exist kicked %d", n)
	}
}

func testReleaseAll(b *harness) {
	mine, other := []uint64{b.put("t", 2), b.put("t", 1)}, b.put("t", 3)
	b.wantTake(1, "t", mine[1], mine[0], other)
	b.must(tube.Release, 1, other)
	b.take(2, "t")
	b.releaseAll(1)
	for _, id := range mine {
		if s := b.job(id); s.State != tube.Ready || s.Counters != (tube.Counters{tube.Reserves: 1}) {
			b.Errorf("after the release of all: %+v", s)
		}
	}
	if s := b.job(other); s.State != tube.Reserved {
		b.Errorf("the job of another holder: %+v", s)
	}
	b.releaseAll(1)
	b.releaseAll(3)
	b.wantTake(3, "t", mine[1], mine[0])
}
