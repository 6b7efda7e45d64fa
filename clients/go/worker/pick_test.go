package worker_test

import (
	"context"
	"fmt"
	"testing"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// order returns the tubes of the first jobs that a worker takes, one at a time.
func order(t *testing.T, c *client.Client, config worker.Config) map[string]int {
	for i := range 400 {
		put(t, c, "much", fmt.Sprint(i))
		put(t, c, "little", fmt.Sprint(i))
	}
	first := make(chan string, 800)
	mux := worker.NewMux()
	for tube := range config.Tubes {
		mux.Handle(tube, func(_ context.Context, job *worker.Job) error {
			first <- job.Tube
			return nil
		})
	}
	config.Concurrency = 1
	start(t, c, config, mux)
	counts := map[string]int{}
	for range 400 {
		counts[receive(t, first, "a job")]++
	}
	return counts
}

func TestWeights(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if n := order(t, c, worker.Config{Tubes: map[string]int{"much": 3, "little": 1}}); n["much"] < 250 || n["much"] > 350 {
			t.Errorf("of the first 400 jobs, %v; want 300 and 100", n)
		}
	})
}

func TestStrictPriority(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		n := order(t, c, worker.Config{Tubes: map[string]int{"much": 3, "little": 1}, StrictPriority: true})
		if n["much"] != 400 {
			t.Errorf("of the first 400 jobs, %v", n)
		}
	})
}
