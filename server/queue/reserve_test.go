package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/redis"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

func TestReserve(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx, h := w.Context(), w.NewHolder()
		if _, err := w.Reserve(ctx, h, []string{"t"}, 0); err != ErrTimedOut {
			t.Errorf("without a job: %v", err)
		}
		id := w.put("a")
		job, err := w.Reserve(ctx, h, []string{"other", "t"}, 0)
		if err != nil || job.ID != id || string(job.Body) != "a" {
			t.Errorf("got %v, %v", job, err)
		}
		if err := w.Delete(ctx, w.NewHolder(), id); err != ErrNotFound {
			t.Errorf("deleted by another holder: %v", err)
		}
		if err := w.Delete(ctx, h, id); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

// TestFirstComeFirstServed: waiters get the jobs in the order of their arrival, whether the
// jobs come one by one or together.
func TestFirstComeFirstServed(t *testing.T) {
	for _, together := range []bool{false, true} {
		withHarness(t, func(w *harness) {
			const n = 200
			var waits []<-chan outcome
			for range n {
				waits = append(waits, w.reserve(w.Context(), w.NewHolder(), storage.Forever))
			}
			if got := w.Waiters(); got != n {
				t.Errorf("%d wait, want %d", got, n)
			}
			if together {
				var puts []storage.Op
				for range n {
					puts = append(puts, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60})
				}
				if _, err := w.Do(w.Context(), puts...); err != nil {
					t.Fatal(err)
				}
			}
			for i, c := range waits {
				if !together {
					w.put("x")
				}
				if o := <-c; o.err != nil || o.job.ID != uint64(i+1) || o.took > 0 {
					t.Errorf("wait %d: job %d, %v, after %v", i, o.job.ID, o.err, o.took)
				}
			}
		})
	}
}

// TestReserveLimits: a wait ends at its limit, or when the TTR of a job that the holder has
// is about to end.
func TestReserveLimits(t *testing.T) {
	withHarness(t, func(w *harness) {
		h := w.NewHolder()
		o := <-w.reserve(w.Context(), h, 3*time.Second)
		if o.err != ErrTimedOut || o.took < 3*time.Second || o.took > 3*time.Second+5*time.Millisecond {
			t.Errorf("%v after %v", o.err, o.took)
		}
		if _, err := w.Put(w.Context(), NewJob{Tube: "t", TTR: 5}); err != nil {
			t.Fatal(err)
		}
		if o := <-w.reserve(w.Context(), h, storage.Forever); o.err != nil {
			t.Fatal(o.err)
		}
		o = <-w.reserve(w.Context(), h, storage.Forever)
		if o.err != ErrDeadlineSoon || o.took < 4*time.Second || o.took > 4*time.Second+5*time.Millisecond {
			t.Errorf("%v after %v", o.err, o.took)
		}
		if o := <-w.reserve(w.Context(), h, time.Minute); o.err != ErrDeadlineSoon || o.took > 0 {
			t.Errorf("%v after %v, already within the margin", o.err, o.took)
		}
	})
}

// TestTimer: a job that becomes ready because of a delay, a pause or a TTR wakes a waiter in
// time.
func TestTimer(t *testing.T) {
	for name, prepare := range map[string]func(w *harness){
		"delay": func(w *harness) { w.Put(w.Context(), NewJob{Tube: "t", Delay: 2, TTR: 60}) },
		"pause": func(w *harness) { w.put("x"); w.Pause(w.Context(), "t", 2) },
		"TTR": func(w *harness) {
			w.Put(w.Context(), NewJob{Tube: "t", TTR: 2})
			<-w.reserve(w.Context(), w.NewHolder(), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(w *harness) {
				prepare(w)
				for _, limit := range []time.Duration{storage.Forever, 2 * time.Second} {
					h := w.NewHolder()
					o := <-w.reserve(w.Context(), h, limit)
					if o.err != nil || o.took > 2*time.Second+5*time.Millisecond || limit == storage.Forever && o.took < 2*time.Second {
						t.Errorf("job %d, %v after %v", o.job.ID, o.err, o.took)
					}
					w.Release(w.Context(), h, 1, tube.Terms{Delay: 1})
				}
			})
		})
	}
}

// TestReserveIsCancelled: a wait whose context ends leaves nothing behind, and the waits
// behind it are served.
func TestReserveIsCancelled(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx, cancel := context.WithCancel(w.Context())
		first := w.reserve(ctx, w.NewHolder(), storage.Forever)
		second := w.reserve(w.Context(), w.NewHolder(), storage.Forever)
		cancel()
		if o := <-first; o.err != context.Canceled {
			t.Errorf("%v", o.err)
		}
		id := w.put("x")
		if o := <-second; o.job.ID != id || o.took > 0 {
			t.Errorf("job %d, %v after %v", o.job.ID, o.err, o.took)
		}
		w.wantState(id, tube.Reserved, 1, 0)
		if _, err := w.Reserve(ctx, 1, []string{"t"}, 0); err != context.Canceled {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

// TestCancelledWhileServed: the context ends while the store takes a job for the holder. The
// holder does not get the job, and the next one gets it at once.
func TestCancelledWhileServed(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		t.Run(fmt.Sprint("waiting ", waiting), func(t *testing.T) {
			withHarness(t, func(w *harness) {
				ctx, cancel := context.WithCancel(w.Context())
				var first <-chan outcome
				var id uint64
				if waiting {
					first = w.reserve(ctx, w.NewHolder(), storage.Forever)
				} else {
					id = w.put("x")
				}
				held, release := w.store.holdTakes()
				if waiting {
					id = w.put("x")
				} else {
					first = w.reserve(ctx, w.NewHolder(), storage.Forever)
				}
				<-held
				cancel()
				if o := <-first; o.err != context.Canceled || o.took > 0 {
					t.Errorf("%v after %v, while the store was busy", o.err, o.took)
				}
				release()
				synctest.Wait()
				w.wantState(id, tube.Ready, 1, 0)
				second := <-w.reserve(w.Context(), w.NewHolder(), storage.Forever)
				if second.job.ID != id || second.took > 0 {
					t.Errorf("job %d, %v after %v", second.job.ID, second.err, second.took)
				}
			})
		})
	}
}

// TestCancelledAtTheSameTime: contexts end while jobs arrive. Each job is either handed out
// once or ready.
func TestCancelledAtTheSameTime(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testCancelling(t, newQueue(t, embedded.NewMemory())) })
	t.Run("redis", func(t *testing.T) {
		store, err := redis.Open(t.Context(), redis.Options{URL: redistest.Start(t).URL()})
		if err != nil {
			t.Fatal(err)
		}
		testCancelling(t, newQueue(t, store))
	})
}

func testCancelling(t *testing.T, q *Queue) {
	const waits, jobs = 300, 150
	var all sync.WaitGroup
	var mu sync.Mutex
	got := make(map[uint64]int)
	for i := range waits {
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			job, err := q.Reserve(ctx, q.NewHolder(), []string{"t"}, storage.Forever)
			if err != nil && err != context.Canceled {
				t.Errorf("reserve: %v", err)
			}
			if err == nil {
				mu.Lock()
				got[job.ID]++
				mu.Unlock()
			}
		})
		all.Go(func() {
			defer cancel()
			time.Sleep(time.Duration(i%20) * 50 * time.Microsecond)
			if i >= jobs {
				return
			}
			if _, err := q.Put(context.Background(), NewJob{Tube: "t", TTR: 600}); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
	all.Wait()
	for id, n := range got {
		if n != 1 {
			t.Errorf("job %d was handed out %d times", id, n)
		}
	}
	awaitCounts(t, q, uint64(jobs-len(got)), uint64(len(got)))
	if n := q.Waiters(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// awaitCounts waits until that many jobs are ready and reserved: giving back jobs can take a
// moment.
func awaitCounts(t *testing.T, q *Queue, ready, reserved uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s, err := q.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Ready == ready && s.Reserved == reserved {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are ready and %d reserved, want %d and %d", s.Ready, s.Reserved, ready, reserved)
		}
	}
}

// TestDoIsCancelled: Do returns when its context ends, even if the store is busy. What it
// reserves after that is given back; other effects stay.
func TestDoIsCancelled(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx, cancel := context.WithCancel(w.Context())
		ids := []uint64{w.put("a"), w.put("b")}
		held, release := w.store.holdTakes()
		h := w.NewHolder()
		returned := make(chan error, 1)
		go func() {
			_, err := w.Do(ctx, storage.Op{Kind: storage.Take, Holder: h, Tubes: []string{"t"}},
				storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: h, ID: ids[1]},
				storage.Op{Kind: storage.Put, Tube: "t", TTR: 1, Pri: 7})
			returned <- err
		}()
		<-held
		cancel()
		if err := <-returned; err != context.Canceled {
			t.Errorf("%v", err)
		}
		release()
		synctest.Wait()
		for _, id := range ids {
			w.wantState(id, tube.Ready, 1, 0)
		}
		w.wantState(ids[1]+1, tube.Ready, 0, 0)
	})
}

// TestCloseEndsWaits: a waiting Reserve returns an error when the queue is closed.
func TestCloseEndsWaits(t *testing.T) {
	withHarness(t, func(w *harness) {
		c := w.reserve(w.Context(), w.NewHolder(), storage.Forever)
		other := New(w.store, Config{}) // for withHarness to close
		if err := w.Close(w.Context()); err != nil {
			t.Error(err)
		}
		if o := <-c; o.err != ErrClosed {
			t.Errorf("%v", o.err)
		}
		if _, err := w.Reserve(w.Context(), w.NewHolder(), []string{"t"}, time.Second); err != ErrClosed {
			t.Errorf("after Close: %v", err)
		}
		w.Queue = other
	})
}

// TestStoreFailsAReserve: the first take returns an error of the store to its caller; during
// a wait, errors of the store do not end the wait.
func TestStoreFailsAReserve(t *testing.T) {
	withHarness(t, func(w *harness) {
		waiting := w.reserve(w.Context(), w.NewHolder(), storage.Forever)
		w.store.set(func(s *slowStore) { s.fail = storage.ErrUnavailable })
		if o := <-w.reserve(w.Context(), w.NewHolder(), storage.Forever); !errors.Is(o.err, storage.ErrUnavailable) {
			t.Errorf("%v", o.err)
		}
		time.Sleep(3 * RetryEvery)
		w.store.set(func(s *slowStore) { s.fail = nil })
		id := w.put("x")
		if o := <-waiting; o.job.ID != id {
			t.Errorf("job %d, %v", o.job.ID, o.err)
		}
	})
}
