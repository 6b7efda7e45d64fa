package embedded

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/ended"
	"redstalk/tube"
)

// endJobs puts n jobs into a tube, and finishes them with results of size bytes. It returns their ids.
func endJobs(t *testing.T, s storage.Store, name string, n, size int) (ids []uint64) {
	t.Helper()
	for range n {
		id := do(t, s, storage.Op{Kind: storage.Put, Tube: name, TTR: 60, Body: []byte("b")})[0].Answer.ID
		do(t, s, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{name}})
		do(t, s, storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: 1, ID: id, Args: &storage.Args{Data: make([]byte, size)}})
		ids = append(ids, id)
	}
	return ids
}

// endedIn returns the jobs of a tube's records, the newest first.
func endedIn(t *testing.T, s storage.Store, name string) (ids []uint64) {
	t.Helper()
	for cursor := ""; ; {
		r := do(t, s, storage.Op{Kind: storage.ListEnded, Tube: name, MaxJobs: 7, Args: &storage.Args{Cursor: cursor}})[0].Answer.Result
		for _, e := range r.Ended {
			ids = append(ids, e.ID)
		}
		if cursor = r.Cursor; cursor == "" {
			return ids
		}
	}
}

func setKeep(t *testing.T, s storage.Store, name string, keep time.Duration, bytes uint64) {
	t.Helper()
	p := &tube.Policy{KeepBytes: bytes, HasKeepBytes: true, Rules: tube.Rules{Keep: tube.LifetimeOf(keep)}}
	do(t, s, storage.Op{Kind: storage.SetPolicy, Tube: name, Args: &storage.Args{Policy: p}})
}

// TestEndedInTables: records get to the tables, within their bounds, and go from them when their time is over or a bound is lowered;
// after each step the newest are listed, and the keys agree.
func TestEndedInTables(t *testing.T) {
	d := newDisk()
	d.segment = crashSegment
	o := d.options(t)
	e := mustOpen(t, o)
	const size, bound = 1000, 100 << 10
	check := func(what string, name string, all []uint64, most int) {
		t.Helper()
		got := endedIn(t, e, name)
		want := slices.Clone(all[max(len(all)-len(got), 0):])
		slices.Reverse(want)
		if !slices.Equal(got, want) || len(got)*size > most {
			t.Fatalf("%s: %d records of %s of at most %d bytes, the newest of all: %v", what, len(got), name, most, slices.Equal(got, want))
		}
		if faults := faultsOf(e); len(faults) > 0 {
			t.Fatalf("%s: %q", what, faults)
		}
	}
	settle := func() {
		t.Helper()
		fillSegment(t, e)
		eventually(t, "the tables to catch up", func() bool { oldest, current := segments(e); return oldest == current })
	}
	setKeep(t, e, "a", time.Hour, bound)
	setKeep(t, e, "b", 2*time.Hour, bound)
	a, b := endJobs(t, e, "a", 300, size), endJobs(t, e, "b", 60, size)
	check("in the log or the tables", "a", a, 2*bound)
	settle()
	check("in the tables", "a", a, bound)
	check("in the tables", "b", b, bound)
	if s := do(t, e, storage.Op{Kind: storage.Stats})[0].Answer.Stats; s.Ended != uint64(len(endedIn(t, e, "a"))+60) || s.EndedBytes > 2*bound {
		t.Errorf("the store has %d records with %d bytes", s.Ended, s.EndedBytes)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	o.HistoryBytes = bound
	e = mustOpen(t, o)
	for e.sweepEnded() {
	}
	if n := len(endedIn(t, e, "a")) + len(endedIn(t, e, "b")); n*size > bound || n*size < bound*8/10 || len(endedIn(t, e, "b")) != 60 {
		t.Errorf("with a bound of all records there are %d, %d of them of b", n, len(endedIn(t, e, "b")))
	}
	check("with a bound of all", "a", a, bound)
	d.clock.advance(90 * time.Minute)
	check("when the time of some is over", "a", a, 0)
	for e.sweepEnded() {
	}
	check("when the time of some is over", "b", b, bound)
	setKeep(t, e, "b", 2*time.Hour, 0)
	for e.sweepEnded() {
	}
	check("with a bound of 0", "b", b, 0)
	if s := do(t, e, storage.Op{Kind: storage.Stats})[0].Answer.Stats; s.Ended != 0 || s.EndedBytes != 0 {
		t.Errorf("the store has %d records with %d bytes", s.Ended, s.EndedBytes)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEndedSurvivePower: no acknowledged record is lost or doubled when the power goes while windows are written.
func TestEndedSurvivePower(t *testing.T) {
	d := newDisk()
	d.segment = crashSegment
	rng := rand.New(rand.NewPCG(1, 2))
	var all []uint64
	for round := range 12 {
		e := mustOpen(t, d.options(t))
		if round == 0 {
			setKeep(t, e, "a", time.Hour, 1<<30)
		}
		if got := endedIn(t, e, "a"); len(got) != len(all) || len(all) > 0 && got[0] != all[len(all)-1] {
			t.Fatalf("round %d: %d records, want %d", round, len(got), len(all))
		}
		all = append(all, endJobs(t, e, "a", 20+rng.IntN(120), rng.IntN(3000))...)
		if round%3 == 0 {
			d.clock.advance(time.Second)
			e.sweepEnded()
		}
		d.cutPower(e)
	}
	e := mustOpen(t, d.options(t))
	if faults := faultsOf(e); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
	e.Close()
}

// TestListEndedInParts: a page is found in small parts, though there are many records whose time is over behind one that is kept longer.
func TestListEndedInParts(t *testing.T) {
	clock := newFakeClock()
	e := newEngine(clock.now)
	setKeep(t, e, "a", time.Hour, 1<<30)
	first := endJobs(t, e, "a", 3, 10)
	setKeep(t, e, "a", time.Second, 1<<30)
	endJobs(t, e, "a", 5*partWork, 10)
	clock.advance(time.Minute)

	op, p, parts := storage.Op{Kind: storage.ListEnded, Tube: "a", MaxJobs: 2}, progress{}, 1
	for e.budget, e.fullBudget = partWork, partWork; !e.apply(e.now(), &storage.Batch{}, &op, &p); parts++ {
		e.budget = partWork
	}
	if parts < 5 || len(op.Answer.Result.Ended) != 2 {
		t.Errorf("%d records in %d parts", len(op.Answer.Result.Ended), parts)
	}
	slices.Reverse(first)
	if got := endedIn(t, e, "a"); !slices.Equal(got, first) {
		t.Errorf("jobs %v are listed, want %v", got, first)
	}
}

// TestEndedTrimmedInParts: an end drops few records, also if very many are beyond a bound that was lowered, or their time is over; ticks drop them.
func TestEndedTrimmedInParts(t *testing.T) {
	for what, exceed := range map[string]func(t *testing.T, e *Engine, clock *fakeClock){
		"bound": func(t *testing.T, e *Engine, _ *fakeClock) { setKeep(t, e, "a", time.Hour, 1000) },
		"time":  func(_ *testing.T, _ *Engine, clock *fakeClock) { clock.advance(2 * time.Hour) },
	} {
		t.Run(what, func(t *testing.T) {
			clock := newFakeClock()
			e := newEngine(clock.now)
			setKeep(t, e, "a", time.Hour, 1<<30)
			const many = 2*trimLimit + 1000
			endJobs(t, e, "a", many, 0)
			exceed(t, e, clock)
			endJobs(t, e, "a", 10, 0)
			if n := e.ends.recent.Len(); n < many-10 || n >= many {
				t.Errorf("of %d records %d are left after ten ends", many, n)
			}
			clock.advance(time.Second)
			if _, err := e.Tick(); err != nil || e.ends.recent.Len() > 10 {
				t.Errorf("%d are left after a tick (%v)", e.ends.recent.Len(), err)
			}
		})
	}
}

// memoryTest is records in memory, and a list of what they have to be.
type memoryTest struct {
	*testing.T
	rng  *rand.Rand
	m    ended.Memory
	list []*tube.Ended
	seq  uint64
}

// TestEndedMemory compares the records in memory with a list of them.
func TestEndedMemory(t *testing.T) {
	b := &memoryTest{T: t, rng: rand.New(rand.NewPCG(3, 4))}
	for range 6000 {
		switch b.rng.IntN(40) {
		case 0:
			b.trim()
		case 1:
			most := uint64(b.rng.IntN(800_000))
			b.m.TrimAll(most)
			trimModel(&b.list, func(*tube.Ended) bool { return true }, func(_ *tube.Ended, size uint64) bool { return size > most })
		case 2:
			b.dropUpTo()
		default:
			b.add()
		}
		b.check()
	}
}

func (b *memoryTest) add() {
	b.seq++
	e := &tube.Ended{
		Seq: b.seq, ID: b.seq, Tube: fmt.Sprint("t", b.rng.IntN(4)), Batch: []string{"", "", "b", "c"}[b.rng.IntN(4)], Key: strconv.Itoa(b.rng.IntN(100)), How: tube.Done,
		Until: tube.Instant(1000+b.rng.IntN(1000)) * tube.Instant(time.Millisecond),
	}
	if b.rng.IntN(3) == 0 {
		e.Result = make([]byte, 1+b.rng.IntN(5000))
	}
	b.list = append(b.list, e)
	b.m.Add(e)
}

func (b *memoryTest) trim() {
	name, most, now := fmt.Sprint("t", b.rng.IntN(4)), uint64(b.rng.IntN(200_000)), tube.Instant(b.rng.IntN(2000))*tube.Instant(time.Millisecond)
	b.m.Trim(name, now, most, 1<<30)
	trimModel(&b.list, func(e *tube.Ended) bool { return e.Tube == name }, func(e *tube.Ended, size uint64) bool { return size > most || e.Until <= now })
}

func (b *memoryTest) dropUpTo() {
	b.Helper()
	upTo, n, read := b.seq-min(b.seq, uint64(b.rng.IntN(3000))), len(b.list), 0
	for _, r := range b.m.UpTo(upTo) {
		r.Records(func(ended.Head, []byte) { read++ })
	}
	b.list = slices.DeleteFunc(b.list, func(e *tube.Ended) bool { return e.Seq <= upTo })
	if b.m.DropUpTo(upTo); read != n-len(b.list) {
		b.Fatalf("%d records up to %d, want %d", read, upTo, n-len(b.list))
	}
}

// check compares what there is, a random list, and a random record.
func (b *memoryTest) check() {
	b.Helper()
	var size uint64
	for _, e := range b.list {
		size += uint64(e.Bytes())
	}
	if b.m.Len() != len(b.list) || b.m.Bytes() != size {
		b.Fatalf("%d records with %d bytes, want %d with %d", b.m.Len(), b.m.Bytes(), len(b.list), size)
	}
	name, batch, before := fmt.Sprint("t", b.rng.IntN(4)), []string{"", "b", "c"}[b.rng.IntN(3)], uint64(b.rng.IntN(int(b.seq)+2))
	var want []*tube.Ended
	for _, e := range slices.Backward(b.list) {
		if e.Seq < before && (batch == "" && e.Tube == name || batch != "" && e.Batch == batch) {
			want = append(want, e)
		}
	}
	n, same := 0, 0
	b.m.List(name, batch, before, func(e *tube.Ended) bool {
		if n < len(want) && reflect.DeepEqual(e, want[n]) {
			same++
		}
		n++
		return true
	})
	if n != len(want) || same != n {
		b.Fatalf("of %s, %q before %d: %d records, %d as they have to be, want %d", name, batch, before, n, same, len(want))
	}
	id := uint64(b.rng.IntN(int(b.seq) + 2))
	if (b.m.Get(id) != nil) != slices.ContainsFunc(b.list, func(e *tube.Ended) bool { return e.ID == id }) {
		b.Fatalf("the record of job %d is there: %v", id, b.m.Get(id) != nil)
	}
}

// trimModel drops the oldest records that are meant while over says so; size is how many bytes they all have.
func trimModel(list *[]*tube.Ended, meant func(*tube.Ended) bool, over func(oldest *tube.Ended, size uint64) bool) {
	for {
		var oldest *tube.Ended
		size := uint64(0)
		for _, e := range *list {
			if meant(e) {
				if oldest == nil {
					oldest = e
				}
				size += uint64(e.Bytes())
			}
		}
		if oldest == nil || !over(oldest, size) {
			return
		}
		*list = slices.DeleteFunc(*list, func(e *tube.Ended) bool { return e == oldest })
	}
}
