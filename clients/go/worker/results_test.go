package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// TestResults: each result of a handler does with the job what it means.
func TestResults(t *testing.T) {
	results := map[string]func() error{
		"done":   func() error { return nil },
		"skip":   func() error { return worker.Skip(errors.New("bad")) },
		"snooze": func() error { return fmt.Errorf("busy: %w", worker.Snooze(time.Hour)) },
		"fail":   func() error { return errors.New("failed") },
		"panic":  func() error { panic("out of order") },
		"exit":   func() error { runtime.Goexit(); return nil },
	}
	states := map[string]string{"done": "", "skip": "buried", "snooze": "delayed", "fail": "delayed", "panic": "delayed", "exit": "delayed"}
	reasons := map[string]string{"skip": "bad", "fail": "failed", "panic": "panic: out of order\ngoroutine", "exit": "Goexit"}
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ids := map[string]uint64{}
		for name := range results {
			ids[name] = put(t, c, "results", name, client.Priority(77))
		}
		mux := handle("results", func(ctx context.Context, job *worker.Job) error { return results[string(job.Body)]() })
		mux.Use(func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, job *worker.Job) error {
				err := next(ctx, job)
				if p := (*worker.PanicError)(nil); errors.As(err, &p) != (string(job.Body) == "panic") {
					t.Errorf("middleware sees that %s returns %v", job.Body, err)
				}
				return err
			}
		})
		start(t, c, worker.Config{Backoff: worker.Intervals(2 * time.Hour)}, mux)
		for name, state := range states {
			s := awaitState(t, c, ids[name], state)
			if s != nil && s.Priority != 77 {
				t.Errorf("%s has priority %d", name, s.Priority)
			}
			if s != nil && on.Leases() && (!strings.Contains(s.Reason, reasons[name]) || (s.Reason != "") != (reasons[name] != "")) {
				t.Errorf("%s has failed because of %q", name, s.Reason)
			}
			if s != nil && on.Leases() && name == "snooze" && s.Failures != 0 {
				t.Errorf("a snooze counts as %d failures", s.Failures)
			}
			if left := map[string]time.Duration{"snooze": time.Hour, "fail": 2 * time.Hour}[name]; left != 0 && (s.Left > left || s.Left < left-time.Minute) {
				t.Errorf("%s comes after %v", name, s.Left)
			}
		}
	})
}

// TestBackoff: without retries of the server, the worker's schedule applies and ends.
func TestBackoff(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		var calls atomic.Int32
		id := put(t, c, "backoff", "x")
		start(t, c, worker.Config{Backoff: worker.Intervals(0, time.Second)}, handle("backoff", func(context.Context, *worker.Job) error {
			calls.Add(1)
			return errors.New("no")
		}))
		if awaitState(t, c, id, "buried"); calls.Load() != 3 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

// TestServerRetries: the server's retry waits and dead-letter tube have priority over the worker's.
func TestServerRetries(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if !on.Leases() {
			t.Skip("beanstalkd has no retries")
		}
		dead := make(chan *client.Stats, 1)
		mux := handle("alive", func(context.Context, *worker.Job) error { return errors.New("no") })
		mux.Handle("dead", func(ctx context.Context, job *worker.Job) error {
			s, err := c.JobStats(ctx, job.ID)
			dead <- s
			return err
		})
		id := put(t, c, "alive", "x", client.Retry(0, 50*time.Millisecond), client.Dead("dead"))
		start(t, c, worker.Config{}, mux)
		if s := receive(t, dead, "a dead letter"); s == nil || s.FromTube != "alive" || s.FromID != id {
			t.Errorf("%+v", s)
		}
	})
}

// TestJob: a handler sees the job, and middleware is around it.
func TestJob(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		got := make(chan string, 10)
		mux := worker.NewMux()
		around := func(name string) worker.Middleware {
			return func(next worker.Handler) worker.Handler {
				return func(ctx context.Context, job *worker.Job) error {
					got <- name
					return next(ctx, job)
				}
			}
		}
		mux.Use(around("outer"), around("inner"))
		mux.Handle("b", func(ctx context.Context, job *worker.Job) error {
			s, err := job.Info(ctx)
			got <- fmt.Sprint(job.Tube, string(job.Body), job.ID, job.Meta["m"], s.Priority, s.Deliveries, s.Failures, s.TTR, len(job.Token()) == 20, err)
			return nil
		})
		mux.Handle("a", func(context.Context, *worker.Job) error { return nil })
		opts := []client.PutOption{client.Priority(3), client.TTR(9 * time.Second)}
		meta := ""
		if on.Leases() {
			meta = "v"
			opts = append(opts, client.Meta("m", meta))
		}
		id := put(t, c, "b", "body", opts...)
		start(t, c, worker.Config{Tubes: map[string]int{"b": 1, "a": 2}}, mux)
		want := []string{"outer", "inner", fmt.Sprint("b", "body", id, meta, 3, 1, 0, 9*time.Second, on.Leases(), nil)}
		for _, w := range want {
			if g := receive(t, got, "a job"); g != w {
				t.Errorf("%q, want %q", g, w)
			}
		}
		awaitState(t, c, id, "")
	})
}

func TestConfigErrors(t *testing.T) {
	c := client.New("127.0.0.1:1")
	defer c.Close()
	none := func(context.Context, *worker.Job) error { return nil }
	for want, tubes := range map[string]map[string]int{
		"no tubes": {}, "no handler": {"b": 1}, "weight 0": {"a": 0},
	} {
		err := worker.New(c, worker.Config{Tubes: tubes}).Run(t.Context(), handle("a", none))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
