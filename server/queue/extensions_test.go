package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// TestTagsAndKeys: the blocking calls for extensions do what they say.
func TestTagsAndKeys(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx := context.Background()
		put := func() tube.PutAnswer {
			a, err := w.PutTagged(ctx, NewJob{Tube: "t", TTR: 60, Body: []byte("x")}, &tube.Tags{Key: "k"})
			if err != nil {
				w.Fatal(err)
			}
			return a
		}
		if first, again := put(), put(); first.ID != 1 || again != (tube.PutAnswer{Result: tube.PutExisting, ID: 1, State: tube.Ready}) {
			w.Errorf("the put came to %+v, and again to %+v", first, again)
		}
		job, err := w.PeekKey(ctx, "t", "k")
		found, err2 := w.FindKey(ctx, "k")
		if err != nil || err2 != nil || job.ID != 1 || string(job.Body) != "x" || len(found) != 1 || found[0].Tube != "t" {
			w.Errorf("found %+v and %+v (%v, %v)", job, found, err, err2)
		}
		if err := errors.Join(w.DeleteKey(ctx, "t", "k"), w.SetPolicy(ctx, "t", &tube.Policy{Rules: tube.Rules{Max: 7}})); err != nil {
			w.Error(err)
		}
		p, err := w.Policy(ctx, "t")
		names, err2 := w.Policies(ctx)
		if err != nil || err2 != nil || p.Max != 7 || !slices.Equal(names, []string{"t"}) {
			w.Errorf("policies %v, %+v (%v, %v)", names, p, err, err2)
		}
		for _, err := range []error{w.DeleteKey(ctx, "t", "k"), w.MoveLeased(ctx, tube.Delete, 1, 1, tube.Terms{})} {
			if !errors.Is(err, ErrNotFound) {
				w.Errorf("for a job that is gone the error is %v", err)
			}
		}
	})
}

// TestHungOfSome: jobs that somebody may not see do not take the place of those that they may.
func TestHungOfSome(t *testing.T) {
	withHarness(t, func(w *harness) {
		const theirs = 2*tube.MaxListed + 3
		ctx, touches := context.Background(), []storage.Op{}
		for i := range theirs + 1 {
			name := map[bool]string{true: "mine", false: "theirs"}[i == theirs]
			id, err := w.Put(ctx, NewJob{Tube: name, TTR: 1})
			_, err2 := w.Do(ctx, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
			if err := errors.Join(err, err2); err != nil {
				w.Fatal(err)
			}
			touches = append(touches, storage.Op{Kind: storage.Move, Move: tube.Touch, Holder: 1, ID: id})
		}
		for range 15 {
			time.Sleep(800 * time.Millisecond)
			if _, err := w.Do(ctx, touches...); err != nil {
				w.Fatal(err)
			}
		}
		for name, want := range map[string]int{"mine": 1, "theirs": tube.MaxListed, "": 0} {
			found, err := w.Hung(ctx, func(tube string) bool { return tube == name })
			if err != nil || len(found) != want || want > 0 && found[want-1].Tube != name {
				w.Errorf("of %s %d hang, not %d: %v", name, len(found), want, err)
			}
		}
	})
}

// TestReserveLease: a lease waits like a reserve, and any caller who knows it can use it. If
// its caller leaves before it has the lease, the job is given back.
func TestReserveLease(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx := context.Background()
		go func() {
			time.Sleep(time.Second)
			w.Put(ctx, NewJob{Tube: "t", TTR: 60})
		}()
		job, err := w.ReserveLease(ctx, []string{"t"}, time.Minute)
		if err != nil || job.Lease == 0 {
			w.Fatalf("the lease is %+v (%v)", job, err)
		}
		if err := w.MoveLeased(ctx, tube.Release, job.ID, job.Lease, tube.Terms{}); err != nil {
			w.Error(err)
		}
		ended, end := context.WithCancel(ctx)
		w.store.set(func(s *slowStore) { s.hold = func(*storage.Batch) { end(); time.Sleep(time.Second) } })
		if _, err := w.ReserveLease(ended, []string{"t"}, time.Minute); !errors.Is(err, context.Canceled) {
			w.Errorf("a call whose context has ended: %v", err)
		}
		w.store.set(func(s *slowStore) { s.hold = nil })
		time.Sleep(5 * time.Second)
		if s, err := w.JobStats(ctx, job.ID); err != nil || s.State != tube.Ready || s.Counters[tube.Reserves] != 2 {
			w.Errorf("afterwards the job is %+v (%v)", s, err)
		}
	})
}

// TestLeaseCountsAsWatching: a caller that waits for a lease counts as watching the tubes,
// so these exist while it waits, however the wait ends. A caller that does not wait does not
// count.
func TestLeaseCountsAsWatching(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx := context.Background()
		tubes := make([]string, 2*maxTubesPerRef+1)
		for i := range tubes {
			tubes[i] = fmt.Sprint("t", i)
		}
		counted := func(watching, waiting uint64) {
			w.Helper()
			synctest.Wait()
			for _, name := range []string{tubes[0], tubes[2*maxTubesPerRef]} {
				s, err := w.TubeStats(ctx, name)
				if watching == 0 && !errors.Is(err, ErrNotFound) {
					w.Errorf("nobody waits, and the tube is %+v (%v)", s, err)
				}
				if watching > 0 && (err != nil || s.Watching != watching || s.Waiting != waiting) {
					w.Errorf("of the tube is known %+v (%v), want %d watching, %d waiting", s, err, watching, waiting)
				}
			}
		}
		w.ReserveLease(ctx, tubes, 0)
		counted(0, 0)
		leaving, leave := context.WithCancel(ctx)
		for i, end := range []func(){leave, func() { w.Put(ctx, NewJob{Tube: tubes[0], TTR: 60}) }, func() { time.Sleep(time.Minute) }} {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				job, err := w.ReserveLease(leaving, tubes, time.Minute)
				if err == nil {
					w.MoveLeased(ctx, tube.Delete, job.ID, job.Lease, tube.Terms{})
				}
			}()
			counted(1, 1)
			end()
			<-ended
			if counted(0, 0); i == 0 {
				leaving = ctx
			}
		}
	})
}

// TestLeasedCheckpoints: what a lease saves comes with the job to whoever reserves it next, unless it was kicked.
func TestLeasedCheckpoints(t *testing.T) {
	withHarness(t, func(w *harness) {
		ctx := context.Background()
		reserve := func(want string) Leased {
			w.Helper()
			jobs, err := w.ReserveLeases(ctx, []string{"t"}, 2, time.Second)
			if err != nil || len(jobs) != 1 || string(jobs[0].Checkpoint) != want {
				w.Fatalf("reserved %+v (%v), not a job with the checkpoint %q", jobs, err, want)
			}
			return jobs[0]
		}
		if _, err := w.Put(ctx, NewJob{Tube: "t", TTR: 60}); err != nil {
			w.Fatal(err)
		}
		text := "1/2"
		for i, want := range []string{"", "saved", "saved", ""} {
			job := reserve(want)
			err := errors.Join(
				w.MoveLeased(ctx, tube.SaveCheckpoint, job.ID, job.Lease, tube.Terms{Data: []byte("saved")}),
				w.MoveLeased(ctx, tube.Touch, job.ID, job.Lease, tube.Terms{Progress: &text}),
				w.MoveLeased(ctx, tube.Bury, job.ID, job.Lease, tube.Terms{Reason: "no"}))
			stats, err2 := w.JobStats(ctx, job.ID)
			if err := errors.Join(err, err2); err != nil || stats.Metadata.Progress != text || stats.Metadata.Notes.Reason != "no" {
				w.Fatalf("then the job is %+v (%v)", stats, err)
			}
			switch i {
			case 0:
				err = w.KickJob(ctx, job.ID, true)
			case 1:
				_, err = w.Kick(ctx, "t", 1, true)
			case 2:
				err = w.Replay(ctx, job.ID, false)
			}
			data, err2 := w.Checkpoint(ctx, job.ID)
			if err != nil || (err2 != nil) != (i == 2) || err2 != nil && !errors.Is(err2, ErrNotFound) || i != 2 && string(data) != "saved" {
				w.Errorf("kicked (%v), its checkpoint is %q (%v)", err, data, err2)
			}
		}
	})
}
