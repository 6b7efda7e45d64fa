package redis

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestStretches: which operations can be under way together. An operation is a letter and its
// partitions: put, take, read, ref ("attend"); ReleaseAll ("Leave") is all of them.
func TestStretches(t *testing.T) {
	for script, want := range map[string]string{
		"p0 p0 t0 r0":          "[p0 p0 t0 r0]",
		"p0 p1 p1 p0":          "[p0] [p1 p1] [p0]",
		"a0 a1 p1 p0":          "[a0; a1 p1] [p0]",
		"p1 a0 p1 a1 p1":       "[p1 p1 a1 p1; a0]",
		"a0 a1 a2":             "[a0; a1; a2]",
		"a01 p1":               "[a0; a1 p1]",
		"r0 r1 r0 p0":          "[r0 r0; r1] [p0]",
		"r0 p0 r1":             "[r0 p0] [r1]",
		"p0 r1":                "[p0] [r1]",
		"t0 t1 t0 t2":          "[t0 t0; t1; t2]",
		"t0 t1 r1":             "[t0; t1] [r1]",
		"t0 r0 t1":             "[t0 r0] [t1]",
		"p0 t01 p1":            "[p0] t01 [p1]",
		"L a0 a0":              "L [a0 a0]",
		"a3 p3 a2 p2 a1 r1 r2": "[a3 p3; a2] [p2; a1] [r1; r2]",
	} {
		if got := planned(script); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// planned goes through the stretches of a script in four partitions.
func planned(script string) string {
	s := &Store{}
	for range 4 {
		s.parts = append(s.parts, &partition{holdings: newHoldings(true)})
	}
	words := strings.Fields(script)
	var ops []storage.Op
	for _, word := range words {
		ops = append(ops, opOf(word))
	}
	trip, said := &trip{store: s, batch: &storage.Batch{Ops: ops}}, []string{}
	for trip.next < len(ops) {
		if op := &ops[trip.next]; partitionOfOp(op, 4) == several && op.Kind != storage.Ref {
			said = append(said, words[trip.next])
			trip.next++
			continue
		}
		first := trip.next
		var legs []string
		for _, l := range trip.nextLegs() {
			var names []string
			for i := range l.ops {
				from := first + i
				if l.from != nil {
					from = l.from[i]
				}
				names = append(names, fmt.Sprintf("%c%d", words[from][0], l.partition))
			}
			legs = append(legs, strings.Join(names, " "))
		}
		said = append(said, "["+strings.Join(legs, "; ")+"]")
	}
	return strings.Join(said, " ")
}

// TestBeginsToFail: a trip continues with its next operation even if that partition has begun
// to fail since it was examined, and leaves later operations that may wait.
func TestBeginsToFail(t *testing.T) {
	s := &Store{}
	for range 4 {
		s.parts = append(s.parts, &partition{holdings: newHoldings(true)})
	}
	ops := []storage.Op{opOf("t1"), opOf("t2"), opOf("t1")}
	for i := range ops {
		ops[i].Wait = true
	}
	s.parts[1].failing.Store(true)
	trip := &trip{store: s, batch: &storage.Batch{Ops: ops}}
	legs := trip.nextLegs()
	if len(legs) != 2 || legs[0].partition != 1 || len(legs[0].ops) != 1 || legs[1].partition != 2 || trip.next != 2 {
		t.Errorf("%d legs, and then operation %d", len(legs), trip.next)
	}
}

// opOf returns the operation that a word of a script stands for.
func opOf(word string) storage.Op {
	kinds := map[byte]storage.Kind{'p': storage.Put, 't': storage.Take, 'r': storage.TubeStats, 'a': storage.Ref, 'L': storage.ReleaseAll}
	op := storage.Op{Kind: kinds[word[0]]}
	for _, digit := range word[1:] {
		op.Tube = tubeIn(int(digit-'0'), 4)
		op.Tubes = append(op.Tubes, op.Tube)
	}
	return op
}

// openPartitioned opens a store with as many partitions as a cluster has.
func openPartitioned(t *testing.T, url string, l storage.Listener) *Store {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := Open(context.Background(), Options{URL: url, Partitions: clusterPartitions, Timeout: patient, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s.Listen(l)
	t.Cleanup(func() { s.Close() })
	return s
}

// tubesInPartitions returns names of tubes, each in another partition.
func tubesInPartitions(n int) (names []string) {
	for p := range n {
		names = append(names, tubeIn(p, clusterPartitions))
	}
	return names
}

// TestOrderOverPartitions: jobs are taken by priority and then in the order in which they were
// put, whatever their tubes, and whichever instance put them.
func TestOrderOverPartitions(t *testing.T) {
	redis := redistest.Start(t)
	a, b := openPartitioned(t, redis.URL(), nopListener{}), openPartitioned(t, redis.URL(), nopListener{})
	names, rng := tubesInPartitions(6), rand.New(rand.NewPCG(1, 1))
	last, want := uint64(0), make(map[uint32][]uint64)
	for i := range 60 {
		pri, store := rng.Uint32N(3), a
		if i >= 30 {
			store = b
		}
		if i == 30 { // b hears of a's ids with its next heartbeat
			if err := b.each(func(p *partition) error { return p.do(p.encodeHeartbeat) }); err != nil {
				t.Fatal(err)
			}
		}
		id := do(store, putIn(names[rng.IntN(len(names))], pri)).ID
		if id <= last {
			t.Errorf("job %d was put after job %d", id, last)
		}
		last, want[pri] = id, append(want[pri], id)
	}
	for pri := range uint32(3) {
		for _, id := range want[pri] {
			if got := do(b, takeFrom(1, false, names...)); got.ID != id {
				t.Fatalf("took job %d, want %d", got.ID, id)
			}
		}
	}
	if got := do(a, takeFrom(1, false, names...)); !got.NotFound || got.Err != nil {
		t.Errorf("one too many: %+v", got)
	}
}

// TestTakesTogether: takes of one batch from tubes of several partitions get the jobs in their
// order, and those that are left get none, whether they wait or have a size limit. If the next
// jobs are in one partition they cost one call there.
func TestTakesTogether(t *testing.T) {
	redis := redistest.Start(t)
	s, names, rng := openPartitioned(t, redis.URL(), nopListener{}), tubesInPartitions(4), rand.New(rand.NewPCG(2, 2))
	const jobs, takes = 60, 70
	batch := func(op storage.Op) []storage.Op {
		ops := slices.Repeat([]storage.Op{op}, takes)
		storage.DoWait(s, ops)
		return ops
	}
	long := takeFrom(1, false, names...)
	long.MaxBytes = 100
	for _, take := range []storage.Op{takeFrom(1, false, names...), takeFrom(2, true, names...), long} {
		want := make([][]uint64, 3)
		for range jobs {
			pri := rng.Uint32N(3)
			want[pri] = append(want[pri], do(s, putIn(names[rng.IntN(len(names))], pri)).ID)
		}
		order := slices.Concat(want...)
		for i, op := range batch(take) {
			if a := op.Answer; a.Err != nil || a.NotFound != (i >= jobs) || i < jobs && a.ID != order[i] {
				t.Errorf("take %d: %+v", i, a)
			}
		}
	}
	for range takes {
		do(s, putIn(names[2], 1))
	}
	before := scriptCalls(t, redis)
	batch(takeFrom(1, false, names...))
	if n := scriptCalls(t, redis) - before; n > takes/2 {
		t.Errorf("%d calls for %d takes", n, takes)
	}
}

// TestTakersOverPartitions: many clients of two instances take from tubes of several partitions
// while jobs are put: each job is taken once.
func TestTakersOverPartitions(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	stores := []*Store{openPartitioned(t, redis.URL(), nopListener{}), openPartitioned(t, redis.URL(), nopListener{})}
	names := tubesInPartitions(4)
	const takers, jobs = 6, 40
	taken := make(chan uint64, takers*jobs)
	var all sync.WaitGroup
	for n := range takers {
		s, h := stores[n%2], tube.Holder(n+1)
		all.Go(func() {
			for i := range jobs {
				if a := do(s, putIn(names[(n+i)%len(names)], uint32(i%3))); a.Err != nil {
					t.Error(a.Err)
				}
				if a := do(s, takeFrom(h, i%2 == 0, names...)); a.Err != nil {
					t.Error(a.Err)
				} else if !a.NotFound {
					taken <- a.ID
				}
			}
		})
	}
	all.Wait()
	rest := takeFrom(9, false, names...)
	for a := do(stores[0], rest); !a.NotFound; a = do(stores[0], rest) {
		taken <- a.ID
	}
	close(taken)
	seen := make(map[uint64]bool)
	for id := range taken {
		if seen[id] {
			t.Errorf("job %d was taken twice", id)
		}
		seen[id] = true
	}
	if len(seen) != takers*jobs {
		t.Errorf("%d jobs were taken, want %d", len(seen), takers*jobs)
	}
}

// TestManySearches: takes for many holders in one batch, like those of the dispatcher, from
// tubes of several partitions: the first ones in the batch get jobs, as long as there are any,
// and each gets a different one.
func TestManySearches(t *testing.T) {
	s, names := openPartitioned(t, redistest.Start(t).URL(), nopListener{}), tubesInPartitions(4)
	const jobs, takers = 30, 50
	for i := range jobs {
		do(s, putIn(names[i%len(names)], uint32(i%2)))
	}
	var ops []storage.Op
	for h := range tube.Holder(takers) {
		ops = append(ops, takeFrom(h+1, true, names...))
	}
	storage.DoWait(s, ops)
	seen := make(map[uint64]bool)
	for i, op := range ops {
		if a := op.Answer; a.Err != nil || a.NotFound != (i >= jobs) || seen[a.ID] {
			t.Errorf("take %d: %+v", i, a)
		} else if !a.NotFound {
			seen[a.ID] = true
		}
	}
}

// TestBrokenInPartitions breaks connections again and again while several clients put into
// tubes of many partitions and take from several: every acknowledged put exists once, and
// nothing stays reserved.
func TestBrokenInPartitions(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t))
	s, names := openPartitioned(t, proxy.URL(), nopListener{}), tubesInPartitions(clusterPartitions)
	const workers, each = 8, 16
	broken := make(chan struct{})
	var all sync.WaitGroup
	for w := range workers {
		h := tube.Holder(w + 1)
		all.Go(func() {
			for i := range each {
				body := storage.Op{Kind: storage.Put, Tube: names[(w+i)%len(names)], TTR: 600, Body: fmt.Append(nil, w, "/", i)}
				if a := do(s, body); a.Err != nil {
					t.Error(a.Err)
				}
				if a := do(s, takeFrom(h, i%2 == 0, names[i%8:i%8+5]...)); a.Err != nil {
					t.Error(a.Err)
				}
				if i%8 == 7 {
					do(s, storage.Op{Kind: storage.ReleaseAll, Holder: h})
				}
			}
			do(s, storage.Op{Kind: storage.ReleaseAll, Holder: h})
		})
	}
	go func() {
		all.Wait()
		close(broken)
	}()
	pause := busy.Times(5 * time.Millisecond) // or none would ever get through
	for n := 1; ; n++ {
		if n%20 == 0 {
			pause = busy.Times(5 * time.Millisecond)
		}
		select {
		case <-broken:
			checkAll(t, s, workers*each, names)
			return
		case <-time.After(pause):
			proxy.Intercept(once(redistest.Last, 2, isCall), once(redistest.Cut, 3, isAnswer))
			if n%4 == 0 {
				proxy.Break()
			}
		}
	}
}

// checkAll takes everything, and checks that it is what was put.
func checkAll(t *testing.T, s *Store, jobs int, names []string) {
	t.Helper()
	awaitReserved(t, s, 0)
	seen := make(map[string]bool)
	for {
		a := do(s, takeFrom(1, false, names...))
		if a.Err != nil || a.NotFound {
			break
		}
		if seen[string(a.Body)] {
			t.Errorf("job %s is there twice", a.Body)
		}
		seen[string(a.Body)] = true
	}
	if len(seen) != jobs {
		t.Errorf("%d jobs are there, want %d", len(seen), jobs)
	}
}

// wakeUpListener sends the tubes for which it is woken.
type wakeUpListener struct {
	nopListener
	woken chan string
}

func (e wakeUpListener) WakeUp(name string) bool {
	e.woken <- name
	return true
}

// TestWakeUpsOverPartitions: a client that waits for tubes of several partitions is woken for a
// job in any of them that another instance puts.
func TestWakeUpsOverPartitions(t *testing.T) {
	redis := redistest.Start(t)
	e := wakeUpListener{woken: make(chan string, 100)}
	a, b := openPartitioned(t, redis.URL(), nopListener{}), openPartitioned(t, redis.URL(), e)
	names := tubesInPartitions(5)
	for _, name := range names {
		if got := do(b, takeFrom(1, true, names...)); !got.NotFound {
			t.Fatalf("there is a job: %+v", got)
		}
		do(a, putIn(name, 0))
		for woken := ""; woken != name; {
			select {
			case woken = <-e.woken:
			case <-time.After(patient):
				t.Fatalf("nobody said that there is a job in %s", name)
			}
		}
		if got := do(b, takeFrom(1, true, names...)); string(got.Body) != name {
			t.Fatalf("%+v", got)
		}
	}
}

// TestSoonOverPartitions: what is held in one partition counts when a take from another finds
// nothing.
func TestSoonOverPartitions(t *testing.T) {
	s, names := openPartitioned(t, redistest.Start(t).URL(), nopListener{}), tubesInPartitions(3)
	do(s, storage.Op{Kind: storage.Put, Tube: names[0], TTR: 60})
	do(s, takeFrom(1, false, names[0]))
	for _, from := range [][]string{names[1:2], names[1:], names} {
		for _, wait := range []bool{false, true} {
			if a := do(s, takeFrom(1, wait, from...)); !a.NotFound || a.Soon > 59*time.Second || a.Soon < 40*time.Second {
				t.Errorf("from %v: %+v", from, a)
			}
			if a := do(s, takeFrom(2, wait, from...)); !a.NotFound || a.Soon != storage.Forever {
				t.Errorf("for somebody else, from %v: %+v", from, a)
			}
		}
	}
	do(s, storage.Op{Kind: storage.ReleaseAll, Holder: 1})
	if a := do(s, takeFrom(2, false, names...)); a.NotFound {
		t.Error("what was held was not given back")
	}
}

// TestSoonInOrder: a take that finds nothing returns the next deadline of what its holder has
// by then, in any partition, but not of what it gets later in the batch in another partition.
func TestSoonInOrder(t *testing.T) {
	s := openPartitioned(t, redistest.Start(t).URL(), nopListener{})
	with, without := tubeIn(1, clusterPartitions), tubeIn(2, clusterPartitions)
	for range 3 {
		op := putIn(with, 0)
		op.TTR = 100
		do(s, op)
	}
	ops := []storage.Op{takeFrom(1, false, without), takeFrom(1, false, with), takeFrom(1, false, without), takeFrom(2, false, without), takeFrom(1, false, with), takeFrom(2, false, with)}
	storage.DoWait(s, ops)
	if soon := ops[0].Answer.Soon; soon != storage.Forever {
		t.Errorf("before it had anything: %v", soon)
	}
	if soon := ops[2].Answer.Soon; soon > 100*time.Second {
		t.Errorf("when it had something: %v", soon)
	}
	if soon := ops[3].Answer.Soon; soon != storage.Forever {
		t.Errorf("another holder: %v", soon)
	}
	ops = []storage.Op{takeFrom(3, false, without), {Kind: storage.Move, Move: tube.ReserveJob, Holder: 3, ID: do(s, putIn(with, 0)).ID}}
	storage.DoWait(s, ops)
	if soon := ops[0].Answer.Soon; ops[1].Answer.NotFound || soon != storage.Forever {
		t.Errorf("before a job was reserved by its id: %v, %+v", soon, ops[1].Answer)
	}
}
