package redis

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// endListener passes on which jobs are said to have ended.
type endListener struct {
	nopListener
	ended func(id uint64)
}

func (l endListener) JobEnded(id uint64) { l.ended(id) }

// waiter is a store on which clients wait for the ends of jobs, as a server does.
type waiter struct {
	*endedTest
	mu    sync.Mutex
	again map[uint64]chan struct{} // of each wait
}

func newWaiter(t *testing.T, o Options) *waiter {
	w := &waiter{again: make(map[uint64]chan struct{})}
	w.endedTest = newListeningTest(t, o, endListener{ended: func(id uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if again := w.again[id]; again != nil {
			select {
			case again <- struct{}{}:
			default:
			}
		}
	}})
	return w
}

// begin begins to wait for the end of a job, and returns a function that returns the answer.
func (w *waiter) begin(id uint64) (end func() storage.Answer) {
	again := make(chan struct{}, 1)
	w.mu.Lock()
	w.again[id] = again
	w.mu.Unlock()
	first := do(w.Store, storage.Op{Kind: storage.WaitEnded, ID: id, Wait: true})
	return func() storage.Answer {
		late := time.After(patient)
		for a := first; ; a = do(w.Store, storage.Op{Kind: storage.WaitEnded, ID: id, Wait: true}) {
			if a.Err == nil && a.State == tube.Gone {
				return a
			}
			select {
			case <-again:
			case <-late:
				w.Errorf("job %d: the wait does not end", id)
				return a
			}
		}
	}
}

// TestWaits: a wait at one instance ends with the job at another one, however it ends.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, way := range endedWays {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			w, other := newWaiter(t, Options{URL: server.URL(), Partitions: 3}), newEndedTest(t, Options{URL: server.URL(), Partitions: 3})
			id := w.put("t", tube.Tags{})
			end, began := w.begin(id), time.Now()
			way.end(other, id)
			a := end()
			if a.Result == nil || len(a.Result.Ended) != 1 || a.Result.Ended[0].How != way.how {
				t.Errorf("%+v", a)
			}
			if took := time.Since(began); took > askAgain-100*time.Millisecond {
				t.Errorf("told after %v", took)
			}
			if n := w.keyCount(server, "ended-waits"); n > 0 {
				t.Errorf("%v", server.Client(t).HGetAll(t.Context(), "redstalk:{0}:ended-waits").Val())
			}
		})
	}
}

// TestWaitForParked: a wait ends when the job is buried.
func TestWaitForParked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w, other := newWaiter(t, Options{URL: server.URL()}), newEndedTest(t, Options{URL: server.URL()})
	id := w.put("t", tube.Tags{})
	end := w.begin(id)
	other.take("t")
	other.ok(move(tube.Bury, 1, id))
	if a := end(); a.Result == nil || len(a.Result.Ended) != 1 || a.Result.Ended[0].How != tube.StillParked {
		t.Errorf("%+v", a)
	}
}

// TestWaitEndsAnyway: a wait ends although its message is lost, although Redis has forgotten it, and although no record is kept any more.
func TestWaitEndsAnyway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	w := newWaiter(t, Options{URL: server.URL()})
	w.keep("t", tube.Policy{Rules: keepAnHour})
	for name, tc := range map[string]struct {
		before func()
		gone   bool
	}{
		"forgotten": {func() { client.Del(t.Context(), "redstalk:{0}:ended-waits") }, false},
		"not kept":  {func() { w.keep("t", tube.Policy{}) }, true},
	} {
		w.keep("t", tube.Policy{Rules: keepAnHour})
		id := w.ok(put("x")).ID
		end := w.begin(id)
		tc.before()
		w.ok(move(tube.Delete, 1, id))
		if a := end(); a.NotFound != tc.gone {
			t.Errorf("%s: %+v", name, a)
		}
	}
	w.parts[0].ends.mu.Lock()
	defer w.parts[0].ends.mu.Unlock()
	if len(w.parts[0].ends.jobs) > 0 {
		t.Errorf("%v are still awaited", w.parts[0].ends.jobs)
	}
}

// TestWaitGivenUp: nothing is left of a wait that was given up, although the job then ends without a record.
func TestWaitGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := newWaiter(t, Options{URL: server.URL()})
	for _, change := range []func(){
		func() { w.keep("t", tube.Policy{}) },
		func() { newEndedTest(t, Options{URL: server.URL(), HistoryBytes: -1}) },
	} {
		w.keep("t", tube.Policy{Rules: keepAnHour})
		id := w.ok(put("x")).ID
		w.begin(id)
		if w.keyCount(server, "ended-waits") == 0 {
			t.Fatal("the wait is not noted")
		}
		change()
		w.ok(move(tube.Delete, 1, id))
		if w.keyCount(server, "ended-waits") > 0 {
			t.Errorf("the wait is left: %v", server.Client(t).HGetAll(t.Context(), "redstalk:{0}:ended-waits").Val())
		}
	}
}

// TestWaitOverTakeover: the instance that holds a job dies; another one gives it back, and finishes it.
func TestWaitOverTakeover(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dead := newEndedTest(t, Options{URL: server.URL()})
	id := dead.put("t", tube.Tags{})
	dead.take("t")
	w := newWaiter(t, Options{URL: server.URL()})
	end := w.begin(id)
	dead.crash()
	assumeAlive(w.Store)
	client := server.Client(t)
	client.ZAdd(t.Context(), "redstalk:{0}:instances")
	for range 400 {
		w.Tick()
		if a := do(w.Store, takeOf(2, "t")); a.ID == id {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	op := move(tube.Finish, 2, id)
	op.Args = &storage.Args{Data: []byte("second")}
	w.ok(op)
	if e := end().Result.Ended[0]; string(e.Result) != "second" || e.Deliveries != 1 || e.Started == 0 {
		t.Errorf("%+v", e)
	}
}

// TestManyWaits: none of many waits for jobs that end at once is missed, and all are told.
func TestManyWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w, other := newWaiter(t, Options{URL: server.URL()}), newEndedTest(t, Options{URL: server.URL()})
	w.keep("t", tube.Policy{Rules: keepAnHour})
	n := 20_000
	if testing.Short() {
		n = 4000
	}
	var waits sync.WaitGroup
	var told, slow atomic.Int64
	for range n / 100 {
		ops := make([]storage.Op, 100)
		for k := range ops {
			ops[k] = put("x")
		}
		storage.DoWait(w.Store, ops)
		for k := range ops {
			id := ops[k].Answer.ID
			waits.Go(func() {
				end, began := w.begin(id), time.Now()
				if a := end(); a.Result != nil && len(a.Result.Ended) == 1 {
					told.Add(1)
				}
				if time.Since(began) > askAgain {
					slow.Add(1)
				}
			})
		}
		takes, deletes := make([]storage.Op, 100), make([]storage.Op, 100)
		for k := range takes {
			takes[k] = take(1)
		}
		storage.DoWait(other.Store, takes)
		for k := range deletes {
			deletes[k] = move(tube.Delete, 1, takes[k].Answer.ID)
		}
		storage.DoWait(other.Store, deletes)
	}
	waits.Wait()
	t.Logf("%d of %d told, %d of them slowly", told.Load(), n, slow.Load())
	if told.Load() != int64(n) {
		t.Errorf("%d of %d", told.Load(), n)
	}
}

// TestFinishedOnce: the reply to a finish is lost, and the call is sent again: there is one record.
func TestFinishedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := newEndedTest(t, Options{URL: proxy.URL()})
	id := s.put("t", tube.Tags{})
	s.take("t")
	cutBehind(proxy, "finish", func() {})
	op := move(tube.Finish, 1, id)
	op.Args = &storage.Args{Data: []byte("once")}
	s.ok(op)
	if all := s.list("t", "", 10); len(all) != 1 || string(all[0].Result) != "once" {
		t.Errorf("%d records", len(all))
	}
	s.checkBytes("t")
}

// TestFinishesSurvive: Redis is killed while jobs are finished; with appendfsync always no acknowledged result is lost.
func TestFinishesSurvive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newEndedTest(t, Options{URL: server.URL(), Timeout: hasty})
	s.keep("t", tube.Policy{Rules: keepAnHour})
	var acknowledged []uint64
	for n := range 300 {
		if n == 150 {
			server.Kill()
			time.Sleep(50 * time.Millisecond)
			server.Restart()
		}
		if a := do(s.Store, put("x")); a.Err != nil {
			continue
		}
		a := do(s.Store, take(1))
		if a.Err != nil || a.ID == 0 {
			continue
		}
		op := move(tube.Finish, 1, a.ID)
		op.Args = &storage.Args{Data: []byte(digits(a.ID))}
		if f := do(s.Store, op); f.Err == nil && !f.NotFound {
			acknowledged = append(acknowledged, a.ID)
		}
	}
	for _, id := range acknowledged {
		if e := s.record(id); string(e.Result) != digits(id) {
			t.Errorf("%+v", e)
		}
	}
	if len(acknowledged) < 200 {
		t.Errorf("only %d were acknowledged", len(acknowledged))
	}
}
