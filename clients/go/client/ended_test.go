package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
)

// reserved puts a job and reserves it.
func reserved(t *testing.T, c *client.Client, tube string, opts ...client.PutOption) *client.Job {
	t.Helper()
	mustPut(t, c, tube, "body", opts...)
	consumer := c.Consume(tube)
	t.Cleanup(consumer.Close)
	job, err := consumer.Reserve(limited(t), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// TestWait: a wait returns how a job has ended, before and after it began.
func TestWait(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if !on.Leases() {
			_, err := c.Wait(limited(t), 1)
			wantErr(t, err, client.ErrUnsupported)
			wantErr(t, reserved(t, c, "wait").Finish(limited(t), []byte("x")), client.ErrUnsupported)
			return
		}
		keep := client.Keep(time.Hour)
		job := reserved(t, c, "wait", keep, client.Meta("a", "b, }"), client.Key("k"))
		waiting := make(chan *client.Ended)
		go func() {
			e, err := c.Wait(limited(t), job.ID)
			if err != nil {
				t.Error(err)
			}
			waiting <- e
		}()
		time.Sleep(50 * time.Millisecond)
		binary := []byte("\x00\r\nENDED 1 done 0\r\n\xff")
		wantErr(t, job.Finish(limited(t), make([]byte, client.MaxResult+1)), client.ErrTooBig)
		if err := job.Finish(limited(t), binary); err != nil {
			t.Fatal(err)
		}
		if e := <-waiting; e == nil || e.How != client.Done || !bytes.Equal(e.Result, binary) {
			t.Errorf("%+v", e)
		}
		wantErr(t, job.Finish(limited(t), nil), client.ErrNotFound)
		wantRecord(t, c, job.ID, binary)

		empty := reserved(t, c, "empty", keep)
		if err := empty.Finish(limited(t), nil); err != nil {
			t.Error(err)
		}
		parked := reserved(t, c, "parked", keep)
		parked.Bury(limited(t), client.Reason("bad input"))
		dead := reserved(t, c, "dying", keep, client.MaxDeliveries(1), client.Dead("morgue"))
		dead.Release(limited(t), 0)
		gone := mustPut(t, c, "gone", "", keep)
		c.Delete(limited(t), gone)
		for id, want := range map[uint64]string{
			empty.ID: "done ", parked.ID: "parked bad input", dead.ID: "dead morgue", gone: "deleted ",
		} {
			e, err := c.Wait(limited(t), id)
			if err != nil || fmt.Sprintf("%s %s%s%s", e.How, e.Result, e.Reason, e.ToTube) != want || (e.ToID != 0) != (e.ToTube != "") {
				t.Errorf("job %d: %+v, %v; want %s", id, e, err, want)
			}
		}
		wantNoWait(t, c, keep)
	})
}

func wantRecord(t *testing.T, c *client.Client, id uint64, result []byte) {
	t.Helper()
	check := func(e *client.Ended, err error) {
		t.Helper()
		if err != nil || e.ID != id || e.How != client.Done || !bytes.Equal(e.Result, result) || e.Meta["a"] != "b, }" || e.Key != "k" ||
			e.Tube != "wait" || e.Deliveries != 1 || e.Put.IsZero() || e.At.Before(e.FirstStart) || !e.Until.Equal(e.At.Add(time.Hour)) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	check(c.EndedJob(limited(t), id))
	n := 0
	for e, err := range c.Ended(limited(t), "wait") {
		n++
		check(e, err)
	}
	if n != 1 {
		t.Errorf("%d records", n)
	}
}

// wantNoWait: what cannot be waited for says so.
func wantNoWait(t *testing.T, c *client.Client, keep client.PutOption) {
	t.Helper()
	_, err := c.Wait(limited(t), 1<<40)
	wantErr(t, err, client.ErrNotFound)
	_, err = c.EndedJob(limited(t), 1<<40)
	wantErr(t, err, client.ErrNotFound)
	forgotten := reserved(t, c, "forgotten")
	_, err = c.Wait(limited(t), forgotten.ID)
	wantErr(t, err, client.ErrNotKept)
	wantErr(t, forgotten.Finish(limited(t), []byte("x")), client.ErrNotKept)
	if err := forgotten.Delete(limited(t)); err != nil {
		t.Error(err)
	}
	ready := mustPut(t, c, "ready", "", keep)
	for _, d := range []time.Duration{20 * time.Millisecond, 1200 * time.Millisecond} {
		ctx, stop := context.WithTimeout(t.Context(), d)
		began := time.Now()
		_, err = c.Wait(ctx, ready)
		wantErr(t, err, context.DeadlineExceeded)
		if took := time.Since(began); took > d+5*time.Second {
			t.Errorf("a wait of %v took %v", d, took)
		}
		stop()
	}
	ctx, stop := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { stop(reason) })
	_, err = c.Wait(ctx, ready)
	wantErr(t, err, reason)
}

// TestWaitThroughRestart: waits that were cancelled leave the others as they are, and these go on when the server is killed and
// comes back; without a server they end.
func TestWaitThroughRestart(t *testing.T) {
	testserver.CheckLeaks(t)
	on := testserver.Embedded(t)
	c, brief := client.New(on.Addr(), client.Wait(30*time.Second)), client.New(on.Addr(), client.Wait(time.Second))
	defer c.Close()
	defer brief.Close()
	keep := client.Keep(time.Hour)
	id, other := mustPut(t, c, "restart", "", keep), mustPut(t, c, "restart", "", keep)
	wait := func(ctx context.Context, c *client.Client, id uint64) <-chan error {
		result := make(chan error, 1)
		go func() {
			_, err := c.Wait(ctx, id)
			result <- err
		}()
		return result
	}
	ctx, stop := context.WithCancel(t.Context())
	var cancelled []<-chan error
	for range 20 {
		cancelled = append(cancelled, wait(ctx, c, other))
	}
	waiting := wait(limited(t), c, id)
	time.Sleep(100 * time.Millisecond)
	stop()
	for _, result := range cancelled {
		wantErr(t, <-result, context.Canceled)
	}
	on.Servers[0].Kill()
	on.Restart(t, 0)
	if err := c.Delete(limited(t), id); err != nil {
		t.Fatal(err)
	}
	wantErr(t, <-waiting, nil)
	waiting = wait(limited(t), brief, other)
	time.Sleep(100 * time.Millisecond)
	on.Servers[0].Kill()
	wantErr(t, <-waiting, client.ErrUnavailable)
	waiting = wait(limited(t), c, other)
	c.Close()
	wantErr(t, <-waiting, client.ErrClosed)
}

// TestEndedPages: a list of more records than a page has is complete, the newest first; so is that of a batch.
func TestEndedPages(t *testing.T) {
	c := client.New(testserver.Memory(t).Addr())
	defer c.Close()
	jobs := make([]client.NewJob, 2500)
	for i := range jobs {
		jobs[i] = client.NewJob{Tube: "pages", Body: []byte("x"), Options: []client.PutOption{client.Keep(time.Hour), client.Member("b")}}
	}
	var ids []uint64
	results, err := c.PutMany(limited(t), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		ids = append(ids, r.ID)
	}
	if _, err := c.Exec(limited(t), client.Command{Line: "flush-tube pages"}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"pages", "batch:b"} {
		var got []uint64
		for e, err := range c.Ended(limited(t), of) {
			if err != nil || e.How != client.Deleted || e.Batch != "b" {
				t.Fatalf("%+v, %v", e, err)
			}
			got = append(got, e.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %d records of %d", of, len(got), len(ids))
		}
	}
}

// TestManyWaits: 10,000 waits at the same time have few connections, and none misses the end of its job.
func TestManyWaits(t *testing.T) {
	testserver.CheckLeaks(t)
	on := testserver.Memory(t)
	c, w := client.New(on.Addr()), client.New(on.Addr())
	defer c.Close()
	defer w.Close()
	n := 10000
	if testing.Short() {
		n = 1000 // each asks again and again, which is much with the race detector
	}
	jobs := make([]client.NewJob, n)
	for i := range jobs {
		jobs[i] = client.NewJob{Tube: "many", Body: []byte(fmt.Sprint(i)), Options: []client.PutOption{client.Keep(time.Hour)}}
	}
	put, err := w.PutMany(limited(t), jobs)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, r := range put {
		wg.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			if e, err := c.Wait(ctx, r.ID); err != nil || string(e.Result) != fmt.Sprint(i) {
				t.Errorf("job %d: %+v, %v", r.ID, e, err)
			}
		})
	}
	began := time.Now()
	consumer := w.Consume("many")
	defer consumer.Close()
	for left := n; left > 0; {
		jobs, err := consumer.ReserveBatch(limited(t), 100, 5*time.Second)
		if err != nil || len(jobs) == 0 {
			t.Fatal(err)
		}
		for _, job := range jobs {
			if err := job.Finish(limited(t), job.Body); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(jobs)
	}
	took := time.Since(began)
	wg.Wait()
	t.Logf("all jobs had ended after %v, all waits after %v", took, time.Since(began))
	reply, err := w.Exec(limited(t), client.Command{Line: "stats"})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(reply.Body)) {
		var connections int
		if _, err := fmt.Sscanf(line, "total-connections: %d", &connections); err == nil && connections > 30 {
			t.Errorf("%d connections", connections)
		}
	}
}
