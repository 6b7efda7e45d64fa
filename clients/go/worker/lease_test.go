package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// TestHeartbeat: a handler can take longer than the TTR.
func TestHeartbeat(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		var calls atomic.Int32
		id := put(t, c, "slow", "x", client.TTR(time.Second))
		start(t, c, worker.Config{}, handle("slow", func(ctx context.Context, job *worker.Job) error {
			calls.Add(1)
			select {
			case <-time.After(2500 * time.Millisecond):
				if left := time.Until(job.Deadline()); left <= 0 || left > time.Second {
					t.Errorf("the deadline is in %v", left)
				}
				return nil
			case <-ctx.Done():
				t.Errorf("the context ended: %v", context.Cause(ctx))
				return ctx.Err()
			}
		}))
		if awaitState(t, c, id, ""); calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

// untilLost returns a handler that waits for the end of its context, and reports the cause.
func untilLost(started chan<- *worker.Job, causes chan<- error) worker.Handler {
	return func(ctx context.Context, job *worker.Job) error {
		started <- job
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
}

// TestLostToOthers: the context ends when somebody deletes the job.
func TestLostToOthers(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if !on.Leases() {
			t.Skip("beanstalkd has no keys")
		}
		started, causes := make(chan *worker.Job, 1), make(chan error, 1)
		put(t, c, "lost", "x", client.TTR(time.Second), client.Key("k"))
		start(t, c, worker.Config{}, handle("lost", untilLost(started, causes)))
		receive(t, started, "the job")
		if err := c.DeleteKey(t.Context(), "lost", "k"); err != nil {
			t.Fatal(err)
		}
		if cause := receive(t, causes, "the end of the context"); !errors.Is(cause, worker.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
	})
}

// TestLostConnection: with leases a handler goes on when connections break; without, its job is lost. When no
// touch gets through, the context ends with the TTR.
func TestLostConnection(t *testing.T) {
	onEngines(t, func(t *testing.T, direct *client.Client, on *testserver.Cluster) {
		proxy := testserver.NewProxy(t, on.Addrs[0])
		c := client.New(proxy.Addr, client.ReplyTimeout(200*time.Millisecond))
		defer c.Close()
		started, causes := make(chan *worker.Job, 1), make(chan error, 1)
		put(t, direct, "lost", "x", client.TTR(2*time.Second))
		start(t, c, worker.Config{Concurrency: 1, ShutdownTimeout: time.Millisecond}, handle("lost", untilLost(started, causes)))
		receive(t, started, "the job")
		time.Sleep(600 * time.Millisecond) // the TTR is known now
		proxy.Cut()
		if on.Leases() {
			select {
			case cause := <-causes:
				t.Fatalf("the context ended when connections broke: %v", cause)
			case <-time.After(time.Second):
			}
			proxy.Shut(true)
			proxy.Cut()
		}
		begin := time.Now()
		if cause := receive(t, causes, "the end of the context"); !errors.Is(cause, worker.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		if since := time.Since(begin); since > 2500*time.Millisecond {
			t.Errorf("noticed after %v", since)
		}
		proxy.Shut(false)
		receive(t, started, "the job again")
	})
}

// TestLateReply: a job that arrives after its TTR, when another worker has it, is not handled.
func TestLateReply(t *testing.T) {
	onEngines(t, func(t *testing.T, direct *client.Client, on *testserver.Cluster) {
		proxy := testserver.NewProxy(t, on.Addrs[0])
		c := client.New(proxy.Addr)
		defer c.Close()
		var late atomic.Int32
		start(t, c, worker.Config{Concurrency: 1}, handle("late", func(context.Context, *worker.Job) error {
			late.Add(1)
			return nil
		}))
		time.Sleep(300 * time.Millisecond) // the first worker waits for a job
		end := proxy.Delay()
		id := put(t, direct, "late", "x", client.TTR(time.Second))
		awaitState(t, direct, id, "reserved")
		begun, finish := make(chan struct{}, 1), make(chan struct{})
		start(t, direct, worker.Config{Concurrency: 1}, handle("late", func(context.Context, *worker.Job) error {
			begun <- struct{}{}
			<-finish
			return nil
		}))
		receive(t, begun, "the job at the second worker")
		end()
		time.Sleep(300 * time.Millisecond)
		close(finish)
		if awaitState(t, direct, id, ""); late.Load() != 0 {
			t.Error("a job that was held by another worker was handled")
		}
	})
}
