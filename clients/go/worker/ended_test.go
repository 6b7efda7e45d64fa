package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// TestResultOfJob: the result of a job reaches those who wait, and a job of which nothing is kept is deleted.
func TestResultOfJob(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		mux := handle("results", func(ctx context.Context, job *worker.Job) error {
			if err := job.Result(make([]byte, client.MaxResult+1)); !errors.Is(err, client.ErrTooBig) {
				t.Errorf("a result that is too long: %v", err)
			}
			return job.Result([]byte(strings.ToUpper(string(job.Body))))
		})
		mux.Handle("squares", worker.Reply(func(ctx context.Context, job *worker.Job, n int) (int, error) {
			if n < 0 {
				return 0, worker.Skip(errors.New("negative"))
			}
			return n * n, nil
		}))
		start(t, c, worker.Config{}, mux)
		awaitState(t, c, put(t, c, "results", "a"), "") // deleted
		if !on.Leases() {
			return
		}
		kept := put(t, c, "results", "abc", client.Keep(time.Minute))
		if e, err := c.Wait(t.Context(), kept); err != nil || e.How != client.Done || string(e.Result) != "ABC" {
			t.Errorf("%+v, %v", e, err)
		}
		if square, err := client.Call[int](t.Context(), c, "squares", "square", 12, client.Keep(time.Hour)); err != nil || square != 144 {
			t.Errorf("%d, %v", square, err)
		}
		var ended *client.EndedError
		if _, err := client.Call[int](t.Context(), c, "squares", "square", -1); !errors.As(err, &ended) || ended.How != client.Parked || ended.Reason != "negative" {
			t.Errorf("%v", err)
		}
		if _, err := client.Call[int](t.Context(), c, "squares", "square", "text"); !errors.As(err, &ended) {
			t.Errorf("%v", err)
		}
	})
}

// TestManyResults: a program puts jobs and waits for their results. None is missed, though servers are killed again and again.
func TestManyResults(t *testing.T) {
	testserver.CheckLeaks(t)
	jobs, kills := 3000, 3
	if n, err := strconv.Atoi(os.Getenv("RESULTS")); err == nil {
		jobs = n // 10000 take some seconds on a quiet machine
	}
	if testing.Short() {
		jobs, kills = 1000, 0
	}
	t.Run("embedded", func(t *testing.T) { manyResults(t, testserver.Embedded(t), jobs, kills) })
	t.Run("redis", func(t *testing.T) { manyResults(t, testserver.Redis(t), jobs, kills) })
}

func manyResults(t *testing.T, on *testserver.Cluster, jobs, kills int) {
	c := client.New(on.Addr(), client.Wait(30*time.Second))
	defer c.Close()
	var ended atomic.Int64
	mux := handle("square", worker.Reply(func(ctx context.Context, job *worker.Job, n int) (int, error) {
		ended.Add(1)
		return n * n, nil
	}))
	start(t, c, worker.Config{Concurrency: 50, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, mux)
	began := time.Now()
	var callers sync.WaitGroup
	for n := range jobs {
		callers.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			key := client.Options(client.Key(strconv.Itoa(n)), client.KeyTTL(time.Hour), client.TTR(5*time.Second), client.Keep(time.Hour))
			if square, err := client.Call[int](ctx, c, "square", "square", n, key); err != nil || square != n*n {
				t.Errorf("%d: %d, %v", n, square, err)
			}
		})
	}
	for kill := range kills {
		for ended.Load() < int64((kill+1)*jobs/(kills+1)) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		i := kill % len(on.Servers)
		on.Servers[i].Kill()
		on.Restart(t, i)
	}
	callers.Wait()
	t.Logf("%d results after %v, with %d kills; %d jobs handled", jobs, time.Since(began), kills, ended.Load())
}
