package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// newQueue returns a queue outside of any synctest bubble.
func newQueue(t *testing.T, store storage.Store) *Queue {
	q := New(store, Config{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := q.Close(context.Background()); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return q
}

// TestHoldersAreUnique: no number is handed out twice, and none is 0.
func TestHoldersAreUnique(t *testing.T) {
	q := newQueue(t, embedded.NewMemory())
	const callers, each = 8, 1000
	var all sync.WaitGroup
	numbers := make([][]tube.Holder, callers)
	for i := range callers {
		all.Go(func() {
			for range each {
				numbers[i] = append(numbers[i], q.NewHolder())
			}
		})
	}
	all.Wait()
	sorted := slices.Concat(numbers...)
	slices.Sort(sorted)
	if sorted[0] == 0 || len(slices.Compact(sorted)) != callers*each {
		t.Errorf("the first of %d is %d", len(slices.Compact(sorted)), sorted[0])
	}
}

func TestDrain(t *testing.T) {
	withHarness(t, func(w *harness) {
		id := w.put("x")
		w.Drain()
		if _, err := w.Put(w.Context(), NewJob{Tube: "t"}); err != ErrDraining {
			t.Errorf("put: %v", err)
		}
		_, err := w.Do(w.Context(), storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id}, storage.Op{Kind: storage.Put, Tube: "t"})
		if err != ErrDraining {
			t.Errorf("put among others: %v", err)
		}
		w.wantState(id, tube.Ready, 0, 0)
		h := w.NewHolder()
		if o := <-w.reserve(w.Context(), h, 0); o.err != nil {
			t.Errorf("reserve: %v", o.err)
		}
		if err := w.Release(w.Context(), h, id, tube.Terms{}); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

func TestMaxJobSize(t *testing.T) {
	withHarness(t, func(w *harness) { // MaxJobSize is 10 bytes
		if _, err := w.Put(w.Context(), NewJob{Tube: "t", Body: make([]byte, 11)}); err != ErrTooBig {
			t.Errorf("11 bytes: %v", err)
		}
		if _, err := w.Put(w.Context(), NewJob{Tube: "t", Body: make([]byte, 10)}); err != nil {
			t.Errorf("10 bytes: %v", err)
		}
	})
}

// TestReleaseAll: all jobs of a holder are ready again, and a waiter gets one, even if the
// context has ended.
func TestReleaseAll(t *testing.T) {
	withHarness(t, func(w *harness) {
		a, b := w.put("a"), w.put("b")
		h := w.NewHolder()
		for range 2 {
			if o := <-w.reserve(w.Context(), h, 0); o.err != nil {
				t.Fatal(o.err)
			}
		}
		waiting := w.reserve(w.Context(), w.NewHolder(), storage.Forever)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if err := w.ReleaseAll(ctx, h); err != nil && err != context.Canceled {
			t.Errorf("leave: %v", err)
		}
		if o := <-waiting; o.job.ID != a || o.took > 0 {
			t.Errorf("job %d, %v after %v", o.job.ID, o.err, o.took)
		}
		w.wantState(b, tube.Ready, 1, 0)
	})
}

// TestJobs: each call carries out its operation.
func TestJobs(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx, h := w.Context(), w.NewHolder()
		id := w.put("x")
		want := func(what string, err error, state tube.State) {
			t.Helper()
			if s, e := w.JobStats(ctx, id); err != nil || e != nil || s.State != state {
				t.Errorf("%s: %v, %v, %+v", what, err, e, s)
			}
		}
		job, err := w.ReserveJob(ctx, h, id)
		want("reserve-job", err, tube.Reserved)
		if string(job.Body) != "x" {
			t.Errorf("reserve-job: %+v", job)
		}
		time.Sleep(50 * time.Second)
		want("touch", w.Touch(ctx, h, id), tube.Reserved)
		time.Sleep(50 * time.Second)
		want("bury", w.Bury(ctx, h, id, 3), tube.Buried)
		if job, err := w.PeekHead(ctx, "t", tube.Buried); err != nil || job.ID != id {
			t.Errorf("peek-buried: %+v, %v", job, err)
		}
		if n, err := w.Kick(ctx, "t", 10, false); n != 1 || err != nil {
			t.Errorf("kick: %d, %v", n, err)
		}
		if job, err := w.Peek(ctx, id); err != nil || string(job.Body) != "x" {
			t.Errorf("peek: %+v, %v", job, err)
		}
		_, err = w.ReserveJob(ctx, h, id)
		want("reserve-job again", err, tube.Reserved)
		want("release", w.Release(ctx, h, id, tube.Terms{Pri: 1, Delay: 9}), tube.Delayed)
		want("kick-job", w.KickJob(ctx, id, false), tube.Ready)
		if names, err := w.Tubes(ctx); err != nil || !slices.Equal(names, []string{"default", "t"}) {
			t.Errorf("tubes: %v, %v", names, err)
		}
		want("pause", w.Pause(ctx, "t", 1), tube.Ready)
		if o := <-w.reserve(ctx, h, 0); o.err != ErrTimedOut {
			t.Errorf("of a paused tube: %+v", o)
		}
		if err := w.Delete(ctx, 0, id); err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, err := w.Peek(ctx, id); err != ErrNotFound {
			t.Errorf("peek after delete: %v", err)
		}
	})
}

func TestStats(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx, cancel := context.WithCancel(w.Context())
		var waits []<-chan outcome
		for range 3 {
			waits = append(waits, w.reserve(ctx, w.NewHolder(), storage.Forever))
		}
		w.Counters.Commands[7].Add(2)
		w.Counters.Commands[MaxCommands-1].Add(1)
		w.Counters.Connections.Add(4)
		w.Counters.TotalConnections.Add(9)
		w.Counters.Producers.Add(1)
		w.Counters.Workers.Add(2)
		time.Sleep(90 * time.Second)
		w.Put(w.Context(), NewJob{Tube: "other", TTR: 1})
		w.Drain()
		s, err := w.Stats(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Ready != 1 || s.Tubes != 2 || s.Waiting != 3 || s.Commands[7] != 2 || s.Commands[MaxCommands-1] != 1 ||
			s.Connections != 4 || s.TotalConnections != 9 || s.Producers != 1 || s.Workers != 2 ||
			!s.Draining || s.MaxJobSize != 10 || s.Version != "test" || len(s.ID) != 16 ||
			s.Process.Uptime != 90*time.Second || s.Process.PID == 0 || s.Process.UserTime+s.Process.SystemTime == 0 || s.Machine.Hostname == "" {
			t.Errorf("%+v", s)
		}
		if _, err := w.TubeStats(w.Context(), "t"); err != ErrNotFound {
			t.Errorf("a tube that is only waited for: %v", err)
		}
		waits = append(waits, w.reserve(ctx, w.NewHolder(), storage.Forever))
		w.Do(ctx, storage.Op{Kind: storage.Ref, Role: tube.Watching, Delta: 1, Tubes: []string{"t"}})
		if s, err := w.TubeStats(w.Context(), "t"); err != nil || s.Waiting != 4 || s.Name != "t" {
			t.Errorf("%+v, %v", s, err)
		}
		cancel()
		for _, c := range waits {
			<-c
		}
	})
}

// TestCloseOfADeadStore: a store that never answers does not delay Close for long.
func TestCloseOfADeadStore(t *testing.T) {
	withHarness(t, func(w *harness) {
		c := w.reserve(w.Context(), w.NewHolder(), storage.Forever)
		_, release := w.store.holdTakes()
		w.put("x")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begun); took > time.Second+closeGrace {
			t.Errorf("close took %v", took)
		}
		if o := <-c; o.err != ErrClosed {
			t.Errorf("%v", o.err)
		}
		release()
		synctest.Wait()
		w.Queue = New(w.store, Config{})
		w.wantState(1, tube.Ready, 1, 0)
	})
}

// TestID: no id of an instance looks like a number, as 1234567890123456 and 12e3456789012345 do.
func TestID(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if id := newID(); len(id) != 16 || strings.IndexByte("abcd", id[0]) < 0 {
			t.Fatalf("the id is %s", id)
		}
	}
}
