package redis

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// TestScheduleThroughFailover: a primary dies in the middle of the retry schedule of a payment
// notification. The deliveries come when they would have, and none comes twice.
func TestScheduleThroughFailover(t *testing.T) {
	t.Parallel()
	n := 0
	for name, start := range map[string]func(*testing.T) rollbackTest{
		"sentinels": rollbackBySentinels, "cluster": rollbackInCluster,
	} {
		if n++; !inThisHalf(n) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := start(t)
			var ahead atomic.Int64
			s := openWith(t, Options{URL: redis.url, Timeout: patient, skew: func() time.Duration { return time.Duration(ahead.Load()) }})
			advance := func(d time.Duration) {
				ahead.Add(int64(d))
				s.Tick()
			}
			waits := []time.Duration{2 * time.Minute, 10 * time.Minute, 10 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}
			id := do(s, storage.Op{Kind: storage.Put, Tube: redis.tube, TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Rules: tube.Rules{Retry: waits}}}}).ID
			take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{redis.tube}}
			for n := range len(waits) + 1 {
				if a := do(s, take); a.Err != nil || a.ID != id {
					t.Fatalf("delivery %d: %+v", n+1, a)
				}
				if a := do(s, move(tube.Release, 1, id)); a.Err != nil || a.NotFound {
					t.Fatalf("failure %d: %+v", n+1, a)
				}
				if n == len(waits) {
					break
				}
				if n == 3 {
					if err := redis.primary.Client(t).Do(context.Background(), "wait", 1, 10_000).Err(); err != nil {
						t.Fatal(err)
					}
					redis.takeover()
				}
				const early = time.Minute // a failover takes its time
				advance(waits[n] - early)
				if a := do(s, take); a.Err != nil || !a.NotFound {
					t.Fatalf("delivery %d comes early: %+v", n+2, a)
				}
				advance(early + time.Second)
			}
			stats := do(s, storage.Op{Kind: storage.JobStats, ID: id}).Job
			if stats == nil || stats.State != tube.Buried || stats.Metadata.Parked != tube.ParkedRetries || stats.Counters[tube.Reserves] != uint32(len(waits)+1) {
				t.Errorf("in the end it is %+v", stats)
			}
		})
	}
}
