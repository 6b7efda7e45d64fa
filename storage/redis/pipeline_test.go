package redis

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// poller submits operations as a loop does: one first, and a few others whenever it is polled,
// each as the batch of another connection.
type poller struct {
	t       *testing.T
	s       *Store
	ops     []storage.Op
	next    int
	pending atomic.Int64 // handed over and not answered
	early   int          // handed over while others were pending
}

func (c *poller) submit(poll func(read bool) int) {
	op := &storage.Batch{Ops: c.ops[c.next : c.next+1]}
	c.next++
	op.Done = func() { c.pending.Add(-1) }
	c.pending.Add(1)
	if poll == nil {
		c.s.Do(op)
	} else {
		c.s.DoPolling(poll, op)
	}
}

func (c *poller) more(bool) int {
	n := min(3, len(c.ops)-c.next)
	for range n {
		if c.pending.Load() > 0 {
			c.early++
		}
		c.submit(nil)
	}
	return n
}

// do carries out the operations, and returns their answers.
func (c *poller) do(ops []storage.Op) []storage.Op {
	c.t.Helper()
	c.ops, c.next, c.early = ops, 0, 0
	for c.next < len(ops) {
		c.submit(c.more)
	}
	for limit := time.Now().Add(patient); c.pending.Load() > 0; {
		if time.Now().After(limit) {
			c.t.Fatalf("%d of %d operations are not answered", c.pending.Load(), len(ops))
		}
		time.Sleep(time.Millisecond)
	}
	for i := range ops {
		if a := &ops[i].Answer; a.Err != nil || a.NotFound {
			c.t.Fatalf("%v %d: %+v", ops[i].Kind, i, a)
		}
	}
	return ops
}

// TestOverlap encodes calls while others are under way, of which one breaks: each operation is
// carried out once.
func TestOverlap(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(*redistest.Proxy){"never": func(*redistest.Proxy) {}}
	for name, brk := range breaksInCalls(3) {
		breaks[name] = brk
	}
	for name, brk := range breaks {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.Start(t))
			c := &poller{t: t, s: openAt(t, proxy.URL(), patient)}
			const n = 40
			var puts, takes, deletes []storage.Op
			for range n {
				puts = append(puts, put("body"))
			}
			brk(proxy)
			c.do(puts)
			if name == "never" && c.early < n/2 {
				t.Errorf("only %d of %d puts were handed over while others were under way", c.early, n)
			}
			seen := make(map[uint64]bool)
			for i := range n {
				takes = append(takes, take(tube.Holder(i+1)))
			}
			brk(proxy)
			for i, op := range c.do(takes) {
				seen[op.Answer.ID] = true
				deletes = append(deletes, move(tube.Delete, tube.Holder(i+1), op.Answer.ID))
			}
			if len(seen) != n {
				t.Errorf("%d of %d jobs were taken", len(seen), n)
			}
			brk(proxy)
			c.do(deletes)
			proxy.Intercept(nil, nil)
			if got := figures(t, c.s); got.Jobs != n || got.Ready+got.Reserved+got.Delayed+got.Buried != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// breaksInCalls are the moments at which the n-th of the following calls can
// break.
func breaksInCalls(n int64) map[string]func(*redistest.Proxy) {
	return map[string]func(*redistest.Proxy){
		"in the request":     func(p *redistest.Proxy) { p.Intercept(once(redistest.Cut, n, isCall), nil) },
		"behind the request": func(p *redistest.Proxy) { p.Intercept(once(redistest.Last, n, isCall), nil) },
		"before the answer":  func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Cut, n, isAnswer)) },
		"no answer":          func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Drop, n, isAnswer)) },
	}
}

// TestBackgroundWorkIsAlone: what expires in a tick is no longer held, which a call that is encoded
// before the reply would not know. So none is encoded while the call under way has background
// work in it.
func TestBackgroundWorkIsAlone(t *testing.T) {
	p := openAt(t, redistest.Start(t).URL(), patient).parts[0]
	answered := false
	batch := &storage.Batch{Ops: []storage.Op{put("x")}, Done: func() { answered = true }}
	for _, test := range []struct {
		name  string
		first *unit
		alone bool
	}{
		{"a batch", &unit{batch: batch}, false},
		{"a job that is taken back", &unit{batch: &storage.Batch{Ops: []storage.Op{move(tube.Expire, 0, 1)}, Done: func() { answered = true }}}, true},
		{"background work", &unit{background: p.encodeTick, after: func(error) { answered = true }}, true},
	} {
		answered = false
		handed, early := false, false
		p.submitPolling(func(bool) int {
			if handed {
				return 0
			}
			handed = true
			p.submit(&unit{background: func(*call) { early = !answered }})
			return 1
		}, test.first)
		if !handed || early == test.alone {
			t.Errorf("behind %s: handed over %v, put together before its answer %v", test.name, handed, early)
		}
	}
}

// TestTakenBackMeanwhile: whoever takes a job back does not wait for its holder, whose next command can be in the same call as the
// taking back, or come while that is under way. Exactly one of the two wins.
func TestTakenBackMeanwhile(t *testing.T) {
	s := openAt(t, redistest.Start(t).URL(), patient)
	for _, late := range []storage.Op{
		move(tube.Delete, 1, 0), move(tube.Release, 1, 0), move(tube.Bury, 1, 0), move(tube.Touch, 1, 0), {Kind: storage.ReleaseAll, Holder: 1},
	} {
		for _, together := range []bool{true, false} {
			id := do(s, put("x")).ID
			do(s, move(tube.ReserveJob, 1, id))
			late.ID = id
			takeBack, again, other := move(tube.Expire, 0, id), move(tube.ReserveJob, 2, id), put("y")
			first, then := &takeBack, []*storage.Op{&again, &late}
			if together {
				first, then = &other, []*storage.Op{&takeBack, &again, &late}
			}
			doMeanwhile(t, s, first, then)
			if takeBack.Answer.NotFound || again.Answer.NotFound || late.Kind == storage.Move && !late.Answer.NotFound {
				t.Errorf("not found: taking back %v, reserving again %v, a late %v %v", takeBack.Answer.NotFound, again.Answer.NotFound, late.Move, late.Answer.NotFound)
			}
			if do(s, move(tube.Touch, 2, id)).NotFound || do(s, move(tube.Delete, 2, id)).NotFound {
				t.Errorf("a late %v %v: the next holder has lost the job", late.Kind, late.Move)
			}
			do(s, storage.Op{Kind: storage.Flush, Tube: "t"})
			if got := figures(t, s); got.Ready+got.Urgent+got.Reserved+got.Buried != 0 {
				t.Fatalf("after a late %v %v: %+v", late.Kind, late.Move, got)
			}
		}
	}
}

// doMeanwhile carries out an operation, and others that come while its call is under way, each as the batch of another connection.
func doMeanwhile(t *testing.T, s *Store, first *storage.Op, then []*storage.Op) {
	t.Helper()
	answered := make(chan struct{}, 1+len(then))
	batches := make([]*storage.Batch, len(then))
	submit := func(op *storage.Op) *storage.Batch {
		return &storage.Batch{Ops: []storage.Op{*op}, Done: func() { answered <- struct{}{} }}
	}
	begin := submit(first)
	s.DoPolling(func(bool) int {
		if batches[0] != nil {
			return 0
		}
		for i, op := range then {
			batches[i] = submit(op)
			s.Do(batches[i])
		}
		return len(then)
	}, begin)
	for range 1 + len(then) {
		select {
		case <-answered:
		case <-time.After(patient):
			t.Fatal("no answer")
		}
	}
	*first = begin.Ops[0]
	for i := range then {
		*then[i] = batches[i].Ops[0]
	}
}

// TestFewWait: a few operations that came while a call was under way wait for the next
// operations of the clients of that call.
func TestFewWait(t *testing.T) {
	server := redistest.Start(t)
	s, client := openAt(t, server.URL(), patient), server.Client(t)
	do(s, put("first"))
	calls := func() (n int) {
		_, stats, _ := strings.Cut(client.Info(context.Background(), "commandstats").Val(), "cmdstat_evalsha:calls=")
		fmt.Sscan(strings.SplitN(stats, ",", 2)[0], &n)
		return n
	}
	var answered, inTime atomic.Int64
	many := &storage.Batch{Ops: make([]storage.Op, 40), Done: func() { answered.Add(1) }}
	for i := range many.Ops {
		many.Ops[i] = put("many")
	}
	comes := []int{1, 5} // when first asked for more, and then
	before := calls()
	s.DoPolling(func(bool) (n int) {
		if len(comes) > 0 {
			n, comes = comes[0], comes[1:]
			inTime.Store(answered.Load())
		}
		for range n {
			s.Do(&storage.Batch{Ops: []storage.Op{put("few")}, Done: func() { answered.Add(1) }})
		}
		return n
	}, many)
	for limit := time.Now().Add(patient); answered.Load() < 7; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d of 7 batches were answered", answered.Load())
		}
	}
	if got := calls() - before; got != 2 {
		t.Errorf("%d calls, want one for the first and one for all that came later", got)
	}
	if inTime.Load() != 1 {
		t.Error("the first were not answered before the last came")
	}
	if got := figures(t, s); got.Ready != 47 {
		t.Errorf("%+v", got)
	}
}
