// Bench compares the client and the worker with stalkbench on a running server, in turns:
//
//	go run ./internal/bench -addr 127.0.0.1:11300 -stalkbench ../../bin/stalkbench
//
// It prints jobs put a second by goroutines that each put one job after another, beside stalkbench's
// pipelined puts; and jobs that workers handle a second while as many goroutines put them, beside the jobs of stalkbench's
// closed loop, in which each connection puts, reserves and deletes.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

var (
	addr       = flag.String("addr", "127.0.0.1:11300", "address of the server")
	stalkbench = flag.String("stalkbench", "../../bin/stalkbench", "path of stalkbench")
	n          = flag.Int("n", 50, "goroutines, handlers and connections")
	conns      = flag.Int("connections", 8, "most connections of the client")
	rounds     = flag.Int("rounds", 5, "rounds; the median is printed")
	duration   = flag.Duration("duration", 2*time.Second, "duration of a round")
	only       = flag.String("only", "", "rows to measure: those whose names contain this")
	profile    = flag.String("cpuprofile", "", "file for a profile of this process")
)

// A row is what is measured: operations a second, and the processor time of each, of the program that sends them.
type row struct {
	name    string
	measure func() figures
}

type figures struct{ perSecond, cost float64 }

func main() {
	flag.Parse()
	c := client.New(*addr, client.Connections(*conns))
	defer c.Close()
	nn := fmt.Sprint(*n)
	puts := func() figures { return put(c) }
	jobs := func() figures { return handle(c) }
	many := func() figures { return putMany(c) }
	table := []row{
		{"Put from " + nn + " goroutines", puts},
		{"PutMany of 32 from " + nn + " goroutines", many},
		{"stalkbench: " + nn + " connections, 32 puts in a packet", func() figures { return bench(1, "--mode", "put", "--conns", nn, "--pipeline", "32") }},
		{"stalkbench: 2 connections, " + fmt.Sprint(*n/2) + " puts in a packet", func() figures { return bench(1, "--mode", "put", "--conns", "2", "--pipeline", fmt.Sprint(*n/2)) }},
		{"stalkbench: " + nn + " connections, one put at a time", func() figures { return bench(1, "--mode", "put", "--conns", nn) }},
		{"worker with " + nn + " handlers, jobs put as they end", jobs},
		{"stalkbench: closed loop of " + nn + " connections, jobs", func() figures { return bench(3, "--mode", "cycle", "--conns", nn) }},
	}
	table = slices.DeleteFunc(table, func(r row) bool { return !strings.Contains(r.name, *only) })
	defer startProfile()()
	results := make([][]figures, len(table))
	for range *rounds {
		for i, row := range table {
			results[i] = append(results[i], row.measure())
		}
	}
	for i, row := range table {
		all := results[i]
		slices.SortFunc(all, func(a, b figures) int { return cmp.Compare(a.perSecond, b.perSecond) })
		median := all[len(all)/2]
		fmt.Printf("%10.0f/s (%.0f to %.0f) %6.2f µs  %s\n", median.perSecond, all[0].perSecond, all[len(all)-1].perSecond, median.cost, row.name)
	}
}

// ours measures a function of this program that returns how many operations it has done.
func ours(f func() int) figures {
	before, begin := processorTime(), time.Now()
	n := float64(f())
	return figures{n / time.Since(begin).Seconds(), (processorTime() - before).Seconds() * 1e6 / n}
}

// processorTime returns the processor time of this program so far.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// startProfile writes a profile until the returned function is called.
func startProfile() (stop func()) {
	if *profile == "" {
		return func() {}
	}
	f, err := os.Create(*profile)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		log.Fatal(err)
	}
	return pprof.StopCPUProfile
}

// bench runs stalkbench, and counts several of its operations as one.
func bench(several float64, args ...string) figures {
	cmd := exec.Command(*stalkbench, append([]string{"run", "--json", "--addr", *addr, "--duration", duration.String()}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		log.Fatalf("stalkbench: %v\n%s", err, out)
	}
	var result struct {
		Throughput float64 `json:"ops_per_s"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		log.Fatal(err)
	}
	used := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	perSecond := result.Throughput / several
	return figures{perSecond, used * 1e6 / (perSecond * duration.Seconds())}
}

var body = make([]byte, 128) // as stalkbench

// put puts jobs for the duration. Then it deletes them.
func put(c *client.Client) figures {
	return fill(c, func(tube string) (int, error) {
		_, err := c.Put(context.Background(), tube, body)
		return 1, err
	})
}

// putMany is put with 32 jobs in each call.
func putMany(c *client.Client) figures {
	return fill(c, func(tube string) (int, error) {
		jobs := make([]client.NewJob, 32)
		for i := range jobs {
			jobs[i] = client.NewJob{Tube: tube, Body: body}
		}
		_, err := c.PutMany(context.Background(), jobs)
		return len(jobs), err
	})
}

// fill calls f, which puts jobs and returns their number, in all goroutines for the duration. Then it deletes the jobs, which
// does not count.
func fill(c *client.Client, f func(tube string) (int, error)) figures {
	tube := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	defer flush(c, tube)
	return ours(func() int { return repeat(func() (int, error) { return f(tube) }) })
}

// flush deletes the jobs of a tube.
func flush(c *client.Client, tube string) {
	if _, err := c.Exec(context.Background(), client.Command{Line: "flush-tube " + tube}); err != nil {
		log.Fatal(err)
	}
}

// repeat calls f in all goroutines for the duration, and returns the sum of its results.
func repeat(f func() (int, error)) int {
	var count atomic.Int64
	var wg sync.WaitGroup
	var over atomic.Bool
	time.AfterFunc(*duration, func() { over.Store(true) })
	for range *n {
		wg.Go(func() {
			sum := 0
			for !over.Load() {
				n, err := f()
				if err != nil {
					log.Fatal(err)
				}
				sum += n
			}
			count.Add(int64(sum))
		})
	}
	wg.Wait()
	return int(count.Load())
}

// handle measures the jobs that a worker handles in the duration. Then it deletes those that are left.
func handle(c *client.Client) figures {
	tube := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	defer flush(c, tube)
	return ours(func() int { return work(c, tube) })
}

// work runs a worker for the duration, and returns how many jobs it has handled. The handler of each job
// puts the next one.
func work(c *client.Client, tube string) int {
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
	return int(count.Load())
}
