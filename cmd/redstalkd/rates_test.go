package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
)

// TestRateOfThreeInstances: workers wait on three instances for jobs with a rate of 100 a second, of
// the tube or of a group. As many start as the rate allows, to a hundredth, and never more in any second
// of the store's clock, by which leases have their tokens.
func TestRateOfThreeInstances(t *testing.T) {
	const rate = 100
	length, part := time.Minute, 0.01
	if testing.Short() {
		length, part = 4*time.Second, 0.1
	}
	for name, policy := range map[string]string{"tube": "rate:%d/s", "group": "group-rate:%d/s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			var addrs []string
			for range 3 {
				_, addr := serve(t, "-p0", "--store", redis.URL())
				addrs = append(addrs, addr)
			}
			jobs := rate * (int(length/time.Second) + 5)
			c := dial(t, addrs[0])
			c.ask(fmt.Sprintf("set-policy t "+policy+"\r\nuse t\r\n", rate), "SET", "USING t")
			go c.sendAside(strings.Repeat("put 0 0 600 1 group:g\r\nx\r\n", jobs))
			for range jobs {
				c.line()
			}
			factor := meanFactor(length)
			wantRate(t, startsWithin(t, addrs, 10, length+time.Second), rate, part*<-factor)
		})
	}
}

// startsWithin lets workers of each instance lease and delete jobs of the tube t for a while. It returns when
// their leases began, in order, in µs of the store's clock.
func startsWithin(t *testing.T, addrs []string, workers int, length time.Duration) (starts []int64) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), length)
	defer stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, addr := range slices.Repeat(addrs, workers) {
		conn, err := protoclient.Dial(addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		all.Go(func() {
			conn.SetDeadline(time.Now().Add(length + patience))
			conn.Send([]byte("watch t\r\nignore default\r\nreserve-lease 600\r\n"))
			for {
				line, err := conn.Line()
				var id, token int64
				if n, _ := fmt.Sscanf(line, "LEASED %d %d", &id, &token); n == 2 {
					mu.Lock()
					starts = append(starts, token)
					mu.Unlock()
					conn.Send(fmt.Appendf(nil, "delete-lease %d %020d\r\nreserve-lease 600\r\n", id, token))
				}
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(starts)
	return starts
}

// meanFactor sends the mean of busy.Factor over a while.
func meanFactor(length time.Duration) <-chan float64 {
	mean := make(chan float64, 1)
	go func() {
		sum, n := 0.0, 0.0
		each := time.NewTicker(time.Second)
		defer each.Stop()
		for begun := time.Now(); time.Since(begun) < length; <-each.C {
			sum, n = sum+busy.Factor(), n+1
		}
		mean <- sum / n
	}()
	return mean
}

// wantRate checks starts, in µs: never more than the rate in any second, and the last of them no later
// than it allows, by a part.
func wantRate(t *testing.T, starts []int64, rate int, part float64) {
	t.Helper()
	most := 0
	for from, to := 0, 0; to < len(starts); to++ {
		for starts[to]-starts[from] >= time.Second.Microseconds() {
			from++
		}
		most = max(most, to-from+1)
	}
	seconds := (len(starts) - 1) / rate
	took := time.Duration(starts[seconds*rate]-starts[0]) * time.Microsecond
	t.Logf("%d starts took %v, allowed is a part of %.3f more; in any second were at most %d", seconds*rate, took, part, most)
	if most > rate {
		t.Errorf("%d starts in a second", most)
	}
	if took.Seconds() > float64(seconds)*(1+part) {
		t.Errorf("%d starts took %v", seconds*rate, took)
	}
}
