package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

const handlers = 100 // that run at shutdown

// TestShutdownWaits: at shutdown the handlers that run can end, and no more jobs are taken.
func TestShutdownWaits(t *testing.T) {
	testserver.CheckLeaks(t)
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		var begun, ended atomic.Int32
		full, goOn := make(chan struct{}), make(chan struct{})
		stop := start(t, c, worker.Config{Concurrency: handlers}, handle("stop", func(ctx context.Context, job *worker.Job) error {
			if begun.Add(1) == handlers {
				close(full)
			}
			<-goOn
			ended.Add(1)
			return ctx.Err()
		}))
		ids := make([]uint64, handlers+10)
		for i := range ids {
			ids[i] = put(t, c, "stop", fmt.Sprint(i))
		}
		receive(t, full, "all handlers")
		time.AfterFunc(300*time.Millisecond, func() { close(goOn) })
		if err := stop(); err != nil {
			t.Error(err)
		}
		if begun.Load() != handlers || ended.Load() != handlers {
			t.Errorf("%d handlers began and %d ended", begun.Load(), ended.Load())
		}
		states := map[string]int{}
		for _, id := range ids {
			states[stateOf(t, c, id)]++
		}
		if states["ready"] != 10 || states["gone"] != handlers {
			t.Errorf("states %v", states)
		}
	})
}

// stateOf returns the state of a job, or gone.
func stateOf(t *testing.T, c *client.Client, id uint64) string {
	t.Helper()
	s, err := c.JobStats(t.Context(), id)
	if errors.Is(err, client.ErrNotFound) {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.State
}

// TestShutdownGivesBack: when the time is over, contexts end, and jobs are ready again at once: those of
// handlers that return then, and those of handlers that ignore their contexts.
func TestShutdownGivesBack(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		begun := make(chan struct{}, handlers)
		forever := make(chan struct{})
		defer close(forever)
		stop := start(t, c, worker.Config{Concurrency: handlers, ShutdownTimeout: 50 * time.Millisecond}, handle("give", func(ctx context.Context, job *worker.Job) error {
			begun <- struct{}{}
			if string(job.Body) == "ignores" {
				<-forever
				return nil // has no effect any more
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), worker.ErrShutdown) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return ctx.Err()
		}))
		var ids []uint64
		for i := range handlers {
			body := "obeys"
			if i%2 == 0 {
				body = "ignores"
			}
			ids = append(ids, put(t, c, "give", body))
		}
		for range handlers {
			receive(t, begun, "all handlers")
		}
		err := stop()
		if want := fmt.Sprint(handlers / 2); err == nil || !strings.Contains(err.Error(), want+" handlers") {
			t.Errorf("%v, want an error about %s handlers", err, want)
		}
		for _, id := range ids {
			s := awaitState(t, c, id, "ready")
			if s.Failures != 0 {
				t.Errorf("job %d has %d failures", id, s.Failures)
			}
		}
	})
}

// TestSignals: the first signal shuts down, the second ends the contexts.
func TestSignals(t *testing.T) {
	on := testserver.Memory(t)
	c := client.New(on.Addr())
	defer c.Close()
	begun, result := make(chan struct{}), make(chan error)
	id := put(t, c, "signals", "x")
	w := worker.New(c, worker.Config{})
	go func() {
		result <- w.Run(context.Background(), handle("signals", func(ctx context.Context, job *worker.Job) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}))
	}()
	receive(t, begun, "the handler")
	syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	select {
	case err := <-result:
		t.Fatalf("the first signal ended the handler: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	if err := receive(t, result, "the end"); err != nil {
		t.Error(err)
	}
	awaitState(t, c, id, "ready")
}

// TestIdleStop: a worker that waits for jobs stops at once.
func TestIdleStop(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		stop := start(t, c, worker.Config{}, handle("idle", func(context.Context, *worker.Job) error { return nil }))
		time.Sleep(300 * time.Millisecond)
		begin := time.Now()
		if err := stop(); err != nil || time.Since(begin) > time.Second {
			t.Errorf("stopped after %v: %v", time.Since(begin), err)
		}
	})
}
