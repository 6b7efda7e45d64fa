package storetest

import (
	"bytes"
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

func testIDs(b *harness) {
	for want := uint64(1); want <= 3; want++ {
		if id := b.put("t", 0); id != want {
			b.Fatalf("put job %d, want %d", id, want)
		}
	}
	b.must(tube.Delete, 1, 3)
	if id := b.put("t", 0); id != 4 {
		b.Fatalf("id %d was used after 3 was deleted, want 4", id)
	}
}

func testBodies(b *harness) {
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

func testReadyOrder(b *harness) {
	low1, high1, low2, high2, top := b.put("t", 9), b.put("t", 5), b.put("t", 9), b.put("t", 5), b.put("t", 4294967295)
	if head := b.head("t", tube.Ready); head != high1 {
		b.Errorf("head of ready is %d, want %d", head, high1)
	}
	b.wantTake(1, "t", high1, high2, low1, low2, top)
	// A released job returns to the position of its id.
	for _, id := range []uint64{low2, high2, low1} {
		if !b.move(tube.Release, 1, id, 7, 0) {
			b.Fatalf("job %d was not released", id)
		}
	}
	b.wantTake(1, "t", low1, low2, high2)
}

func testSeveralTubes(b *harness) {
	b1, a1, c1 := b.put("b", 5), b.put("a", 5), b.put("c", 4)
	for _, want := range []uint64{c1, b1, a1, 0} {
		if got := b.take(1, "a", "nothing", "b", "c"); got != want {
			b.Fatalf("took %d, want %d", got, want)
		}
	}
}

// testTakeWithin: a take with MaxBytes gets the first job or none, from one tube and from several.
func testTakeWithin(b *harness) {
	short, long := b.putWith("a", 1, 0, 60, "short"), b.putWith("b", 2, 0, 60, "longer")
	b.putWith("c", 3, 0, 60, "x")
	for _, c := range []struct {
		tubes []string
		bytes uint32
		want  uint64
	}{{[]string{"a"}, 4, 0}, {[]string{"a", "b", "c"}, 4, 0}, {[]string{"c", "b", "a"}, 5, short}, {[]string{"b"}, 5, 0}, {[]string{"b", "c"}, 5, 0}, {[]string{"b", "c"}, 6, long}} {
		op := storage.Op{Kind: storage.Take, Holder: 1, Tubes: c.tubes, MaxBytes: c.bytes}
		if a := b.do(op); a.ID != c.want || a.NotFound != (c.want == 0) {
			b.Fatalf("from %v within %d: %+v, want job %d", c.tubes, c.bytes, a, c.want)
		}
		if c.want != 0 {
			b.move(tube.Release, 1, c.want, b.job(c.want).Pri, 0)
		}
		op.Holder = tube.LeaseHolder
		a := b.do(op)
		if a.ID != c.want || a.NotFound != (c.want == 0) {
			b.Fatalf("leased from %v within %d: %+v, want job %d", c.tubes, c.bytes, a, c.want)
		}
	}
	ops := b.batch(storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"c"}, MaxBytes: 1}, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"c"}, MaxBytes: 1})
	if string(ops[0].Answer.Body) != "x" || !ops[1].Answer.NotFound || ops[1].Answer.Soon > time.Minute {
		b.Errorf("%+v, %+v", ops[0].Answer, ops[1].Answer)
	}
}

// testTakeFirst: a take with First gets the best job of the first tube that has one, whatever the
// priorities, with and without a lease and a limit for the body.
func testTakeFirst(b *harness) {
	low, best, other := b.putWith("a", 9, 0, 60, "low"), b.putWith("a", 5, 0, 60, "best"), b.putWith("b", 0, 0, 60, "other")
	for _, c := range []struct {
		tubes []string
		bytes uint32
		want  uint64
	}{
		{[]string{"none", "a", "b"}, 0, best}, {[]string{"b", "a", "none"}, 0, other}, {[]string{"a", "b"}, 4, best}, {[]string{"b", "a"}, 4, 0},
		{[]string{"none", "nothing"}, 0, 0}, {[]string{"a"}, 0, best}, {manyNames(600, "a", "b"), 0, best}, {manyNames(600, "b", "a"), 0, other},
	} {
		for _, holder := range []tube.Holder{1, tube.LeaseHolder} {
			a := b.do(storage.Op{Kind: storage.Take, Holder: holder, Tubes: c.tubes, First: true, MaxBytes: c.bytes})
			if a.ID != c.want || a.NotFound != (c.want == 0) {
				b.Fatalf("from %v within %d: %+v, want job %d", c.tubes[:min(len(c.tubes), 3)], c.bytes, a, c.want)
			}
			if c.want != 0 {
				b.giveBackTaken(holder, &a)
			}
		}
	}
	b.do(storage.Op{Kind: storage.Pause, Tube: "a", Delay: 60})
	if a := b.do(storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"a", "b"}, First: true}); a.ID != other {
		b.Errorf("beside a paused tube: %+v, want job %d", a, other)
	}
	if got := b.job(low).State; got != tube.Ready {
		b.Errorf("a job that nobody took is %v", got)
	}
}

// giveBackTaken makes a job ready again that a take has reserved.
func (b *harness) giveBackTaken(holder tube.Holder, a *storage.Answer) {
	op := storage.Op{Kind: storage.Move, Move: tube.GiveBack, Holder: holder, ID: a.ID}
	if a.Result != nil {
		op.Args = &storage.Args{Lease: a.Result.Lease}
	}
	b.do(op)
}

// manyNames returns so many names of tubes that do not exist, and then those of last.
func manyNames(n int, last ...string) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("none-%d", i))
	}
	return append(names, last...)
}

func testDelayedOrder(b *harness) {
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
	b.wantTake(1, "t", second, early) // both are ready now, in the order of priority
	b.advance(10 * time.Second)
	b.wantTake(1, "t", late)
	if s := b.job(late); s.Delay != 20 || s.TTR != 60 || s.Counters != (tube.Counters{tube.Reserves: 1}) {
		b.Errorf("after its delay: %+v", s)
	}
}

func testBuriedOrder(b *harness) {
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
	b.wantTake(1, "t", ids[0], ids[1]) // in the order of the priorities set by bury
}

func testUnknownIDs(b *harness) {
	b.put("t", 0)
	for _, id := range []uint64{0, 2, 1<<53 - 1, 1 << 53, 1<<64 - 1} {
		for m := range tube.Expire {
			if m != tube.Reserve && b.move(m, 1, id, 0, 0) {
				b.Errorf("%v of job %d succeeded", m, id)
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
