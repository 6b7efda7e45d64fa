package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// makePending makes n dead letters pending for a tube of another partition. s does not send
// them.
func makePending(t *testing.T, s *Store, from, to string, n int) {
	t.Helper()
	for _, p := range s.parts {
		p.deadLetters.sending.Store(true)
	}
	for i := range n {
		tags := &tube.Tags{Key: fmt.Sprint("key", i), Rules: tube.Rules{Max: 1, Dead: to}}
		a := do(s, storage.Op{Kind: storage.Put, Tube: from, TTR: 100, Pri: 7, Body: fmt.Append(nil, "body", i), Args: &storage.Args{Tags: tags}})
		do(s, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{from}})
		if a := do(s, move(tube.Release, 1, a.ID)); a.NotFound || a.Err != nil {
			t.Fatalf("%+v", a)
		}
	}
	stats := do(s, storage.Op{Kind: storage.TubeStats, Tube: from}).TubeStats
	if stats.Buried != uint64(n) || stats.Reserved != 0 {
		t.Fatalf("%+v", *stats)
	}
}

// TestDeadLettersInterrupted: a dead letter is one job in one place, whatever step was the last
// that an instance did before it died, even if Redis has forgotten the script.
func TestDeadLettersInterrupted(t *testing.T) {
	t.Parallel()
	for steps := range 4 {
		t.Run(fmt.Sprint("steps", steps), func(t *testing.T) { interruptDeadLetters(t, steps) })
	}
}

func interruptDeadLetters(t *testing.T, steps int) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	from, to := "from", "to"
	for schema.PartitionOf(to, 16) == schema.PartitionOf(from, 16) {
		to += "o"
	}
	s := openWith(t, Options{URL: server.URL(), Partitions: 16, Timeout: patient})
	makePending(t, s, from, to, 3)
	p := s.parts[schema.PartitionOf(from, 16)]
	var some []*deadLetter
	if steps > 0 {
		take := func(_ string, read []*deadLetter) { some = read }
		if err := p.do(func(c *call) { p.encodePending(c, scanStart, take) }); err != nil {
			t.Fatal(err)
		}
	}
	if steps > 0 && len(some) != 3 {
		t.Fatalf("%d dead letters", len(some))
	}
	for i, l := range some {
		if i >= 2 { // that one is only read
			break
		}
		client.ScriptFlush(ctx)
		arrived := false
		if err := l.target().do(func(c *call) { l.target().encodeArrive(c, l, &arrived) }); err != nil || !arrived {
			t.Fatal(err)
		}
		if steps > 1 && i == 0 {
			ended := make(chan error)
			l.depart(l.target(), func(err error) { ended <- err })
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
	}
	s.crash()
	client.ScriptFlush(ctx)
	other := openWith(t, Options{URL: server.URL(), Partitions: 16, Timeout: patient})
	awaitSent(t, other, from, to, 3)
	if steps == 3 { // the first one sends once more what it has read
		for _, l := range some {
			copied := *l
			copied.from = other.parts[l.from.number]
			var arrived bool
			copied.target().do(func(c *call) { copied.target().encodeArrive(c, &copied, &arrived) })
		}
		awaitSent(t, other, from, to, 3)
	}
	wantNoFaults(t, Options{URL: server.URL()})
	wantDeadLetters(t, other, from, to)
}

// wantDeadLetters checks the three dead letters of makePending.
func wantDeadLetters(t *testing.T, s *Store, from, to string) {
	t.Helper()
	for i := range 3 {
		a := do(s, storage.Op{Kind: storage.PeekKey, Tube: to, Args: &storage.Args{Key: fmt.Sprint("key", i)}})
		if string(a.Body) != fmt.Sprint("body", i) {
			t.Errorf("key%d: %+v", i, a)
		}
		metadata := do(s, storage.Op{Kind: storage.JobStats, ID: a.ID}).Job.Metadata
		if metadata.FromTube != from || metadata.FromID == 0 || metadata.Parked != tube.NotParked {
			t.Errorf("%+v", metadata)
		}
	}
}

// awaitSent waits until one tube has n ready jobs, and the other none.
func awaitSent(t *testing.T, s *Store, from, to string, n uint64) {
	t.Helper()
	var last string
	for range 500 {
		s.TickAll()
		at, left := do(s, storage.Op{Kind: storage.TubeStats, Tube: to}), do(s, storage.Op{Kind: storage.TubeStats, Tube: from})
		if at.TubeStats != nil && at.TubeStats.Ready == n && at.TubeStats.Total == n && (left.TubeStats == nil || left.TubeStats.Total == left.TubeStats.Deletes) {
			return
		}
		last = show(&at) + show(&left)
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not sent: %s", last)
}

// TestManyLetters: all dead letters are sent, whatever their number. Redis keeps them in a hash
// table in which the slots of removed ones stay empty for long.
func TestManyLetters(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	server := redistest.Start(t)
	var ahead atomic.Int64
	s := openWith(t, Options{
		URL: server.URL(), Timeout: patient, Partitions: 16, skew: func() time.Duration { return time.Duration(ahead.Load()) },
	})
	const n = 5000
	from, to := tubesInTwoPartitions(16)
	puts, takes := make([]storage.Op, n), make([]storage.Op, n)
	for i := range n {
		puts[i] = storage.Op{Kind: storage.Put, Tube: from, TTR: 100}
		takes[i] = takeOf(1, from)
	}
	do(s, storage.Op{Kind: storage.SetPolicy, Tube: from, Args: &storage.Args{Policy: &tube.Policy{Rules: tube.Rules{Max: 1, Dead: to}}}})
	storage.DoWait(s, puts)
	storage.DoWait(s, takes)
	ahead.Store(int64(101 * time.Second))
	awaitSent(t, s, from, to, n)
}

// TestRepeatedPut: a put with a key that is repeated, because its answer was lost and its
// connection got an error, makes one job, even if that is gone by then.
func TestRepeatedPut(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), 300*time.Millisecond)
	other := openAt(t, server.URL(), patient)
	tags := &tube.Tags{Key: "once", Rules: tube.Rules{KeyTTL: time.Hour, HasKeyTTL: true}}
	op := storage.Op{Kind: storage.Put, Tube: "t", TTR: 100, Body: []byte("x"), Args: &storage.Args{Tags: tags}}
	do(other, storage.Op{Kind: storage.Ref, Tubes: []string{"t"}, Delta: 1})
	proxy.Intercept(nil, func([]byte) redistest.Fate { return redistest.Cut })
	first := do(s, op)
	proxy.Intercept(nil, nil)
	if first.Err == nil {
		t.Fatal("the answer was not lost")
	}
	a := do(other, op)
	again := do(other, op)
	if a.Err != nil || again.ID != a.ID || again.Outcome != tube.PutExisting {
		t.Fatalf("%+v, then %+v", a, again)
	}
	if total := do(other, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats.Total; total != 1 {
		t.Errorf("%d jobs", total)
	}
	do(other, take(1))
	if a := do(other, move(tube.Delete, 1, a.ID)); a.NotFound {
		t.Error("not deleted")
	}
	if gone := do(other, op); gone.ID != a.ID || gone.State != tube.Gone {
		t.Errorf("%+v", gone)
	}
}

// TestDeadLettersShared: partitions that send dead letters at the same time send fewer each,
// and more again when the others have ended.
func TestDeadLettersShared(t *testing.T) {
	s := openWith(t, Options{URL: redistest.Start(t).URL(), Partitions: 16, Timeout: patient})
	p := s.parts[0]
	for _, test := range []struct{ senders, want int32 }{{0, 32}, {1, 32}, {4, 32}, {8, 16}, {16, 8}, {64, 4}} {
		p.senders.Store(test.senders)
		if got := p.deadLetterLimit(); got != int(test.want) {
			t.Errorf("%d together of %d senders, want %d", got, test.senders, test.want)
		}
	}
	p.senders.Store(0)
	for range 3 {
		for _, p := range s.parts {
			p.deadLetters.begin(p)
		}
	}
	for begun := time.Now(); p.senders.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d still send", p.senders.Load())
		}
	}
}

// show describes an answer.
func show(a *storage.Answer) string {
	text := fmt.Sprintf("found %v id %d err %v body %d count %d names %v", !a.NotFound, a.ID, a.Err, len(a.Body), a.Count, a.Names)
	if a.Job != nil {
		text += fmt.Sprintf(" job %+v metadata %+v", *a.Job, a.Job.Metadata)
	}
	if a.TubeStats != nil {
		text += fmt.Sprintf(" tube %+v", *a.TubeStats)
	}
	if a.Stats != nil {
		text += fmt.Sprintf(" stats %+v", a.Stats.Totals)
	}
	if a.Result != nil {
		text += fmt.Sprintf(" result %+v", *a.Result)
	}
	return text
}
