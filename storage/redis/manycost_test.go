package redis

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

var manyJobs = flag.Int("many", 0, "jobs in TestManyCost")

// TestManyCost measures flushes, moves and lists of many jobs: how long they take, the longest
// call, and the longest wait of somebody else beside them.
func TestManyCost(t *testing.T) {
	if *manyJobs == 0 {
		t.Skip("only on demand: -many=1000000")
	}
	for _, of := range []int{1, 16} {
		server := redistest.Start(t)
		client, ctx := server.Client(t), context.Background()
		s := openWith(t, Options{URL: server.URL(), Partitions: of, Timeout: patient})
		from, to := "from", "to"
		if of > 1 {
			from, to = apart(of)
		}
		measure := func(what string, work func() int) {
			client.ConfigSet(ctx, "slowlog-log-slower-than", "2000")
			client.Do(ctx, "slowlog", "reset")
			var most atomic.Int64
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					begun := time.Now()
					do(s, storage.Op{Kind: storage.Put, Tube: from + "-other", TTR: 60})
					most.Store(max(most.Load(), int64(time.Since(begun))))
					time.Sleep(time.Millisecond)
				}
			}()
			begun := time.Now()
			n := work()
			took := time.Since(begun)
			close(stop)
			<-stopped
			slowest := time.Duration(0)
			for _, entry := range client.SlowLogGet(ctx, 128).Val() {
				slowest = max(slowest, entry.Duration)
			}
			t.Logf("%2d partitions, %-28s %7d in %8v, slowest call %v (0: below 2ms), longest wait of others %v", of, what, n, took.Round(time.Millisecond), slowest, time.Duration(most.Load()).Round(10*time.Microsecond))
		}
		fill := func(n int, delay uint32) {
			for n > 0 {
				var puts []storage.Op
				for range min(n, 400) {
					puts = append(puts, storage.Op{Kind: storage.Put, Tube: from, Pri: uint32(n % 3), Delay: delay, TTR: 600, Body: fmt.Append(nil, "body ", n)})
					n--
				}
				storage.DoWait(s, puts)
			}
		}
		fill(*manyJobs, 0)
		measure("list 1,000", func() int {
			return len(do(s, storage.Op{Kind: storage.ListJobs, Tube: from, State: tube.Ready, Bound: 1000}).Rare.Jobs)
		})
		moves := *manyJobs / 5
		measure("move", func() int { return moveJobsOf(s, from, tube.Ready, to, uint32(moves)).Count })
		measure("flush ready", func() int { return flushOf(s, from, tube.Gone) })
		measure("flush ready, moved ones", func() int { return flushOf(s, to, tube.Gone) })
		fill(*manyJobs/5, 1000)
		measure("flush delayed", func() int { return flushOf(s, from, tube.Gone) })
		fill(*manyJobs/5, 0)
		for n := *manyJobs / 5; n > 0; n -= 250 {
			takes := make([]storage.Op, 250)
			for i := range takes {
				takes[i] = takeOf(1, from)
			}
			storage.DoWait(s, takes)
		}
		measure("list 1,000 reserved", func() int {
			return len(do(s, storage.Op{Kind: storage.ListJobs, Tube: from, State: tube.Reserved, Bound: 1000}).Rare.Jobs)
		})
		measure("flush reserved", func() int { return flushOf(s, from, tube.Reserved) })
	}
}
