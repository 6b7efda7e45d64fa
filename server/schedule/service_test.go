package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// harness is a Service that runs on a memory engine, with virtual time.
type harness struct {
	*testing.T
	*Service
	ctx context.Context
	q   *queue.Queue
}

func withService(t *testing.T, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		h := &harness{T: t, Service: New(q, nil), ctx: ctx, q: q}
		ended := make(chan struct{})
		go func() { h.Service.Run(ctx); close(ended) }()
		test(h)
		cancel()
		<-ended
		if err := q.Close(context.Background()); err != nil {
			t.Error(err)
		}
		store.Close()
	})
}

// wait lets virtual time pass, until everything that is due then is done.
func (h *harness) wait(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// set sets a schedule named s of the tube t.
func (h *harness) set(set tube.Schedule) {
	h.Helper()
	set.Name, set.Tube, set.TTR, set.Body = "s", "t", 60, []byte("body")
	if err := h.Set(h.ctx, &set, nil); err != nil {
		h.Fatal(err)
	}
}

// take reserves a job of t; nil if there is none.
func (h *harness) take() *tube.JobStats {
	h.Helper()
	holder := h.q.NewHolder()
	answers, err := h.q.Do(h.ctx, storage.Op{Kind: storage.Take, Tubes: []string{"t"}, Holder: holder})
	if err != nil || answers[0].Err != nil {
		h.Fatal(err, answers)
	}
	if answers[0].NotFound {
		return nil
	}
	answers, err = h.q.Do(h.ctx, storage.Op{Kind: storage.JobStats, ID: answers[0].ID})
	if err != nil {
		h.Fatal(err)
	}
	return answers[0].Job
}

// remove deletes a job, whoever holds it.
func (h *harness) remove(j *tube.JobStats) {
	h.Helper()
	if _, err := h.q.Do(h.ctx, storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: j.Metadata.Key}}); err != nil {
		h.Fatal(err)
	}
}

// want checks the record of s.
func (h *harness) want(put, overlapped, missed, stopped uint64) {
	h.Helper()
	s, _, err := h.Get(h.ctx, "s", nil)
	if err != nil {
		h.Fatal(err)
	}
	got := [4]uint64{s.Results.Put, s.Results.Overlapped, s.Missed, s.Stopped}
	if want := [4]uint64{put, overlapped, missed, stopped}; got != want {
		h.Errorf("put, overlapped, missed, stopped are %v, want %v", got, want)
	}
}

// TestRun: each occurrence puts a job with its nominal time, at that time.
func TestRun(t *testing.T) {
	withService(t, func(h *harness) {
		begun := time.Now()
		h.set(tube.Schedule{Timing: tube.Timing{Every: 10 * time.Minute}, Tags: &tube.Tags{Meta: []tube.Meta{{Name: "a", Value: "b"}}}})
		for n := range 144 {
			h.wait(10 * time.Minute)
			j := h.take()
			if j == nil {
				h.Fatalf("no job %d", n)
			}
			o := j.Metadata.Occurrence
			if o == nil || o.Schedule != "s" || at(o.Nominal).Sub(begun) != time.Duration(n+1)*10*time.Minute || len(j.Metadata.AllNotes().Meta) != 1 || j.Metadata.Key != "schedule:s" {
				h.Fatalf("job %d: %+v %+v", n, j.Metadata, o)
			}
			h.remove(j)
		}
		h.want(144, 0, 0, 0)
		if n := h.Counts.Put.Load(); n != 144 || h.Counts.Lag.Read().Count() != 144 {
			h.Errorf("%d were counted", n)
		}
	})
}

// TestOverlap: what happens to an occurrence while the job before is there.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap         tube.Overlap
		put, overlapped uint64 // after five occurrences, the first of which is reserved
		ready           int    // jobs that can be reserved then
	}{
		{tube.OverlapSkip, 1, 4, 0},
		{tube.OverlapReplace, 5, 0, 1},
		{tube.OverlapAllow, 5, 0, 4},
		{tube.OverlapBuffer, 2, 3, 0},
	} {
		t.Run(fmt.Sprint(c.overlap), func(t *testing.T) {
			withService(t, func(h *harness) {
				h.set(tube.Schedule{Timing: tube.Timing{Every: 10 * time.Second}, Overlap: c.overlap, Tags: &tube.Tags{HasDelay: true}})
				h.wait(10 * time.Second)
				first := h.take()
				if first == nil {
					h.Fatal("no job")
				}
				h.wait(40 * time.Second)
				h.want(c.put, c.overlapped, 0, 0)
				ready := 0
				for h.take() != nil {
					ready++
				}
				if ready != c.ready {
					h.Errorf("%d can be reserved, want %d", ready, c.ready)
				}
			})
		})
	}
}

// TestBufferOne: the job that waits starts when the one before is done, and then there can be another one.
func TestBufferOne(t *testing.T) {
	withService(t, func(h *harness) {
		h.set(tube.Schedule{Timing: tube.Timing{Every: time.Hour}, Overlap: tube.OverlapBuffer})
		holder := h.q.NewHolder()
		h.wait(time.Hour)
		take := storage.Op{Kind: storage.Take, Tubes: []string{"t"}, Holder: holder}
		first, _ := h.q.Do(h.ctx, take)
		if first[0].NotFound {
			h.Fatal("no job")
		}
		if _, err := h.Put(h.ctx, "s", nil); err != nil { // waits behind it
			h.Fatal(err)
		}
		if a, err := h.Put(h.ctx, "s", nil); err != nil || a.Outcome != tube.PutExisting {
			h.Errorf("the third: %+v, %v", a.Result, err)
		}
		if second, _ := h.q.Do(h.ctx, take); !second[0].NotFound {
			h.Error("two run at a time")
		}
		h.q.Do(h.ctx, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: holder, ID: first[0].ID})
		second, _ := h.q.Do(h.ctx, take)
		if second[0].NotFound {
			h.Error("the second does not start")
		}
		if a, err := h.Put(h.ctx, "s", nil); err != nil || a.Outcome != tube.PutNew {
			h.Errorf("behind the second: %+v, %v", a.Result, err)
		}
		h.want(3, 1, 0, 0)
	})
}

// TestPause: what is due during a pause is not put, and the schedule goes on as if it had been.
func TestPause(t *testing.T) {
	withService(t, func(h *harness) {
		h.set(tube.Schedule{Timing: tube.Timing{Every: 10 * time.Minute}, Overlap: tube.OverlapAllow})
		h.wait(25 * time.Minute)
		for range 2 {
			if err := h.Pause(h.ctx, "s", nil); err != nil {
				h.Fatal(err)
			}
		}
		h.wait(30 * time.Minute)
		h.want(2, 0, 0, 0)
		for range 2 {
			if err := h.Resume(h.ctx, "s", nil); err != nil {
				h.Fatal(err)
			}
		}
		h.wait(5 * time.Minute)
		h.want(3, 0, 0, 3)
	})
}

// TestDrain: nothing is put while the server drains; after that what catch-up allows.
func TestDrain(t *testing.T) {
	withService(t, func(h *harness) {
		h.set(tube.Schedule{Timing: tube.Timing{Every: 10 * time.Minute}, Overlap: tube.OverlapAllow})
		h.q.Drain()
		h.wait(35 * time.Minute)
		h.want(0, 0, 0, 0)
		if _, err := h.Put(h.ctx, "s", nil); !errors.Is(err, queue.ErrDraining) {
			h.Error(err)
		}
		h.q.Undrain()
		h.wait(4 * time.Second)
		h.want(1, 0, 2, 0)
	})
}

// TestSet: a schedule keeps its place if its timing is the same, an unchanged one is not written, and it stays in
// its tube.
func TestSet(t *testing.T) {
	withService(t, func(h *harness) {
		set := tube.Schedule{Timing: tube.Timing{Every: 10 * time.Minute}, Tags: new(tube.Tags)}
		h.set(set)
		h.wait(15 * time.Minute)
		before, _, _ := h.Get(h.ctx, "s", nil)
		h.set(set)
		if after, _, _ := h.Get(h.ctx, "s", nil); after.Version != before.Version || after.Next != before.Next {
			h.Errorf("%+v, before %+v", after, before)
		}
		moved := tube.Schedule{Name: "s", Tube: "other", Timing: set.Timing}
		var wrong *FieldError
		if err := h.Set(h.ctx, &moved, nil); !errors.As(err, &wrong) || wrong.Field != "tube" {
			h.Errorf("another tube: %v", err)
		}
		if err := h.Delete(h.ctx, "s", nil); err != nil {
			h.Error(err)
		}
		if err := h.Set(h.ctx, &moved, nil); err != nil {
			h.Error(err)
		}
		denied := errors.New("denied")
		if err := h.Set(h.ctx, &moved, func(string) error { return denied }); err != denied {
			h.Error(err)
		}
	})
}

// TestManyAtOnce: 10,000 schedules that are due in one second are put within it, and others are not held up.
func TestManyAtOnce(t *testing.T) {
	withService(t, func(h *harness) {
		const n = 10_000
		for i := range n {
			set := tube.Schedule{Name: fmt.Sprint("s", i), Tube: "t", TTR: 60, Timing: tube.Timing{Cron: "0 * * * *"}}
			if err := h.Set(h.ctx, &set, nil); err != nil {
				h.Fatal(err)
			}
		}
		h.wait(time.Hour)
		if put := h.Counts.Put.Load(); put != n {
			h.Errorf("%d were put", put)
		}
		list, next, err := h.List(h.ctx, 1000, "s5", nil)
		if err != nil || len(list) != 1000 || list[0].Name != "s50" || next == "" || list[0].Body != nil {
			h.Errorf("a list of %d, %q, %v", len(list), next, err)
		}
	})
}
