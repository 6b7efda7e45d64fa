package client_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
)

// reserveWithin returns the body of the next job of a tube, which it deletes; "" if there is none within a time.
func reserveWithin(t *testing.T, c *client.Client, tube string, wait time.Duration) string {
	t.Helper()
	consumer := c.Consume(tube)
	defer consumer.Close()
	job, err := consumer.Reserve(limited(t), wait)
	if err != nil {
		wantErr(t, err, client.ErrNoJob)
		return ""
	}
	if err := job.Delete(limited(t)); err != nil {
		t.Error(err)
	}
	return string(job.Body)
}

// TestBatch: the jobs after a batch run once it is sealed and its members are deleted; after-all also runs if a member was
// removed otherwise.
func TestBatch(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx, b := limited(t), c.Batch("import")
		if !on.Leases() {
			_, err := b.Add(ctx, "rows", []byte("1"))
			wantErr(t, err, client.ErrUnsupported)
			wantErr(t, b.Seal(ctx), client.ErrUnsupported)
			return
		}
		_, err := b.Stats(ctx)
		wantErr(t, err, client.ErrNotFound)
		put := func(add func(context.Context, string, []byte, ...client.PutOption) (client.Receipt, error), tube, body string, opts ...client.PutOption) uint64 {
			t.Helper()
			r, err := add(ctx, tube, []byte(body), opts...)
			if err != nil {
				t.Fatal(err)
			}
			return r.ID
		}
		put(b.Add, "rows", "1", client.BatchTTL(time.Hour))
		put(b.Add, "rows", "2")
		id := put(b.Then, "mails", "done", client.Member("next"))
		if s, err := c.JobStats(ctx, id); err != nil || s.Batch != "next" || s.After != "import" || s.Held != "batch" || s.State != "delayed" {
			t.Errorf("stats %+v, %v", s, err)
		}
		if err := b.Seal(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = b.Add(ctx, "rows", []byte("3"))
		wantErr(t, err, client.ErrBatchSealed)
		s, err := b.Stats(ctx)
		want := []client.AfterJob{{ID: id, Tube: "mails", State: "delayed", Batch: "next"}}
		if err != nil || s.State != "sealed" || s.Total != 2 || s.Pending != 2 || s.AfterHeld != 1 || s.TTL != time.Hour || !s.Sealed || !slices.Equal(s.After, want) {
			t.Errorf("stats %+v, %v", s, err)
		}
		if first, mail, second := reserveWithin(t, c, "rows", 5*time.Second), reserveWithin(t, c, "mails", 0), reserveWithin(t, c, "rows", 5*time.Second); first != "1" || mail != "" || second != "2" {
			t.Errorf("%q, then %q, then %q", first, mail, second)
		}
		if got := reserveWithin(t, c, "mails", 10*time.Second); got != "done" {
			t.Errorf("after the batch: %q", got)
		}
	})
}

// TestCancelBatch: after a batch that was cancelled, only jobs with after-all run.
func TestCancelBatch(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx, b := limited(t), c.Batch("b:1")
		if !on.Leases() {
			t.Skip("beanstalkd has no batches")
		}
		_, err := c.Batch("a b").Add(ctx, "rows", nil)
		wantErr(t, err, client.ErrInvalid)
		wantErr(t, c.Batch("").Seal(ctx), client.ErrInvalid)
		for range 3 {
			mustPut(t, c, "rows", "x", client.Member(b.Name()))
		}
		if _, err := b.Then(ctx, "mails", []byte("done")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ThenAll(ctx, "mails", []byte("ended")); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Cancel(ctx); err != nil || n != 3 {
			t.Errorf("%d cancelled, %v", n, err)
		}
		if got := reserveWithin(t, c, "mails", 10*time.Second); got != "ended" {
			t.Errorf("after the batch: %q", got)
		}
		if s, err := b.Stats(ctx); err != nil || s.State != "failed" || s.Gone != 3 || s.AfterFailed != 1 || len(s.After) != 1 || s.After[0].State != "buried" {
			t.Errorf("stats %+v, %v", s, err)
		}
	})
}
