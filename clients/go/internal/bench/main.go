// Bench compares the client and the worker with stalkbench on a running server, in turns:
//
//	go run ./internal/bench -addr 127.0.0.1:11300 -stalkbench ../../bin/stalkbench
//
// It prints jobs put a second by goroutines that each put one job after another, beside stalkbench's
// pipelined puts; and jobs that workers handle a second while as many goroutines put them, beside the jobs of stalkbench's
// closed loop, in which each connection puts, reserves and deletes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

var (
	addr       = flag.String("addr", "127.0.0.1:11300", "address of the server")
	stalkbench = flag.String("stalkbench", "../../bin/stalkbench", "path of stalkbench")
	n          = flag.Int("n", 50, "goroutines, handlers and connections")
	conns      = flag.Int("connections", 2, "connections of the client")
	rounds     = flag.Int("rounds", 5, "rounds; the median is printed")
	duration   = flag.Duration("duration", 2*time.Second, "duration of a round")
)

func main() {
	flag.Parse()
	c := client.New(*addr, client.Connections(*conns))
	defer c.Close()
	seconds := duration.Seconds()
	nn := fmt.Sprint(*n)
	puts := func() float64 { return float64(put(c)) / seconds }
	work := func() float64 { return float64(handle(c)) / seconds }
	table := []struct {
		name    string
		measure func() float64
	}{
		{"Put from " + nn + " goroutines", puts},
		{"stalkbench: " + nn + " connections, 32 puts in a packet", func() float64 { return bench("--mode", "put", "--conns", nn, "--pipeline", "32") }},
		{"stalkbench: 2 connections, " + fmt.Sprint(*n/2) + " puts in a packet", func() float64 { return bench("--mode", "put", "--conns", "2", "--pipeline", fmt.Sprint(*n/2)) }},
		{"stalkbench: " + nn + " connections, one put at a time", func() float64 { return bench("--mode", "put", "--conns", nn) }},
		{"worker with " + nn + " handlers, jobs put as they end", work},
		{"stalkbench: closed loop of " + nn + " connections, jobs", func() float64 { return bench("--mode", "cycle", "--conns", nn) / 3 }},
	}
	results := make([][]float64, len(table))
	for range *rounds {
		for i, row := range table {
			results[i] = append(results[i], row.measure())
		}
	}
	for i, row := range table {
		slices.Sort(results[i])
		fmt.Printf("%10.0f/s  %s (%.0f to %.0f)\n", results[i][*rounds/2], row.name, results[i][0], results[i][*rounds-1])
	}
}

// bench returns stalkbench's operations a second.
func bench(args ...string) float64 {
	out, err := exec.Command(*stalkbench, append([]string{"run", "--json", "--addr", *addr, "--duration", duration.String()}, args...)...).Output()
	if err != nil {
		log.Fatalf("stalkbench: %v\n%s", err, out)
	}
	var result struct {
		Throughput float64 `json:"ops_per_s"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		log.Fatal(err)
	}
	return result.Throughput
}

var body = make([]byte, 128) // as stalkbench

// put puts jobs for the duration and returns their number. Then it deletes them.
func put(c *client.Client) int {
	tube := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	var count atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(*duration)
	for range *n {
		wg.Go(func() {
			n := int64(0)
			for ; time.Now().Before(end); n++ {
				if _, err := c.Put(context.Background(), tube, body); err != nil {
					log.Fatal(err)
				}
			}
			count.Add(n)
		})
	}
	wg.Wait()
	if _, err := c.Exec(context.Background(), client.Command{Line: "flush-tube " + tube}); err != nil {
		log.Fatal(err)
	}
	return int(count.Load())
}

// handle runs a worker for the duration, and returns how many jobs it has handled. The handler of each job
// puts the next one.
func handle(c *client.Client) int {
	tube := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	ctx, stop := context.WithTimeout(context.Background(), *duration)
	defer stop()
	for range *n {
		if _, err := c.Put(ctx, tube, body); err != nil {
			log.Fatal(err)
		}
	}
	var count atomic.Int64
	mux := worker.NewMux()
	mux.Handle(tube, func(context.Context, *worker.Job) error {
		if ctx.Err() != nil {
			return nil
		}
		count.Add(1)
		_, err := c.Put(context.Background(), tube, body)
		return err
	})
	w := worker.New(c, worker.Config{Concurrency: *n, Signals: []os.Signal{}})
	if err := w.Run(ctx, mux); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Exec(context.Background(), client.Command{Line: "flush-tube " + tube}); err != nil {
		log.Fatal(err)
	}
	return int(count.Load())
}
