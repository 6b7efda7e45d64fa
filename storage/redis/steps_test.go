package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// Work that grows with something large is done in steps. The duration of a step depends on the
// machine, so commands are counted.

// names returns n names of tubes.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "tube" + strconv.Itoa(i)
	}
	return all
}

// refAll makes connections of s use all tubes, in batches as a server submits them.
func refAll(s *Store, tubes []string) {
	for part := range slices.Chunk(tubes, 500) {
		do(s, storage.Op{Kind: storage.Ref, Role: tube.Watching, Delta: 1, Tubes: part})
	}
}

// atMost fails if a call of the script makes more than `most` commands during a function.
func atMost(t *testing.T, server *redistest.Server, most int, what func()) {
	t.Helper()
	if n := mostCommands(t, server, what); n > most {
		t.Errorf("%d commands in one call, want %d at most", n, most)
	}
}

// TestDeadInstanceInSteps: everything that a dead instance held and used is given back at once,
// but in short calls.
func TestDeadInstanceInSteps(t *testing.T) {
	const jobs, tubes = 6000, 5000
	lt := newLeaseSetTest(t)
	s := lt.open(lt.redis.URL(), patient)
	putMany(t, s, jobs, 5)
	for range jobs / maxTogether {
		takeMany(t, s, maxTogether)
	}
	refAll(s, names(tubes))
	s.crash()
	assumeAlive(lt.s)
	lt.ahead.Add(int64(10 * time.Second))
	atMost(t, lt.redis, 20*maxMoves, func() {
		lt.s.Tick() // one, as in a second
		awaitReserved(t, lt.s, 0)
		for limit := time.Now().Add(patient); figures(t, lt.s).Tubes > 2; {
			if time.Now().After(limit) {
				t.Fatalf("%d tubes are left", figures(t, lt.s).Tubes)
			}
		}
	})
	if got := figures(t, lt.s); got.Ready != jobs {
		t.Errorf("%+v", got)
	}
	if n := lt.client.ZCard(context.Background(), "redstalk:{0}:instances").Val(); n != 1 {
		t.Errorf("%d instances are known", n)
	}
}

// TestWakeUpsOfTheDead: wake-ups that a dead instance has not read go to the next instance that
// waits.
func TestWakeUpsOfTheDead(t *testing.T) {
	lt := newLeaseSetTest(t)
	dead := lt.open(lt.redis.URL(), patient)
	waiting := take(1)
	waiting.Wait = true
	dead.parts[0].do(func(c *call) { // nobody reads its notifications
		for _, m := range dead.wakeUpReaders {
			m.cancel()
			m.wait()
		}
	})
	do(dead, waiting)
	lt.ahead.Add(int64(time.Second)) // the other one comes after it
	reported := make(chan string, 1)
	lt.s.Listen(&chanListener{reported})
	do(lt.s, waiting)
	putter := lt.open(lt.redis.URL(), patient)
	do(putter, put("x"))
	select {
	case name := <-reported:
		t.Fatalf("the second one was woken for %s first", name)
	default:
	}
	dead.crash()
	assumeAlive(lt.s)
	lt.ahead.Add(int64(10 * time.Second))
	lt.s.Tick()
	select {
	case name := <-reported:
		if name != "t" {
			t.Errorf("woken for %s", name)
		}
	case <-time.After(patient):
		t.Error("the hint is lost")
	}
}

// chanListener sends the tubes for which it is woken.
type chanListener struct{ woken chan string }

func (h *chanListener) WakeUp(name string) bool {
	select {
	case h.woken <- name:
	default:
	}
	return true
}
func (*chanListener) Waiting(string) int         { return 0 }
func (*chanListener) Due(time.Duration)          {}
func (*chanListener) RecordsDue(tube.RecordKind) {}

func (*chanListener) JobEnded(uint64)            {}
func (*chanListener) ClockSetBack(time.Duration) {}

// TestManyTubesInSteps: takes from very many tubes, and lists of them, are done in short calls,
// and find the best job.
func TestManyTubesInSteps(t *testing.T) {
	const tubes = 3*maxTubes + 10
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	all := names(tubes)
	refAll(s, all)
	wide := storage.Op{Kind: storage.Take, Holder: 1, Tubes: all, Wait: true}
	atMost(t, server, 2*maxTubes+100, func() {
		if a := do(s, wide); a.Err != nil || !a.NotFound || a.Soon != storage.Forever {
			t.Errorf("with no job there: %+v", a)
		}
	})
	for i, at := range []int{2500, 10, tubes - 1, 1500} {
		op := put(fmt.Sprint(i))
		op.Tube, op.Pri = all[at], uint32(10-i%2)
		do(s, op)
	}
	var got []uint64
	atMost(t, server, 2*maxTubes+100, func() {
		ops := []storage.Op{wide, wide, wide, wide, wide}
		storage.DoWait(s, ops)
		for i := range ops {
			got = append(got, ops[i].Answer.ID)
		}
	})
	if want := []uint64{2, 4, 1, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
	before := scriptCalls(t, server)
	listed := do(s, storage.Op{Kind: storage.Tubes}).Names
	if want := append([]string{tube.Default}, all...); !slices.Equal(listed, want) {
		t.Errorf("%d tubes are listed, want %d in the order of their creation", len(listed), len(want))
	}
	if n := scriptCalls(t, server) - before; n < tubes/maxTubes {
		t.Errorf("%d tubes were listed in %d calls", tubes, n)
	}
}

// TestPausedTubesCostNothing: a take checks the pauses of its own tubes only.
func TestPausedTubesCostNothing(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	client := server.Client(t)
	for _, name := range names(500) {
		client.HSet(context.Background(), "redstalk:{0}:paused", name, "100 99999999999999")
	}
	paused := take(1)
	paused.Tubes = []string{"t", "tube7"}
	do(s, put("x"))
	op := put("y")
	op.Tube = "tube7"
	do(s, op)
	usec := commandStat(t, server, "hkeys", "calls") + commandStat(t, server, "hgetall", "calls")
	if a := do(s, paused); a.ID != 1 {
		t.Errorf("%+v", a)
	}
	if a := do(s, paused); !a.NotFound {
		t.Errorf("a paused one: %+v", a)
	}
	if n := commandStat(t, server, "hkeys", "calls") + commandStat(t, server, "hgetall", "calls") - usec; n != 0 {
		t.Errorf("all paused tubes were looked at %d times", n)
	}
}

// TestSoonOfMany: the next deadline is found without examining all jobs of a connection.
func TestSoonOfMany(t *testing.T) {
	hs, now := newHoldings(false), time.Now()
	const n = 1000
	for id := range uint64(n) {
		hs.hold(1, id, job{tube: "t", ttr: time.Duration(100+(id*7919)%n) * time.Second}, now, nil)
	}
	hs.hold(2, n, job{tube: "t", ttr: 5 * time.Second}, now, nil)
	for left := n; left > 0; left -= 100 {
		want := storage.Forever
		for _, slot := range hs.slots {
			if held := hs.slab.at(slot); held.holder == 1 {
				want = min(want, held.until-hs.fromBase(now)-tube.Margin)
			}
		}
		if got := hs.soon(1, now); got != want {
			t.Fatalf("%d left: %v, want %v", left, got, want)
		}
		for _, reserved := range hs.firstOf(1, 50) {
			hs.touch(reserved.id, now.Add(time.Duration(reserved.id)*time.Second))
		}
		for _, reserved := range hs.firstOf(1, 100) {
			hs.drop(reserved.id)
		}
	}
	if got := hs.soon(1, now); got != storage.Forever || hs.holdsAny(1) {
		t.Errorf("nothing is left: %v", got)
	}
	if hs.hold(3, 1, job{tube: "t", ttr: time.Second}, now.Add(-time.Hour), nil); hs.soon(3, now) != storage.Forever {
		t.Errorf("it is over: %v", hs.soon(3, now))
	}
	hs.hold(3, 2, job{tube: "t", ttr: 10 * time.Second}, now, nil)
	if got := hs.soon(3, now); got != 9*time.Second {
		t.Errorf("beside one that is over: %v", got)
	}
}

// TestSoonCostsNothing: the jobs of a connection that holds very many are not examined for each
// of its requests.
func TestSoonCostsNothing(t *testing.T) {
	const jobs, asked = 100_000, 1000
	hs, now := newHoldings(false), time.Now()
	for id := range uint64(jobs) {
		hs.hold(1, id, job{tube: "t", ttr: time.Duration(100+id%1000) * time.Second}, now, nil)
	}
	begun, first := time.Now(), storage.Forever
	for _, slot := range hs.slots {
		first = min(first, hs.slab.at(slot).until-hs.fromBase(now))
	}
	all := time.Since(begun)
	begun = time.Now()
	for range asked {
		if got := hs.soon(1, now); got != first-tube.Margin {
			t.Fatalf("%v, want %v", got, first-tube.Margin)
		}
	}
	if took := time.Since(begun); took > all*asked/20 {
		t.Errorf("to ask %d times took %v, and to look at all jobs once %v", asked, took, all)
	}
}

// TestKicksInSteps: many kicks in one packet move no more in one call than one does.
func TestKicksInSteps(t *testing.T) {
	const jobs = 4 * maxMoves
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	for range jobs / 50 {
		ops := make([]storage.Op, 50)
		for i := range ops {
			ops[i] = put("x")
			ops[i].Delay = 1000
		}
		storage.DoWait(s, ops)
	}
	ops := make([]storage.Op, 8)
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Kick, Tube: "t", MaxJobs: jobs / 8}
	}
	before := scriptCalls(t, server)
	storage.DoWait(s, ops)
	for i := range ops {
		if ops[i].Answer.Count != jobs/8 {
			t.Errorf("kick %d: %d", i, ops[i].Answer.Count)
		}
	}
	if n := scriptCalls(t, server) - before; n < 4 {
		t.Errorf("%d jobs were kicked in %d calls", jobs, n)
	}
}

// TestGivenBackOnce: giving back an undelivered job applies to that reservation, not to a later
// one of the same job by another client here.
func TestGivenBackOnce(t *testing.T) {
	s := openAt(t, redistest.Start(t).URL(), patient)
	p := s.parts[0]
	do(s, put("x"))
	do(s, take(1))
	old := p.holdings.firstOf(1, 1)
	p.do(func(c *call) { p.encodeGiveBack(c, old) })
	if a := do(s, take(2)); a.ID != 1 {
		t.Fatalf("%+v", a)
	}
	p.do(func(c *call) { p.encodeGiveBack(c, old) }) // once more, late
	if a := do(s, take(3)); !a.NotFound {
		t.Errorf("given to a third one: %+v", a)
	}
	if a := do(s, move(tube.Delete, 2, 1)); a.Err != nil || a.NotFound {
		t.Errorf("the second one: %+v", a)
	}
}

// TestDueInManyPartitions: what is due in several partitions, which can all be on one Redis, is
// done in steps that together are no longer than those of one partition; and when nothing is
// due in the others, one partition has a whole step.
func TestDueInManyPartitions(t *testing.T) {
	const of, each, more, delay = 16, 2 * maxMoves / 16, 2 * maxMoves, 5
	var ahead atomic.Int64
	s := openWith(t, Options{
		URL: redistest.Start(t).URL(), Partitions: of, Timeout: patient, tickPatience: patient,
		skew: func() time.Duration { return time.Duration(ahead.Load()) },
	})
	var ops []storage.Op
	for at, name := range oneTubeOfEach(of) {
		for range each + more*max(1-at, 0) {
			ops = append(ops, storage.Op{Kind: storage.Put, Tube: name, Delay: delay, TTR: 60})
		}
	}
	storage.DoWait(s, ops)
	ahead.Add(int64((delay + 1) * time.Second))
	var done []uint64
	for left := uint64(len(ops)); left > 0; {
		if _, err := s.Tick(); err != nil {
			t.Fatal(err)
		}
		now := figures(t, s).Delayed
		if done = append(done, left-now); now == left {
			t.Fatalf("a round has done nothing: %v", done)
		}
		left = now
	}
	if slices.Max(done) > maxMoves+of {
		t.Errorf("done in rounds of %v, want %d at most", done, maxMoves)
	}
	if slices.Max(done[1:]) < leastDue {
		t.Errorf("done in rounds of %v, want %d when one partition is left", done, leastDue)
	}
}

// oneTubeOfEach returns a tube of each partition, in the order of these.
func oneTubeOfEach(of int) []string {
	all := make([]string, of)
	for n, found := 0, 0; found < of; n++ {
		name := fmt.Sprint("tube", n)
		if at := schema.PartitionOf(name, of); all[at] == "" {
			all[at], found = name, found+1
		}
	}
	return all
}
