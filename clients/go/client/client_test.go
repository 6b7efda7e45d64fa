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

func TestLifeOfAJob(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		id := mustPut(t, c, "mails", "hello", client.Priority(7), client.TTR(time.Minute))
		consumer := c.Consume("mails")
		defer consumer.Close()
		job, err := consumer.Reserve(ctx, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if job.ID != id || string(job.Body) != "hello" || (job.Lease != "") != on.Leases() {
			t.Errorf("reserved %d %q with lease %q", job.ID, job.Body, job.Lease)
		}
		if s, err := job.Stats(ctx); err != nil || s.Tube != "mails" || s.Priority != 7 || s.TTR != time.Minute || s.Deliveries != 1 || s.State != "reserved" {
			t.Errorf("stats %+v, %v", s, err)
		}
		if err := errors.Join(job.Touch(ctx), job.Release(ctx, 0)); err != nil {
			t.Error(err)
		}
		if job, err = consumer.Reserve(ctx, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := job.Bury(ctx); err != nil {
			t.Error(err)
		}
		if s, err := c.JobStats(ctx, id); err != nil || s.State != "buried" || s.Priority != 7 || s.Failures != 1 {
			t.Errorf("stats %+v, %v", s, err)
		}
	})
}

func TestSizes(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		consumer := c.Consume("sizes")
		defer consumer.Close()
		for _, size := range []int{0, 1, 4096, 65535} {
			body := bytes.Repeat([]byte("\r\n"), size)[:size]
			mustPut(t, c, "sizes", string(body))
			job, err := consumer.Reserve(ctx, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(job.Body, body) || job.Body == nil {
				t.Errorf("%d bytes came as %d", size, len(job.Body))
			}
			if err := job.Delete(ctx); err != nil {
				t.Error(err)
			}
		}
		_, err := c.Put(ctx, "sizes", make([]byte, 65536))
		wantErr(t, err, client.ErrTooBig)
		mustPut(t, c, "sizes", "the connection still works")
	})
}

// TestConcurrent: replies reach those who called, and jobs the right tube.
func TestConcurrent(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		var wg sync.WaitGroup
		for g := range 20 {
			wg.Go(func() {
				for i := range 50 {
					tube := fmt.Sprintf("tube-%d", (g+i)%3)
					id := mustPut(t, c, tube, fmt.Sprint(tube, g, i))
					s, err := c.JobStats(ctx, id)
					body, err2 := c.Peek(ctx, id)
					if err := errors.Join(err, err2); err != nil || s.Tube != tube || string(body) != fmt.Sprint(tube, g, i) {
						t.Errorf("%q in tube %q is in %+v, %v", body, tube, s, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestTags(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		all := []client.PutOption{
			client.Key("a"), client.OnDuplicate(client.FailIfTaken), client.KeyTTL(time.Hour), client.Delay(1500 * time.Millisecond),
			client.Retry(time.Second, 10*time.Minute), client.MaxDeliveries(4), client.Dead("dead"), client.Tag("jitter", "0"),
		}[:7]
		r, err := c.Put(ctx, "tags", []byte("x"), all...)
		if !on.Leases() {
			var unsupported *client.UnsupportedError
			if wantErr(t, err, client.ErrUnsupported); !errors.As(err, &unsupported) || unsupported.Feature != "put with key" {
				t.Errorf("error %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.JobStats(ctx, r.ID)
		if err != nil || s.Key != "a" || s.Retry != "1s,10m" || s.Max != 4 || s.Dead != "dead" || s.State != "delayed" || s.Left > 1500*time.Millisecond {
			t.Errorf("%+v, %v", s, err)
		}
		r2, err := c.Put(ctx, "tags", nil, client.Key("a"), client.OnDuplicate(client.FailIfTaken))
		if wantErr(t, err, client.ErrDuplicate); r2.ID != r.ID {
			t.Errorf("duplicate of job %d, want %d", r2.ID, r.ID)
		}
		if r2, err = c.Put(ctx, "tags", nil, client.Key("a")); err != nil || r2 != (client.Receipt{ID: r.ID, State: "DELAYED"}) {
			t.Errorf("%+v, %v", r2, err)
		}
		if id, body, err := c.Find(ctx, "tags", "a"); err != nil || id != r.ID || string(body) != "x" {
			t.Errorf("found %d %q, %v", id, body, err)
		}
		if err := c.DeleteKey(ctx, "tags", "a"); err != nil {
			t.Error(err)
		}
		if r2, err = c.Put(ctx, "tags", nil, client.Key("a")); err != nil || r2.State != "GONE" {
			t.Errorf("%+v, %v", r2, err)
		}
		_, err = c.Put(ctx, "tags", []byte("quit\r\nquit"), client.Tag("no-such-tag", "1"))
		wantErr(t, err, client.ErrInvalid)
	})
}

// TestDue: jobs with a delay and a time come when they are due.
func TestDue(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		start := time.Now()
		mustPut(t, c, "due", "delay", client.Delay(time.Second))
		mustPut(t, c, "due", "at", client.At(start.Add(1200*time.Millisecond)))
		consumer := c.Consume("due")
		defer consumer.Close()
		var got []string
		for range 2 {
			job, err := consumer.Reserve(limited(t), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(job.Body))
			if since := time.Since(start); since < 900*time.Millisecond {
				t.Errorf("%s after %v", job.Body, since)
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"at", "delay"}) {
			t.Error(got)
		}
	})
}

func TestReserveBatch(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		consumer := c.Consume("batch")
		defer consumer.Close()
		if jobs, err := consumer.ReserveBatch(ctx, 10, 0); err != nil || len(jobs) != 0 {
			t.Errorf("%d jobs, %v", len(jobs), err)
		}
		_, err := consumer.Reserve(ctx, 0)
		wantErr(t, err, client.ErrNoJob)
		for i := range 5 {
			mustPut(t, c, "batch", fmt.Sprint(i))
		}
		want := 4
		if !on.Leases() {
			want = 1
		}
		jobs, err := consumer.ReserveBatch(ctx, 4, time.Second)
		if err != nil || len(jobs) != want {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		for _, job := range jobs {
			if err := job.Delete(ctx); err != nil {
				t.Error(err)
			}
			wantErr(t, job.Delete(ctx), client.ErrNotFound)
		}
	})
}

// TestReserveGivenUp: a reserve ends with its context, and loses no job.
func TestReserveGivenUp(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		consumer := c.Consume("given-up")
		defer consumer.Close()
		ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer stop()
		start := time.Now()
		_, err := consumer.Reserve(ctx, time.Minute)
		if wantErr(t, err, context.DeadlineExceeded); time.Since(start) > 2*time.Second {
			t.Errorf("ended after %v", time.Since(start))
		}
		time.Sleep(300 * time.Millisecond) // the server has noticed
		id := mustPut(t, c, "given-up", "x")
		job, err := consumer.Reserve(limited(t), 5*time.Second)
		if err != nil || job.ID != id {
			t.Fatal(err)
		}
		if s, err := job.Stats(limited(t)); err != nil || s.Deliveries != 1 {
			t.Errorf("%+v, %v; want the first delivery", s, err)
		}
	})
}

func TestInvalid(t *testing.T) {
	c := client.New("127.0.0.1:1")
	defer c.Close()
	for name, opt := range map[string]client.PutOption{
		"": nil, "-a": nil, "a b": nil, "a\r\nquit": nil,
		"key": client.Key("a b"), "no-key": client.Key(""), "tag": client.Tag("a", "b\r\nquit"), "dead": client.Dead("-"), "retry": client.Retry(),
	} {
		opts := []client.PutOption{opt}
		if opt == nil {
			opts = nil
		}
		_, err := c.Put(t.Context(), name, nil, opts...)
		wantErr(t, err, client.ErrInvalid)
	}
	if _, err := c.Put(t.Context(), "a", nil, client.Key("a b")); !strings.Contains(err.Error(), "without spaces") {
		t.Error(err)
	}
}

// TestStatsOfMany: jobs that are fetched together have their own stats, also if these are equal.
func TestStatsOfMany(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if !on.Leases() {
			t.Skip("beanstalkd sends no stats with a job")
		}
		ctx := limited(t)
		for _, meta := range []string{"a", "a", "b"} {
			if _, err := c.Put(ctx, "alike", nil, client.Meta("m", meta)); err != nil {
				t.Fatal(err)
			}
		}
		consumer := c.Consume("alike")
		defer consumer.Close()
		jobs, err := consumer.ReserveBatch(ctx, 3, time.Second)
		if err != nil || len(jobs) != 3 {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		for i, want := range []string{"a", "a", "b"} {
			s := jobs[i].Known()
			if s == nil || s.ID != jobs[i].ID || s.Tube != "alike" || s.Meta["m"] != want {
				t.Fatalf("job %d: %+v", jobs[i].ID, s)
			}
			s.Meta["m"] = "changed"
		}
	})
}

// TestMeta: headers, a trace and the reason of a failure come with the job, and are in its stats.
func TestMeta(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		const trace, odd = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a \"b\" \\ c\n\té, {x: y}"
		_, err := c.Put(ctx, "meta", nil, client.Meta("a", odd), client.Meta("B_2", ""), client.Trace(trace))
		if !on.Leases() {
			wantErr(t, err, client.ErrUnsupported)
			mustPut(t, c, "meta", "")
		} else if err != nil {
			t.Fatal(err)
		}
		consumer := c.Consume("meta")
		defer consumer.Close()
		reserve := func() *client.Job {
			job, err := consumer.Reserve(ctx, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return job
		}
		if err := reserve().Release(ctx, 0, client.Reason("\x00\xff"+odd+strings.Repeat("ü", 300))); err != nil {
			t.Fatal(err)
		}
		job := reserve()
		if !on.Leases() {
			if err := errors.Join(job.Release(ctx, 0, client.NoFailure()), reserve().Bury(ctx, client.Reason("x"))); err != nil {
				t.Error(err)
			}
			return
		}
		stats, err := c.JobStats(ctx, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*client.Stats{job.Known(), stats} {
			reason := strings.HasPrefix(s.Reason, odd+"ü") && len(s.Reason) > 508 && len(s.Reason) <= 512
			if s.Meta["a"] != odd || len(s.Meta) != 2 || s.Trace != trace || !reason || time.Since(s.Failed) > time.Minute || s.Failures != 1 {
				t.Errorf("%+v", s)
			}
			if len(s.Attempts) != 1 || s.Attempts[0].How != "released" || !s.Attempts[0].Ended.Equal(s.Failed) || !strings.HasPrefix(s.Reason, s.Attempts[0].Reason) || s.Attempts[0].Reason == "" {
				t.Errorf("attempts: %+v", s.Attempts)
			}
		}
		if err := job.Release(ctx, 0, client.NoFailure()); err != nil {
			t.Fatal(err)
		}
		if job = reserve(); job.Known().Failures != 1 || job.Known().Deliveries != 2 {
			t.Errorf("%+v", job.Known())
		}
		if err := job.Bury(ctx, client.Reason("no")); err != nil {
			t.Error(err)
		}
		if s, err := c.JobStats(ctx, job.ID); err != nil || s.Reason != "no" {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestName: a name does no harm, whether the server knows names or not.
func TestName(t *testing.T) {
	onEngines(t, func(t *testing.T, _ *client.Client, on *testserver.Cluster) {
		c := client.New(on.Addr(), client.Name("mailer-7"))
		defer c.Close()
		mustPut(t, c, "named", "x")
		wrong := client.New(on.Addr(), client.Name("a b"))
		defer wrong.Close()
		_, err := wrong.Put(limited(t), "named", nil)
		wantErr(t, err, client.ErrInvalid)
	})
}

// TestExpire: the options of expiry and growing waits reach the server.
func TestExpire(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		opts := []client.PutOption{client.Expire(time.Second), client.OnExpire(client.ParkExpired), client.RetryExp(time.Second, time.Hour, 25), client.Jitter(20)}
		r, err := c.Put(ctx, "expire", nil, opts...)
		if !on.Leases() {
			wantErr(t, err, client.ErrUnsupported)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, err := c.JobStats(ctx, r.ID); err != nil || s.Retry != "exp(1s,1h,25)" {
			t.Errorf("%+v, %v", s, err)
		}
		for range 500 {
			if s, err := c.JobStats(ctx, r.ID); err == nil && s.State == "buried" && s.Parked == "expired" {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error("the job has not expired")
	})
}
