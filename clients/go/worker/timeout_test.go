package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/inspect"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// TestTimeout: when the time of a handler is over, its context ends, and its job fails if it returns an error; what it has finished
// counts.
func TestTimeout(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		causes := make(chan error, 3)
		h := func(ctx context.Context, job *worker.Job) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			switch string(job.Body) {
			case "done":
				return nil
			case "skip":
				return worker.Skip(errors.New("no time for this"))
			}
			return ctx.Err()
		}
		done, skip, late := put(t, c, "limit", "done"), put(t, c, "limit", "skip"), put(t, c, "limit", "late")
		start(t, c, worker.Config{Timeout: 300 * time.Millisecond, Backoff: worker.Intervals(time.Hour)}, handle("limit", h))
		for range 3 {
			if cause := receive(t, causes, "the end of a context"); !errors.Is(cause, worker.ErrTimeout) {
				t.Errorf("cause %v", cause)
			}
		}
		awaitState(t, c, done, "")
		awaitState(t, c, skip, "buried")
		if s := awaitState(t, c, late, "delayed"); on.Leases() && (s.Reason != "timeout" || s.Failures != 1) {
			t.Errorf("%+v", s)
		}
	})
}

// TestTimeoutOfHandler: a handler can have a limit of its own, or none, and change it while it runs.
func TestTimeoutOfHandler(t *testing.T) {
	t.Parallel()
	c := client.New(testserver.Memory(t).Addr())
	t.Cleanup(func() { c.Close() })
	wait := func(ctx context.Context, _ *worker.Job) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
			return nil
		}
	}
	mux := worker.NewMux()
	mux.Handle("short", worker.WithTimeout(100*time.Millisecond, wait))
	mux.Handle("unlimited", worker.WithTimeout(0, wait))
	mux.Handle("longer", func(ctx context.Context, job *worker.Job) error {
		job.SetTimeout(time.Minute)
		return wait(ctx, job)
	})
	mux.Handle("default", wait)
	ids := map[string]uint64{}
	for _, tube := range []string{"short", "unlimited", "longer", "default"} {
		ids[tube] = put(t, c, tube, "x")
	}
	start(t, c, worker.Config{Timeout: 200 * time.Millisecond, Backoff: worker.Intervals(time.Hour)}, mux)
	for tube, state := range map[string]string{"short": "delayed", "unlimited": "", "longer": "", "default": "delayed"} {
		awaitState(t, c, ids[tube], state)
	}
}

// A logBook keeps the lines of a log.
type logBook struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(line)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}

// TestTimeoutIgnored: the job of a handler that ignores the end of its context fails, too. The handler is named, and has its slot until it
// returns, which has no effect on the job.
func TestTimeoutIgnored(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		hang, begun := make(chan struct{}), make(chan string, 3)
		h := func(_ context.Context, job *worker.Job) error {
			begun <- string(job.Body)
			if string(job.Body) == "hangs" {
				<-hang
			}
			return nil
		}
		var log logBook
		id := put(t, c, "ignored", "hangs", client.TTR(2*time.Second))
		config := worker.Config{Concurrency: 1, Timeout: 100 * time.Millisecond, Backoff: worker.Intervals(time.Hour)}
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		start(t, c, config, handle("ignored", h))
		receive(t, begun, "the job")
		next := put(t, c, "ignored", "next")
		if s := awaitState(t, c, id, "delayed"); on.Leases() && (s.Reason != "timeout" || s.Failures != 1) {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(log.String(), "ignores that its time is over") || !strings.Contains(log.String(), "tube=ignored") {
			t.Errorf("the log is %s", log.String())
		}
		if state := stateOf(t, c, next); state != "ready" {
			t.Errorf("the next job is %s before the handler has returned", state)
		}
		close(hang)
		receive(t, begun, "the next job")
		awaitState(t, c, next, "")
		awaitState(t, c, id, "delayed")
	})
}

// TestCancel: a job that somebody deletes or flushes ends the context of its handler within a third of the TTR. What the handler returns is
// dropped, and no error.
func TestCancel(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if !on.Leases() {
			t.Skip("beanstalkd deletes no job that another connection has reserved")
		}
		var log logBook
		started, causes := make(chan *worker.Job, 1), make(chan error, 1)
		h := func(ctx context.Context, job *worker.Job) error {
			untilLost(started, causes)(ctx, job)
			return errors.New("cancelled")
		}
		stop := start(t, c, worker.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, handle("cancel", h))
		for _, cancel := range []func(*worker.Job) error{
			func(job *worker.Job) error { return c.DeleteKey(t.Context(), "cancel", "k") },
			func(job *worker.Job) error {
				_, err := inspect.New(c).Flush(t.Context(), "cancel", inspect.Reserved)
				return err
			},
		} {
			put(t, c, "cancel", "x", client.TTR(3*time.Second), client.Key("k"))
			job := receive(t, started, "the job")
			if err := cancel(job); err != nil {
				t.Fatal(err)
			}
			if cause := receive(t, causes, "the end of the context"); !errors.Is(cause, worker.ErrDeleted) || !errors.Is(cause, worker.ErrLeaseLost) {
				t.Errorf("cause %v", cause)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if lines := log.String(); strings.Count(lines, "level=INFO") != 2 || strings.Count(lines, "level=") != 2 {
			t.Errorf("the log is %s", lines)
		}
	})
}
