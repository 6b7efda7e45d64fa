package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"redstalk/tools/redistest"
)

// TestKilledOnRedis kills the program with three thousand jobs in Redis and
// starts it again: all are there, in their states, and what was reserved is
// ready again.
func TestKilledOnRedis(t *testing.T) {
	const n = 3_000
	redis := redistest.Start(t)
	args := []string{"-p0", "--store", redis.URL(), "--namespace", "killed"}
	p, addr := serve(t, args...)
	c := must(beanstalk.Dial("tcp", addr))(t)
	tube, tubes := beanstalk.NewTube(c, "work"), beanstalk.NewTubeSet(c, "work")
	fill(t, tube, tubes, n)
	// Counters to be checked later: kicked, released with another priority, reserved.
	must(tube.Kick(1))(t)
	kicked, _, _ := tube.PeekReady()
	released := reserveOne(t, tubes)
	if err := c.Release(released, 3, 0); err != nil {
		t.Fatal(err)
	}
	held := must(tube.Put([]byte("held"), 1, 0, time.Minute))(t)
	if got := reserveOne(t, tubes); got != held {
		t.Fatalf("reserved %d, want %d", got, held)
	}
	before := must(tube.Stats())(t)
	p.signal(t, syscall.SIGKILL)
	p.code(t)
	begun := time.Now()

	_, addr = serve(t, args...)
	client := dial(t, addr)
	client.awaitFigure("stats-tube work", "current-jobs-reserved", "0")
	t.Logf("the reservation of the killed instance was given back %v after it was killed", time.Since(begun))
	c = must(beanstalk.Dial("tcp", addr))(t)
	tube = beanstalk.NewTube(c, "work")
	after := must(tube.Stats())(t)
	for _, key := range []string{"current-jobs-delayed", "current-jobs-buried", "total-jobs", "cmd-delete"} {
		if before[key] != after[key] {
			t.Errorf("%s: %s before, %s after", key, before[key], after[key])
		}
	}
	if got, want := after["current-jobs-ready"], fmt.Sprint(n/3+3); got != want {
		t.Errorf("%s jobs are ready, want %s", got, want)
	}
	for id, want := range map[uint64]string{
		held:     "state=ready pri=1 reserves=0 releases=0 timeouts=0",
		released: "state=ready pri=3 reserves=2 releases=1 timeouts=0",
		kicked:   "state=ready",
	} {
		s := must(c.StatsJob(id))(t)
		for _, pair := range strings.Fields(want) {
			key, value, _ := strings.Cut(pair, "=")
			if s[key] != value {
				t.Errorf("job %d: %s is %s, want %s", id, key, s[key], value)
			}
		}
	}
	checkKeys(t, redis, "killed:{0}:")
}

// fill puts n jobs, a third each delayed, buried, ready; and one more of the
// last two for n not divisible.
func fill(t *testing.T, tube *beanstalk.Tube, tubes *beanstalk.TubeSet, n int) {
	t.Helper()
	for i := range n / 3 {
		must(tube.Put(fmt.Append(nil, "buried ", i), 100, 0, time.Minute))(t)
	}
	for range n / 3 {
		id := reserveOne(t, tubes)
		if err := tube.Conn.Bury(id, 200); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n / 3 {
		must(tube.Put(fmt.Append(nil, "delayed ", i), 100, time.Hour, time.Minute))(t)
	}
	for i := range n/3 + 1 {
		must(tube.Put(fmt.Append(nil, "ready ", i), 1000, 0, time.Minute))(t)
	}
}

func reserveOne(t *testing.T, tubes *beanstalk.TubeSet) uint64 {
	t.Helper()
	id, _, err := tubes.Reserve(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// checkKeys checks that Redis has no keys outside of the namespace, and that
// the kinds of its keys are those of the layout.
func checkKeys(t *testing.T, redis *redistest.Server, prefix string) {
	t.Helper()
	ctx, client := context.Background(), redis.Client(t)
	kinds := map[string]string{
		"job": "string", "ready": "zset", "delayed": "zset", "buried": "zset", "reserved": "zset",
		"tube": "hash", "tubes": "zset", "paused": "hash", "timers": "zset", "refs": "hash",
		"waiting": "zset", "wakeups": "list", "instances": "zset", "versions": "hash", "counts": "hash", "layout": "hash", "batch": "string",
		"tallies": "zset", "tallies of a period": "hash", "tallied": "string",
	}
	seen := make(map[string]bool)
	for _, key := range must(client.Keys(ctx, "*").Result())(t) {
		rest, ok := strings.CutPrefix(key, prefix)
		kind, _, _ := strings.Cut(rest, ":")
		if strings.HasPrefix(rest, "tallies:") {
			kind = "tallies of a period"
		}
		if len(rest) == 16 && strings.Trim(rest, "0123456789") == "" {
			kind = "job"
		}
		if !ok || kinds[kind] == "" {
			t.Errorf("there is a key %s", key)
			continue
		}
		if seen[kind] {
			continue
		}
		seen[kind] = true
		if got := must(client.Type(ctx, key).Result())(t); got != kinds[kind] {
			t.Errorf("%s is a %s, want a %s", key, got, kinds[kind])
		}
	}
	for _, kind := range []string{"job", "ready", "delayed", "buried", "tube", "timers", "counts"} {
		if !seen[kind] {
			t.Errorf("there is no %s key", kind)
		}
	}
}
