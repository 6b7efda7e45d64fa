package redis

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

// These tests are about jobs that are put and taken in one call of Do, with HandOff set.

// wakeUpTest is instances that share a Redis. An instance waits after a take with Wait has
// found nothing.
type wakeUpTest struct {
	*testing.T
	server *redistest.Server
	client *goredis.Client
}

func newWakeUpTest(t *testing.T) *wakeUpTest {
	server := redistest.Start(t)
	return &wakeUpTest{t, server, server.Client(t)}
}

// waitingInstance is an instance, with the tubes for which it was woken.
type waitingInstance struct {
	*Store
	woken chan string
}

func (w *wakeUpTest) instance(partitions int) waitingInstance {
	w.Helper()
	o := Options{URL: w.server.URL(), Timeout: patient, Partitions: partitions, Log: slog.New(slog.DiscardHandler)}
	s, err := Open(context.Background(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	woken := make(chan string, 100)
	s.Listen(&waitingListener{waits: true, woken: woken})
	return waitingInstance{s, woken}
}

// waits makes an instance wait, from a later millisecond on than those before.
func (w *wakeUpTest) wait(s waitingInstance, names ...string) {
	w.Helper()
	if a := do(s.Store, takeFrom(9, true, names...)); !a.NotFound {
		w.Fatalf("there is a job: %+v", a)
	}
	ctx := context.Background()
	for begun := w.client.Time(ctx).Val(); w.client.Time(ctx).Val().Sub(begun) < time.Millisecond; {
	}
}

// wantWoken checks for which tubes an instance is woken, at once or not at all.
func (w *wakeUpTest) wantWoken(what string, s waitingInstance, names ...string) {
	w.Helper()
	for _, name := range names {
		select {
		case got := <-s.woken:
			if got != name {
				w.Errorf("%s: woken for %s, want %s", what, got, name)
			}
		case <-time.After(patient):
			w.Fatalf("%s: not woken for %s", what, name)
		}
	}
	select {
	case got := <-s.woken:
		w.Errorf("%s: woken for %s", what, got)
	default:
	}
}

// serve puts n jobs into a tube, and directly after that takes as many as wanted from the
// tubes. It returns how many it got.
func (w *wakeUpTest) serve(s waitingInstance, name string, n, want int, names ...string) (got int) {
	w.Helper()
	put, round := &storage.Batch{}, &storage.Batch{}
	for range n {
		put.Ops = append(put.Ops, putIn(name, 5))
	}
	for range want {
		op := takeFrom(tube.Holder(7), true, names...)
		op.HandOff = true
		round.Ops = append(round.Ops, op)
	}
	var all sync.WaitGroup
	all.Add(2)
	put.Done, round.Done = all.Done, all.Done
	s.Do(put, round)
	all.Wait()
	for i := range round.Ops {
		switch a := &round.Ops[i].Answer; {
		case a.Err != nil:
			w.Fatal(a.Err)
		case !a.NotFound && i != got:
			w.Fatalf("take %d has got a job, and one before it has not", i)
		case !a.NotFound:
			got++
		}
	}
	return got
}

// wantWaiting checks which instances are waiting for a job of a tube, in their order.
func (w *wakeUpTest) wantWaiting(what, name string, want ...waitingInstance) {
	w.Helper()
	var names []string
	for _, s := range want {
		names = append(names, s.parts[0].instance.name())
	}
	got := w.client.ZRange(context.Background(), "redstalk:{0}:waiting:"+name, 0, -1).Val()
	if !slices.Equal(got, names) {
		w.Errorf("%s: %v wait, want %v", what, got, names)
	}
}

// TestHandOff: clients that wait here get as many of the jobs that one call puts as they want,
// and the instance keeps waiting if that was not enough.
func TestHandOff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what            string
		waits           bool
		puts, want, got int
		waitsOn         bool
	}{
		{"the only one who waits", true, 1, 1, 1, false},
		{"the first of several", true, 1, 2, 1, true},
		{"several", true, 3, 4, 3, true},
		{"a range", true, 20, 18, 18, false},
		{"fewer than jobs", true, 3, 2, 2, false},
		{"the instance was woken before", false, 1, 1, 1, false},
		{"no job", true, 0, 1, 0, true},
		{"no job, and the instance was woken before", false, 0, 1, 0, true},
	} {
		w := newWakeUpTest(t)
		s := w.instance(1)
		if tc.waits {
			w.wait(s, "t")
		}
		calls := scriptCalls(t, w.server)
		if got := w.serve(s, "t", tc.puts, tc.want, "t"); got != tc.got {
			t.Errorf("%s: got %d jobs, want %d", tc.what, got, tc.got)
		}
		if n := scriptCalls(t, w.server) - calls; n != 1 {
			t.Errorf("%s: it took %d calls", tc.what, n)
		}
		w.wantWoken(tc.what, s)
		if tc.waitsOn {
			w.wantWaiting(tc.what, "t", s)
		} else {
			w.wantWaiting(tc.what, "t")
		}
		if got := figures(t, s.Store); got.Ready != uint64(tc.puts-tc.got) || got.Reserved != uint64(tc.got) {
			t.Errorf("%s: %+v", tc.what, got)
		}
	}
}

// TestWakesRemainingInstances: an instance is woken once for each job, less one for each other
// instance that is woken.
func TestWakesRemainingInstances(t *testing.T) {
	w := newWakeUpTest(t)
	a, b := w.instance(1), w.instance(1)
	w.wait(b, "t")
	w.wait(a, "t")
	w.serve(b, "t", 4, 0)
	w.wantWoken("who has put the jobs", b, "t", "t", "t")
	w.wantWoken("the other one", a, "t")
	w.wait(b, "u")
	w.serve(b, "u", maxWakeUps+1, 0)
	w.wantWoken("very many jobs", b, slices.Repeat([]string{"u"}, maxWakeUps)...)
}

// TestHandOffInOrder: an instance gets no job for which others wait longer, and moves behind
// them after it has got one.
func TestHandOffInOrder(t *testing.T) {
	w := newWakeUpTest(t)
	a, b := w.instance(1), w.instance(1)
	w.wait(a, "t")
	w.wait(b, "t")
	if got := w.serve(b, "t", 1, 1, "t"); got != 0 {
		t.Fatal("the second one got the job of the first")
	}
	w.wantWoken("the first", a, "t")
	w.wantWoken("the second", b)
	w.wantWaiting("the first was woken", "t", b)
	do(a.Store, takeFrom(1, true, "t"))
	w.wait(a, "t")
	w.wantWaiting("the first waits again", "t", b, a)
	if got := w.serve(b, "t", 1, 2, "t"); got != 1 {
		t.Fatalf("whose turn it is got %d jobs", got)
	}
	w.wantWaiting("the second was served", "t", a, b)
	w.wantWoken("the first", a)
	if got := w.serve(a, "t", 4, 5, "t"); got != 3 {
		t.Errorf("of 4 jobs one instance got %d", got)
	}
	w.wantWoken("the other one", b, "t")
	w.wantWoken("who was served", a)
	w.wantWaiting("both were served", "t", a)
}

// TestHandOffByOthers: an instance that was woken, and no longer waits, leaves jobs to those
// that do.
func TestHandOffByOthers(t *testing.T) {
	w := newWakeUpTest(t)
	a, b := w.instance(1), w.instance(1)
	w.wait(a, "t")
	if got := w.serve(b, "t", 1, 1, "t"); got != 0 {
		t.Error("who does not wait got the job")
	}
	w.wantWoken("who waits", a, "t")
	w.wantWaiting("the waiting instance was woken", "t", b)
}

// TestHandOffPaused: no client gets a job of a paused tube, and none is woken.
func TestHandOffPaused(t *testing.T) {
	w := newWakeUpTest(t)
	s := w.instance(1)
	w.wait(s, "t", "u")
	do(s.Store, storage.Op{Kind: storage.Put, Tube: "t", Delay: 1000, TTR: 60}) // or there is no tube
	do(s.Store, storage.Op{Kind: storage.Pause, Tube: "t", Delay: 1000})
	for _, names := range [][]string{{"t"}, {"t", "u"}} {
		if got := w.serve(s, "t", 1, 1, names...); got != 0 {
			t.Errorf("tubes %v: got a job of a paused tube", names)
		}
	}
	w.wantWoken("the tube is paused", s)
	w.wantWaiting("the tube is paused", "t", s)
}

// TestHandOffOfSeveralTubes: a take from several tubes gets the best job if that has just been
// put; else it leaves it to the woken instances.
func TestHandOffOfSeveralTubes(t *testing.T) {
	w := newWakeUpTest(t)
	s := w.instance(1)
	w.wait(s, "t", "u")
	if got := w.serve(s, "u", 1, 1, "t", "u"); got != 1 {
		t.Error("got no job")
	}
	w.wantWaiting("one tube had a job", "u")
	w.wantWaiting("the other tube had none", "t", s)
	w.wantWoken("it was served", s)
	do(s.Store, putIn("t", 1))
	w.wantWoken("a job came", s, "t")
	if got := w.serve(s, "u", 1, 1, "t", "u"); got != 0 {
		t.Error("got a job that came before")
	}
	w.wantWoken("another job came", s, "u")
	w.wantWaiting("it was woken", "u")
	w.wantWaiting("it waits again", "t", s)
}

// TestHandOffInPartitions: takes from tubes of several partitions get nothing, and the instance
// is woken; those from one partition get the job.
func TestHandOffInPartitions(t *testing.T) {
	w := newWakeUpTest(t)
	s := w.instance(2)
	on, elsewhere := tubeIn(0, 2), tubeIn(1, 2)
	w.wait(s, on, elsewhere)
	if got := w.serve(s, on, 1, 1, on, elsewhere); got != 0 {
		t.Error("it took a job")
	}
	w.wantWoken("a take from both", s, on)
	do(s.Store, takeFrom(1, true, on))
	w.wait(s, on)
	if got := w.serve(s, on, 1, 2, on); got != 1 {
		t.Errorf("got %d jobs", got)
	}
	w.wantWoken("a take from one", s)
}
