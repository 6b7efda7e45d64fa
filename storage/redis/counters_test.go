package redis

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestTimesOfInstances: each instance counts what its own clients do, and stats-tube of a tube
// with a policy shows the sum of all instances, a moment later. Other tubes are not reported to
// Redis.
func TestTimesOfInstances(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores []*Store
	for range 2 {
		s, err := Open(context.Background(), Options{URL: server.URL(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s.Listen(nopListener{})
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	do := func(s *Store, op storage.Op) storage.Answer {
		t.Helper()
		ops := []storage.Op{op}
		storage.DoWait(s, ops)
		if a := ops[0].Answer; a.Err != nil || a.NotFound {
			t.Fatalf("%+v: %+v", op, a)
		}
		return ops[0].Answer
	}
	do(stores[0], storage.Op{Kind: storage.SetPolicy, Tube: "ruled", Args: &storage.Args{Policy: &tube.Policy{}}})
	for n, s := range stores {
		for _, name := range []string{"ruled", "plain"} {
			do(s, storage.Op{Kind: storage.Ref, Tubes: []string{name}, Role: tube.Watching, Delta: 1})
			for range 2 + n {
				do(s, storage.Op{Kind: storage.Put, Tube: name, TTR: 60})
				id := do(s, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{name}}).ID
				do(s, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id})
			}
		}
	}
	for n, s := range stores {
		if own := flowOf(s, "ruled"); own.Puts != uint64(2+n) || own.Waits.Count() != own.Puts || own.Runs.Count() != own.Puts {
			t.Errorf("instance %d has counted %+v", n, own)
		}
		got := uint64(0)
		for deadline := time.Now().Add(time.Minute); got != 5; time.Sleep(50 * time.Millisecond) {
			for _, each := range stores {
				if _, err := each.Tick(); err != nil { // with which heartbeats are sent
					t.Fatal(err)
				}
			}
			stats := do(s, storage.Op{Kind: storage.TubeStats, Tube: "ruled"}).TubeStats
			if got = stats.Waits.Count(); got > 5 || stats.Runs.Count() > 5 || time.Now().After(deadline) {
				t.Fatalf("instance %d shows %+v", n, stats)
			}
		}
	}
	client := server.Client(t)
	for name, want := range map[string]bool{"ruled": true, "plain": false} {
		if ok := client.HExists(context.Background(), "redstalk:{0}:tube:"+name, "ws").Val() || client.HExists(context.Background(), "redstalk:{0}:tube:"+name, "w0").Val(); ok != want {
			t.Errorf("Redis has times of %s: %v", name, ok)
		}
	}
}

// flowOf returns what a store has counted of a tube.
func flowOf(s *Store, name string) tube.Flow {
	for _, named := range s.Report().Named {
		if named.Tube == name {
			return named.Flow
		}
	}
	return tube.Flow{}
}

// TestCountersLost: where Redis has lost a part of the counters, no count is below zero.
func TestCountersLost(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	do(s, putIn("t", 0))
	client, ctx := redis.Client(t), context.Background()
	client.HIncrBy(ctx, "redstalk:{0}:counts", "deleted", 5)
	client.HIncrBy(ctx, "redstalk:{0}:tube:t", "deletes", 5)
	stats, of := do(s, storage.Op{Kind: storage.Stats}).Stats, do(s, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats
	if stats.Ready > 1 || of.Reserved > 0 || of.Ready != 1 {
		t.Errorf("stats: %+v, of the tube: %+v", stats.Totals, of)
	}
}
