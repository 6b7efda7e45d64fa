package tube

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestArrows compares the table with the transitions of beanstalkd, written as a
// matrix. The rows are moves. The columns are: ready, delayed, buried, reserved by
// the caller, reserved by another holder. A dot is NOT_FOUND.
func TestArrows(t *testing.T) {
	want := map[Move][5]string{
		Reserve:        {"reserved+reserves", ".", ".", ".", "."},
		ReserveJob:     {"reserved+reserves", "reserved+reserves", "reserved+reserves", ".", "."},
		Seize:          {"reserved+reserves", "reserved+reserves", "reserved+reserves", ".", "."},
		Delete:         {"invalid", "invalid", "invalid", "invalid", "."},
		Finish:         {".", ".", ".", "invalid", "."},
		Release:        {".", ".", ".", "delayed+releases+pri+delay", "."},
		Bury:           {".", ".", ".", "buried+buries+pri", "."},
		Snooze:         {".", ".", ".", "delayed+releases+pri+delay", "."},
		Touch:          {".", ".", ".", "reserved", "."},
		SaveCheckpoint: {".", ".", ".", "reserved", "."},
		KickJob:        {".", "ready+kicks", "ready+kicks", ".", "."},
		Park:           {".", ".", ".", "buried", "."},
		Expire:         {".", ".", ".", "ready+timeouts", "ready+timeouts"},
		GiveBack:       {".", ".", ".", "ready", "."},
		Mature:         {".", "ready", ".", ".", "."},
		Withdraw:       {"invalid", "invalid", "invalid", ".", "."},
	}
	names := [NumCounters]string{"reserves", "timeouts", "releases", "buries", "kicks"}
	sets := [...]string{SetsNothing: "", SetsPri: "+pri", SetsPriAndDelay: "+pri+delay"}
	for move := range NumMoves {
		for column, state := range []State{Ready, Delayed, Buried, Reserved, Reserved} {
			got := "."
			if a := arrowAt[move][state]; a != nil && !(a.Held && column == 4) {
				got = a.To.String()
				if a.Counts != NoCounter {
					got += "+" + names[a.Counts]
				}
				got += sets[a.Sets]
			}
			if got != want[move][column] {
				t.Errorf("%v, column %d: %s, want %s", move, column, got, want[move][column])
			}
		}
	}
}

// Kick kicks up to limit jobs of a tube and returns how many.
func (m *Machine) Kick(now Instant, tube string, limit uint32) int {
	from, n := m.Kickable(tube)
	return m.KickSome(now, tube, from, min(int(limit), n), false)
}

// ReleaseAll makes all jobs that h holds ready.
func (m *Machine) ReleaseAll(now Instant, h Holder) { m.ReleaseSome(now, h, math.MaxInt) }

// check fails the test if the machine is inconsistent.
func (m *Machine) check(t testing.TB) {
	t.Helper()
	var sum Totals
	for id, r := range m.byID.all(t) {
		j := m.slab.at(r)
		if j.ID != id || j.self != r {
			t.Fatalf("job %d is not where it should be", id)
		}
		if where := m.whereIs(j); where != j.state {
			t.Fatalf("job %d is %v but is in the queue of %v jobs", j.ID, j.state, where)
		}
	}
	jobs := 0
	for i, tb := range m.order {
		if tb.index != i || m.tubes[tb.name] != tb {
			t.Fatalf("tube %s is not where it should be", tb.name)
		}
		sum.Ready += uint64(tb.in(Ready))
		sum.Delayed += uint64(tb.delayed.len())
		sum.Buried += uint64(tb.buried.len())
		sum.Reserved += uint64(tb.reserved)
		sum.Urgent += uint64(tb.urgent)
		jobs += tb.jobs
		m.checkTakeable(t, tb)
		m.checkLanes(t, tb)
	}
	takeable := 0
	for _, tb := range m.order {
		takeable += min(tb.takeableAt, 1)
	}
	if takeable != len(m.takeable) {
		t.Fatalf("%d tubes are takeable, and %d listed as such", takeable, len(m.takeable))
	}
	sum.Jobs, sum.Timeouts = m.totals.Jobs, m.totals.Timeouts
	if sum != m.totals || jobs != m.byID.len() {
		t.Fatalf("totals %+v of %d jobs, want %+v of %d", m.totals, jobs, sum, m.byID.len())
	}
	for i := range m.alarms.len() {
		if a := *m.alarms.at(i); int(a.pos) != i+1 {
			t.Fatalf("alarm %d has the index %d", i, a.pos-1)
		}
	}
}

// checkTakeable fails the test if a tube is wrongly in Machine.takeable, or is wrongly
// missing there.
func (m *Machine) checkTakeable(t testing.TB, tb *Tube) {
	t.Helper()
	want := tb.offers() && !tb.paused() && m.heldInTube(tb) == NotHeld
	if ok := tb.takeableAt > 0 && tb.takeableAt <= len(m.takeable) && m.takeable[tb.takeableAt-1] == tb; ok != want || !ok && tb.takeableAt != 0 {
		t.Fatalf("tube %s is at %d of %d takeable ones, want %v", tb.name, tb.takeableAt, len(m.takeable), want)
	}
}

// checkLanes fails the test if the lanes of a tube are inconsistent.
func (m *Machine) checkLanes(t testing.TB, tb *Tube) {
	t.Helper()
	ls := tb.lanes
	if ls == nil {
		return
	}
	counted := make(map[*lane]*[numStates]uint32)
	for _, r := range m.byID.all(t) {
		if j := m.slab.at(r); m.tubeOf(j) == tb {
			l := m.laneOf(j)
			if counted[l] == nil {
				counted[l] = new([numStates]uint32)
			}
			counted[l][j.state]++
		}
	}
	m.checkCounts(t, ls)
	live := 0
	for l := range ls.byName.all() {
		name := l.name
		n := counted[l]
		if n == nil || ls.byName.find(name, hashOf(name)) != l || l.tube != tb || m.handles.list[l.handle].lane != l {
			t.Fatalf("group %s of tube %s is not where it should be, or has no job", name, tb.name)
		}
		if l.jobs != n[Ready]+n[Delayed]+n[Reserved]+n[Buried] || uint32(l.ready.len()) != n[Ready] || l.delayed != n[Delayed] || l.reserved != n[Reserved] || l.buried != n[Buried] {
			t.Fatalf("group %s of tube %s counts %+v, want %v", name, tb.name, l, *n)
		}
		if l.live() {
			live++
		}
		m.checkEligible(t, l)
	}
	if m.checkEligible(t, &ls.plain); live != ls.live {
		t.Fatalf("%d groups of tube %s are live, %d counted", live, tb.name, ls.live)
	}
}

// checkCounts fails the test if what the lanes of a tube count for LimitStats is wrong.
func (m *Machine) checkCounts(t testing.TB, ls *lanes) {
	t.Helper()
	var held [LastHeld + 1]uint64
	full, busy := uint64(0), 0
	for l := range ls.byName.all() {
		why, isFull := m.limitLane(l)
		if why != NotHeld {
			held[why] += uint64(l.ready.len())
		}
		if isFull {
			full++
		}
		if l.reserved > 0 {
			busy++
			if at := l.counted.busy; at == 0 || ls.counts.busy[at-1] != l {
				t.Fatalf("group %s is at %d of the busy ones", l.name, at)
			}
		}
	}
	if c := &ls.counts; held != c.held || full != c.full || busy != len(c.busy) {
		t.Fatalf("counted %v held, %d full, %d busy, want %v, %d, %d", c.held, c.full, len(c.busy), held, full, busy)
	}
}

// checkEligible fails the test if a lane is wrongly eligible, or wrongly not.
func (m *Machine) checkEligible(t testing.TB, l *lane) {
	t.Helper()
	e := &l.tube.lanes.eligible
	want := m.next(l) != nil && m.heldInLane(l) == NotHeld
	inHeap := l.pos >= 0 && int(l.pos) < len(e.heap) && e.heap[l.pos].lane == l
	if ok := inHeap != e.lists(t, l); ok != want || inHeap != (l.pos >= 0) {
		t.Fatalf("group %q of tube %s is at %d of %d eligible ones, listed: %v, want %v", l.name, l.tube.name, l.pos, len(e.heap), l.listed, want)
	}
	if want && l.pos > 0 && e.heap[l.pos].before(&e.heap[(l.pos-1)/4]) {
		t.Fatalf("group %q of tube %s comes before its parent", l.name, l.tube.name)
	}
}

// lists returns whether the list has a lane, and fails the test if the list is not in order.
func (e *eligible) lists(t testing.TB, l *lane) (found bool) {
	t.Helper()
	var before *lane
	for at := e.first; at != nil; before, at = at, at.after {
		if at.before != before || !at.listed || at.reserved > 0 || before != nil && !before.place().before(at.place()) {
			t.Fatalf("group %q is wrong in the list", at.name)
		}
		found = found || at == l
	}
	if e.last != before || found != l.listed {
		t.Fatalf("the list does not end where it should, or group %q is listed: %v", l.name, l.listed)
	}
	return found
}

// whereIs returns the state of the queue that a job is in.
func (m *Machine) whereIs(j *Job) State {
	holds := func(q queue) bool {
		if j.place&inRing != 0 {
			return len(q.ring.slots) > 0 && *q.ring.at(j.pos) == j.self && j.pos-q.ring.from < q.ring.to-q.ring.from
		}
		return int(j.pos) < len(q.tree) && q.tree[j.pos] == j.self
	}
	tb := m.tubeOf(j)
	switch {
	case j.holder != 0 && holds(m.holdings[j.holder].jobs):
		return Reserved
	case m.isReadyIn(j, holds):
		return Ready
	case holds(tb.delayed):
		return Delayed
	case holds(tb.buried):
		return Buried
	}
	return Gone
}

// isReadyIn reports whether j is among the ready jobs of its tube, or of its lane.
func (m *Machine) isReadyIn(j *Job, holds func(queue) bool) bool {
	switch l := m.handles.list[j.tube].lane; {
	case l == nil:
		return holds(m.tubeOf(j).ready)
	case l.ready.many == nil:
		return l.ready.one == j.self
	default:
		return l.ready.one == 0 && holds(*l.ready.many)
	}
}

// FuzzMachine interprets the bytes as operations on a machine. It must never panic or become
// inconsistent.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("put and take and bury and kick"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Fuzz(func(t *testing.T, script []byte) {
		m, now := NewMachine(), Instant(time.Hour)
		for len(script) >= 3 {
			perform(m, &now, script[0], script[1], script[2])
			script = script[3:]
			m.check(t)
		}
	})
}

func perform(m *Machine, now *Instant, opcode, a, b byte) {
	name, holder, id := fmt.Sprint("t", a%3), Holder(b%3+1), uint64(a)%(m.lastID+2)
	switch opcode % 13 {
	case 0:
		m.Put(*now, NewJob{Tube: name, Pri: uint32(b) * 8, Delay: uint32(b % 4), TTR: uint32(a % 4)})
	case 1:
		m.Take(*now, holder, []string{name, "t0", Default})
	case 2, 3:
		m.Move(*now, ReserveJob+Move(opcode>>4)%NumMoves%(Expire-ReserveJob), holder, id, Terms{Pri: uint32(b), Delay: uint32(a % 3)})
	case 4:
		m.Kick(*now, name, uint32(b%4))
	case 5:
		m.ReleaseAll(*now, holder)
	case 6:
		*now += Instant(b) * Instant(20*time.Millisecond)
		m.Tick(*now, int(a))
	case 7:
		m.Pause(*now, name, uint32(b%3))
	case 8:
		m.refOrUnref(name, Role(a%2), b)
	case 9:
		from, jobs := m.Kickable(name)
		m.KickSome(*now, name, from, min(int(b%4), jobs), false)
	case 10:
		m.ReleaseSome(*now, holder, int(a%4))
	case 11:
		m.SetAside(*now, holder, id, "damaged")
	case 12:
		m.takeOfMany(*now, holder, int(a%32))
	}
}

// takeOfMany takes from a long list of names, twice, and panics if the job is not
// the one that a search of each tube finds.
func (m *Machine) takeOfMany(now Instant, h Holder, from int) {
	names := make([]string, 0, 2*FewTubes)
	for i := range cap(names) {
		names = append(names, fmt.Sprint("t", (from+i)%40))
	}
	for range 2 {
		var want uint64
		var best *Job
		for _, name := range names {
			if t := m.tubes[name]; t != nil && t.takeableAt != 0 {
				best = m.better(best, t)
			}
		}
		if best != nil {
			want = best.ID
		}
		j, _ := m.Take(now, h, names)
		if j == nil && want != 0 || j != nil && j.ID != want {
			panic(fmt.Sprintf("took %+v, want job %d", j, want))
		}
		m.Put(now, NewJob{Tube: names[0], Pri: 1})
	}
	m.ForgetWatched()
}

// refOrUnref adds a reference to a tube, or removes an existing one.
func (m *Machine) refOrUnref(name string, role Role, b byte) {
	t := m.tubes[name]
	switch {
	case b%2 == 0:
		m.Ref(name, role, 1)
	case t != nil && (role == Using && t.using > 0 || role == Watching && t.watching > 0):
		m.Ref(name, role, -1)
	}
}

func TestTickLimit(t *testing.T) {
	m := NewMachine()
	for range 10 {
		m.Put(0, NewJob{Tube: "t", Delay: 1})
	}
	now := Instant(2 * time.Second)
	if next := m.Tick(now, 4); next > now {
		t.Errorf("after a part of the ticks the next thing is due at %d, past now", next)
	}
	if got := m.Totals().Ready; got != 4 {
		t.Errorf("%d jobs are ready, want 4", got)
	}
	if next := m.Tick(now, 100); next != Never {
		t.Errorf("after all of them the next thing is due at %d", next)
	}
}

// TestParts checks that many parts of a kick or of a release of all jobs do the same as the whole.
func TestParts(t *testing.T) {
	for _, part := range []int{1, 3, 10, 1000} {
		m := NewMachine()
		for range 10 {
			m.Put(0, NewJob{Tube: "t", Delay: 9})
		}
		from, jobs := m.Kickable("t")
		for jobs > 0 {
			jobs -= m.KickSome(1, "t", from, min(part, jobs), false)
		}
		for range 10 {
			m.Take(1, 1, []string{"t"})
		}
		parts := 0
		for left := true; left; parts++ {
			var n int
			if n, left = m.ReleaseSome(1, 1, part); n > part {
				t.Errorf("%d jobs are given back at once, want %d at most", n, part)
			}
		}
		if got := m.Totals(); got.Ready != 10 || len(m.holdings) != 0 || parts < 10/part {
			t.Errorf("by %d: %+v, %d holders, in %d parts", part, got, len(m.holdings), parts)
		}
		m.check(t)
	}
}

// TestKickKeepsItsState checks that a part of a kick of buried jobs does not move delayed jobs
// after the last buried job.
func TestKickKeepsItsState(t *testing.T) {
	m := NewMachine()
	m.Put(0, NewJob{Tube: "t", Delay: 9})
	j := m.Put(0, NewJob{Tube: "t"})
	m.Take(0, 1, []string{"t"})
	m.Move(0, Bury, 1, j.ID, Terms{})
	from, jobs := m.Kickable("t")
	if from != Buried || jobs != 1 {
		t.Errorf("a kick would move %d %v jobs", jobs, from)
	}
	if a, b := m.KickSome(0, "t", from, 5, false), m.KickSome(0, "t", from, 5, false); a != 1 || b != 0 {
		t.Errorf("%d and %d jobs kicked", a, b)
	}
}

// TestTakeWork counts how many tubes a Take from very many examines.
func TestTakeWork(t *testing.T) {
	m := NewMachine()
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
		m.Ref(names[i], Watching, 1)
	}
	checkWork := func(what string, takes, want int) {
		t.Helper()
		count := func() uint64 { tubes, names := m.TakeWork(); return tubes + names }
		before := count()
		for range takes {
			m.Take(0, 1, names)
		}
		if got := int(count() - before); got > want {
			t.Errorf("%d takes %s examine %d tubes, want %d at most", takes, what, got, want)
		}
	}
	checkWork("from empty tubes", 1000, 0)
	m.Put(0, NewJob{Tube: "other"})
	checkWork("while another tube has a job", 1000, len(names)+1000)
	for range 10 {
		m.Put(0, NewJob{Tube: "t5000"})
	}
	checkWork("of ten jobs of one tube", 10, 20)
	m.ForgetWatched()
	m.Put(0, NewJob{Tube: "t1"})
	checkWork("of a list that may have changed", 1, len(names)+2)
	m.Pause(0, "other", 9)
	checkWork("while the only tube with a job is paused", 1000, 0)
}

// TestSetAside checks that a job that is set aside is buried, and no counter grows.
func TestSetAside(t *testing.T) {
	m := NewMachine()
	id := m.Put(0, NewJob{Tube: "t"}).ID
	m.Take(0, 1, []string{"t"})
	if m.SetAside(0, 2, id, "damaged") {
		t.Error("another holder's job was set aside")
	}
	if !m.SetAside(0, 1, id, "damaged") || m.SetAside(0, 1, id, "damaged") {
		t.Error("the job was not set aside exactly once")
	}
	s, _ := m.JobStats(0, id)
	if s.State != Buried || s.Counters != (Counters{Reserves: 1}) || s.Metadata.AllNotes().Reason != "damaged" {
		t.Errorf("set aside: %+v", s)
	}
	m.check(t)
}

// TestUntake: a take that is undone counts as no delivery, so no limit of deliveries is reached.
func TestUntake(t *testing.T) {
	m := NewMachine()
	m.SetPolicy("t", &Policy{Rules: Rules{Max: 1}})
	id := m.Put(0, NewJob{Tube: "t"}).ID
	for range 3 {
		if j, _ := m.Take(0, 1, []string{"t"}); j == nil {
			t.Fatal("the job is not ready")
		}
		m.Untake(0, 2, id)
		if s, _ := m.JobStats(0, id); s.State != Reserved {
			t.Errorf("undone for another holder: %+v", s)
		}
		m.Untake(0, 1, id)
		if s, _ := m.JobStats(0, id); s.State != Ready || s.Counters != (Counters{}) {
			t.Errorf("undone: %+v", s)
		}
		m.Untake(0, 1, id)
	}
	m.check(t)
}

func TestUntil(t *testing.T) {
	if got := Never.Until(-5); got != time.Duration(Never) {
		t.Errorf("until never: %v", got)
	}
	for wait, want := range map[time.Duration]Instant{time.Second: Instant(time.Second) + 100, time.Duration(Latest) - 100: Latest, time.Duration(Never): Latest} {
		if got := Instant(100).Plus(wait); got != want {
			t.Errorf("%v after instant 100 is %d, want %d", wait, got, want)
		}
	}
	if got := Instant(100).After(4294967295); got != 4294967295*Instant(time.Second)+100 {
		t.Errorf("after the most seconds: %d", got)
	}
}

func BenchmarkCycle(b *testing.B) {
	for _, backlog := range []int{1, 100_000} {
		b.Run(fmt.Sprint("backlog ", backlog), func(b *testing.B) {
			m, body := NewMachine(), make([]byte, 128)
			for range backlog {
				m.Put(0, NewJob{Tube: Default, TTR: 60, Body: body})
			}
			tubes := []string{Default}
			now := Instant(0)
			for b.Loop() {
				now++
				m.Put(now, NewJob{Tube: Default, TTR: 60, Body: body})
				j, _ := m.Take(now, 1, tubes)
				m.Move(now, Delete, 1, j.ID, Terms{})
				m.WakeUps(func(string) {})
			}
		})
	}
}
