package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// register registers a source of two tubes.
func (w *harness) register(s Source) (remove func()) {
	w.Helper()
	s.Tubes = []string{"g", "h"}
	remove, err := w.Register(s)
	if err != nil {
		w.Fatal(err)
	}
	return remove
}

// TestOutcomes: a source decides what happens to its jobs.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	wants := map[string]struct {
		o     Outcome
		state tube.State
		delay uint32
	}{
		"done":          {Outcome{Verdict: Done, Result: Delivered}, tube.Gone, 0},
		"fail":          {Outcome{Err: errors.New("so")}, tube.Delayed, 1},
		"later":         {Outcome{Verdict: Later, Delay: 1500 * time.Millisecond}, tube.Delayed, 2},
		"later at once": {Outcome{Verdict: Later}, tube.Delayed, 1},
		"park":          {Outcome{Verdict: Park}, tube.Buried, 0},
		"keep":          {Outcome{Verdict: Keep}, tube.Reserved, 0},
		"breaker open":  {BreakerOpen(), tube.Delayed, 30},
		"panic":         {Outcome{}, tube.Delayed, 1},
	}
	withHarness(t, nil, func(w *harness) {
		w.register(Source{Concurrency: 9, Call: func(ctx context.Context, j *Job) Outcome {
			if string(j.Body) == "panic" {
				panic("on purpose")
			}
			if j.Tube != "g" || j.Pri != 77 || j.TTR != time.Minute || j.Deliveries != 1 || j.Lease == 0 {
				t.Errorf("%+v", j)
			}
			if until, ok := ctx.Deadline(); !ok || time.Until(until) != DefaultTimeout {
				t.Errorf("the deadline is %v", until)
			}
			return wants[string(j.Body)].o
		}})
		ids := make(map[string]uint64)
		for body := range wants {
			ids[body] = w.put("g", body)
		}
		synctest.Wait()
		for body, want := range wants {
			if s := w.job(ids[body]); s.State != want.state || s.Delay != want.delay {
				t.Errorf("%s: %v, delay %d", body, s.State, s.Delay)
			}
		}
		if stats := w.Dispatcher.Stats().Tubes[0]; stats.Calls[Delivered] != 1 || stats.Calls[Failed] != 6 || stats.Calls[Skipped] != 1 {
			t.Errorf("%+v", stats)
		}
		if log := strings.Join(w.log.all(), ""); !strings.Contains(log, "err=so") && !strings.Contains(log, "on purpose") {
			t.Errorf("the log says %s", log)
		}
	})
}

// TestRegister: a source takes precedence over the policy of a tube, until it is removed.
func TestRegister(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	by := map[string]int{}
	count := func(who string) {
		mu.Lock()
		defer mu.Unlock()
		by[who]++
	}
	f := func(*http.Request) (int, string, error) { count("hook"); return 200, "", nil }
	withHarness(t, f, func(w *harness) {
		w.push("g", hookOf(tube.Push{}))
		synctest.Wait()
		remove := w.register(Source{Call: func(context.Context, *Job) Outcome { count("source"); return Outcome{Verdict: Done} }})
		w.push("h", hookOf(tube.Push{}))
		synctest.Wait()
		if _, err := w.Register(Source{Tubes: []string{"i", "h"}}); !errors.Is(err, errTaken) {
			t.Errorf("registered twice: %v", err)
		}
		w.put("g", "x")
		w.put("h", "x")
		w.put("i", "x")
		synctest.Wait()
		remove()
		synctest.Wait()
		w.put("g", "x")
		synctest.Wait()
		mu.Lock()
		if by["source"] != 2 || by["hook"] != 1 {
			t.Errorf("%v", by)
		}
		mu.Unlock()
		for name, watching := range map[string]uint64{"g": 1, "h": 1, "i": 0} {
			w.put(name, "x")
			if s, err := w.TubeStats(context.Background(), name); err != nil || s.Watching != watching {
				t.Errorf("tube %s: %+v, %v", name, s, err)
			}
		}
		synctest.Wait()
	})
}

// targetStates returns the states of the breakers, by target.
func (w *harness) targetStates() map[string]string {
	states := map[string]string{}
	for _, stats := range w.Dispatcher.Stats().Targets {
		states[stats.Target] = stats.State
	}
	return states
}

// TestThrough: jobs of a source share the concurrency limit and the breaker of the targets
// that they name.
func TestThrough(t *testing.T) {
	t.Parallel()
	var m callMeter
	var mu sync.Mutex
	fails, alone, late := 0, 0, 0
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, Config{Allow: allow(t, "*"), TargetConcurrency: 4})
		defer w.end()
		failed := errors.New("failed")
		w.register(Source{Concurrency: 20, Timeout: 90 * time.Second, Call: func(ctx context.Context, j *Job) Outcome {
			to := "GRPC://Good:1"
			if j.Tube == "h" {
				to = "grpc://bad:1"
			}
			err := w.Through(ctx, to, func(context.Context) error {
				if j.Tube == "h" {
					mu.Lock()
					defer mu.Unlock()
					fails++
					return failed
				}
				m.during(nil, 10*time.Second)
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrBreakerOpen):
				alone++
				return BreakerOpen()
			case errors.Is(err, failed):
				return Outcome{Verdict: Park}
			case err != nil:
				late++
				return Outcome{Verdict: Park, Result: TimedOut}
			}
			return Outcome{Verdict: Done, Result: Delivered}
		}})
		for range 20 {
			w.putFor("g", "x", 600)
			w.putFor("h", "x", 600)
		}
		advance(time.Second)
		states := w.targetStates()
		mu.Lock()
		if fails < breakAfter || fails >= breakAfter+4 || alone != 20-fails || states["grpc://good:1"] != "closed" || states["grpc://bad:1"] != "open" {
			t.Errorf("%d have failed, %d found the breaker open; %v", fails, alone, states)
		}
		mu.Unlock()
		advance(60 * time.Second)
		mu.Lock()
		if most, all := m.seen(); most != 4 || all != 20 || late != 0 {
			t.Errorf("%d of %d at a time, %d too late", most, all, late)
		}
		mu.Unlock()
		if stats := w.Dispatcher.Stats().Targets; len(stats) != 1 {
			t.Errorf("left: %+v", stats)
		}
	})
}

// TestThroughTimesOut: a call that waits too long for a target returns an error, and delays
// nobody.
func TestThroughTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, Config{Allow: allow(t, "*"), TargetConcurrency: 1})
		defer w.end()
		var done [3]error
		var ended [3]time.Duration
		begun := time.Now()
		for i, wait := range []time.Duration{time.Minute, 5 * time.Second, time.Minute} {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), wait)
				defer cancel()
				done[i] = w.Through(ctx, "x://y:1", func(context.Context) error { time.Sleep(10 * time.Second); return nil })
				ended[i] = time.Since(begun)
			}()
			synctest.Wait()
		}
		advance(time.Minute)
		if done[0] != nil || !errors.Is(done[1], context.DeadlineExceeded) || done[2] != nil || ended != [3]time.Duration{10 * time.Second, 5 * time.Second, 20 * time.Second} {
			t.Errorf("%v after %v", done, ended)
		}
	})
}

// failing is a store that can be made to fail.
type failing struct {
	storage.Store
	mu   sync.Mutex
	fail func(*storage.Batch) bool
	done func(*storage.Batch) // before Batch.Done; nil: nothing
}

func (s *failing) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		s.mu.Lock()
		fails, hook := s.fail != nil && s.fail(b), s.done
		s.mu.Unlock()
		if done := b.Done; hook != nil {
			b.Done = func() { hook(b); done() }
		}
		if !fails {
			s.Store.Do(b)
			continue
		}
		for i := range b.Ops {
			b.Ops[i].Answer = storage.Answer{Err: storage.ErrUnavailable}
		}
		b.Done()
	}
}

// TestStoreUnavailable: while the store is unavailable, a successful call is not forgotten,
// and nothing is called twice. After that everything continues, also where a wake-up was
// lost.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	var m callMeter
	f := func(r *http.Request) (int, string, error) { m.during(r, time.Second); return 200, "", nil }
	synctest.Test(t, func(t *testing.T) {
		store := &failing{}
		w := newHarnessOn(t, store, Config{Allow: allow(t, "*"), transport: answers(f)})
		defer w.end()
		w.push("t", hookOf(tube.Push{Concurrency: 2}))
		w.push("idle", hookOf(tube.Push{}))
		for range 4 {
			w.put("t", "x")
		}
		advance(500 * time.Millisecond)
		store.set(func(*storage.Batch) bool { return true })
		advance(20 * time.Second)
		if _, all := m.seen(); all != 2 {
			t.Errorf("%d calls", all)
		}
		store.set(nil)
		advance(5 * time.Second)
		if s, err := w.Queue.Stats(context.Background()); err != nil || s.Ready+s.Reserved+s.Delayed != 0 {
			t.Errorf("%+v, %v", s.Totals, err)
		}
		if _, all := m.seen(); all != 4 {
			t.Errorf("%d calls in all", all)
		}
		if stats := w.Dispatcher.Stats(); stats.Leased != 0 || stats.Tubes[0].Late != 0 {
			t.Errorf("%+v", stats)
		}
	})
}

func (s *failing) set(fail func(*storage.Batch) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// TestWakeUpDuringTake: a job that arrives during a take that has found nothing is called at
// once, also if the tube can have no more calls at that moment.
func TestWakeUpDuringTake(t *testing.T) {
	t.Parallel()
	var m callMeter
	f := func(r *http.Request) (int, string, error) { m.during(r, 0); return 200, "", nil }
	synctest.Test(t, func(t *testing.T) {
		store := &failing{}
		w := newHarnessOn(t, store, Config{Allow: allow(t, "*"), transport: answers(f)})
		defer w.end()
		w.push("t", hookOf(tube.Push{Concurrency: 1}))
		advance(time.Second)
		var once sync.Once
		store.mu.Lock()
		store.done = func(b *storage.Batch) {
			if last := b.Ops[len(b.Ops)-1]; last.Kind == storage.Take && last.Answer.NotFound {
				once.Do(func() { w.put("t", "second") })
			}
		}
		store.mu.Unlock()
		w.put("t", "first")
		synctest.Wait()
		if _, all := m.seen(); all != 2 {
			t.Errorf("%d calls", all)
		}
	})
}

// TestCallsAndBodies: the number of calls depends on how large the bodies are, not on how
// large they could be.
func TestCallsAndBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, store := slog.New(slog.DiscardHandler), embedded.NewMemory()
		q := queue.New(store, queue.Config{Log: log, MaxJobSize: maxBodies / 4})
		w := &harness{TB: t, Queue: q, Dispatcher: New(q, Config{Log: log}), store: store, log: &lines{}}
		defer w.end()
		var m callMeter
		w.register(Source{Concurrency: 50, Call: func(context.Context, *Job) Outcome {
			m.during(nil, 5*time.Second)
			return Outcome{Verdict: Done, Result: Delivered}
		}})
		capacity := func(bytes int) (capacity, have int) {
			w.Dispatcher.mu.Lock()
			defer w.Dispatcher.mu.Unlock()
			have = w.Dispatcher.bytes
			w.Dispatcher.bytes += bytes
			capacity = w.Dispatcher.capacity()
			w.Dispatcher.bytes -= bytes
			return capacity, have
		}
		for range 50 {
			w.put("g", "twelve bytes")
		}
		advance(time.Second)
		if n, have := capacity(0); have != 600 || n != 3 {
			t.Errorf("%d bytes are called, and there is capacity for %d jobs", have, n)
		}
		if n, _ := capacity(maxBodies); n > 0 {
			t.Errorf("capacity for %d jobs beyond the limit", n)
		}
		advance(time.Minute)
		if most, all := m.seen(); most != 50 || all != 50 {
			t.Errorf("%d of %d at a time", most, all)
		}
		if n, have := capacity(maxBodies); have != 0 || n != fewCalls {
			t.Errorf("%d bytes are left, and with the limit reached capacity for %d jobs", have, n)
		}
	})
}
