package worker_test

import (
	"context"
	"fmt"

	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

// TestRedisComesBackEmpty: workers go on when Redis is gone for a while and has forgotten everything.
func TestRedisComesBackEmpty(t *testing.T) {
	testserver.CheckLeaks(t)
	t.Parallel()
	redis := testserver.NewRedis(t)
	server := redstalktest.Start(t, "--store", "redis://"+redis.Addr+"/0")
	c := client.New(server.Addr)
	defer c.Close()
	handled := make(chan string, 100)
	hold := make(chan struct{})
	start(t, c, worker.Config{Concurrency: 2}, handle("empty", func(ctx context.Context, job *worker.Job) error {
		handled <- string(job.Body)
		if string(job.Body) == "held" {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return nil
	}))
	put(t, c, "empty", "held", client.TTR(2*time.Second))
	receive(t, handled, "the first job")
	redis.Kill()
	time.Sleep(time.Second)
	redis.Start(t)
	close(hold)
	for i := range 20 {
		body := fmt.Sprint(i)
		for begin := time.Now(); ; {
			_, err := c.Put(t.Context(), "empty", []byte(body))
			if err == nil {
				break
			}
			if time.Since(begin) > 30*time.Second {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		for receive(t, handled, "a job after Redis came back") != body {
		}
	}
}

// TestManyJobs: each of many jobs is handled once.
func TestManyJobs(t *testing.T) {
	jobs := 100_000
	if testing.Short() {
		jobs = 2000
	}
	testserver.CheckLeaks(t)
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		counts := make([]atomic.Int32, jobs)
		var left sync.WaitGroup
		left.Add(jobs)
		stop := start(t, c, worker.Config{Concurrency: 100}, handle("many", func(_ context.Context, job *worker.Job) error {
			var i int
			fmt.Sscan(string(job.Body), &i)
			if counts[i].Add(1) == 1 {
				left.Done()
			}
			return nil
		}))
		all := make([]client.NewJob, jobs)
		for i := range all {
			all[i] = client.NewJob{Tube: "many", Body: fmt.Append(nil, i)}
		}
		if _, err := c.PutMany(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		left.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		for i := range counts {
			if n := counts[i].Load(); n != 1 {
				t.Errorf("job %d was handled %d times", i, n)
			}
		}
	})
}

// TestSizes: empty bodies and the largest ones reach a handler.
func TestSizes(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		sizes := make(chan int, 20)
		start(t, c, worker.Config{}, handle("sizes", func(_ context.Context, job *worker.Job) error {
			sizes <- len(job.Body)
			return nil
		}))
		want := map[int]int{}
		for i := range 20 {
			size := i % 2 * 65535
			want[size]++
			put(t, c, "sizes", string(make([]byte, size)))
		}
		for range 20 {
			want[receive(t, sizes, "a job")]--
		}
		if len(want) != 2 || want[0] != 0 || want[65535] != 0 {
			t.Errorf("%v are missing", want)
		}
	})
}

// TestClientClosed: a worker whose client is closed ends its fetching, and Run returns when it is stopped.
func TestClientClosed(t *testing.T) {
	testserver.CheckLeaks(t)
	onEngines(t, func(t *testing.T, _ *client.Client, on *testserver.Cluster) {
		c := client.New(on.Addr())
		begun := make(chan struct{}, 10)
		stop := start(t, c, worker.Config{Concurrency: 10, ShutdownTimeout: 100 * time.Millisecond}, handle("closed", func(ctx context.Context, _ *worker.Job) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}))
		for range 10 {
			put(t, c, "closed", "x")
		}
		for range 10 {
			receive(t, begun, "all handlers")
		}
		c.Close()
		begin := time.Now()
		stop()
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
