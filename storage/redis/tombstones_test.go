package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// tombstoneTest is a store of jobs whose keys stay taken for a time.
type tombstoneTest struct {
	*testing.T
	s      *Store
	server *redistest.Server
	ahead  atomic.Int64 // by which the time was moved
}

func newTombstoneTest(t *testing.T) *tombstoneTest {
	k := &tombstoneTest{T: t, server: redistest.Start(t)}
	k.s = openWith(t, Options{URL: k.server.URL(), Timeout: patient, skew: func() time.Duration { return time.Duration(k.ahead.Load()) }})
	return k
}

// put puts a job whose key stays taken for that long.
func (k *tombstoneTest) put(key string, ttl time.Duration) storage.Answer {
	k.Helper()
	tags := &tube.Tags{Key: key, Rules: tube.Rules{KeyTTL: ttl, HasKeyTTL: true}}
	a := do(k.s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 100, Body: []byte("x"), Args: &storage.Args{Tags: tags}})
	if a.Err != nil {
		k.Fatal(a.Err)
	}
	return a
}

// advance lets time pass, and ticks until nothing is due.
func (k *tombstoneTest) advance(d time.Duration) {
	k.Helper()
	k.ahead.Add(int64(d))
	for begun := time.Now(); ; {
		next, err := k.s.TickAll()
		if err != nil {
			k.Fatal(err)
		}
		if next > 0 {
			return
		}
		if time.Since(begun) > patient {
			k.Fatal("something is due all the time")
		}
	}
}

// inRedis returns the keys in Redis that are about tombstones.
func (k *tombstoneTest) inRedis() []string {
	k.Helper()
	all, err := k.server.Client(k.T).Keys(context.Background(), "*").Result()
	if err != nil {
		k.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(key string) bool {
		return !strings.Contains(key, "}:key:") && !strings.Contains(key, "}:tombstones")
	})
	slices.Sort(all)
	return all
}

func (k *tombstoneTest) flush() {
	k.Helper()
	if a := do(k.s, storage.Op{Kind: storage.Flush, Tube: "t"}); a.Err != nil {
		k.Fatal(a.Err)
	}
}

// TestTombstonesAreDropped: a tick deletes the tombstones whose time is over, and no others:
// not that of a key which another job has had since. Redis itself would delete them later.
func TestTombstonesAreDropped(t *testing.T) {
	k := newTombstoneTest(t)
	beginOfMinute := time.Minute - time.Duration(time.Now().UnixNano())%time.Minute + time.Second
	k.ahead.Store(int64(beginOfMinute))
	k.put("short", 10*time.Second)
	k.put("again", 11*time.Minute) // what stays taken for as long as that is dropped once a minute
	k.put("long", time.Hour)
	k.flush()
	k.advance(11*time.Minute + 5*time.Second)
	again := k.put("again", time.Hour)
	k.flush()
	k.advance(time.Minute)
	if all := strings.Join(k.inRedis(), " "); strings.Contains(all, "short") || !strings.Contains(all, "again") || !strings.Contains(all, "long") {
		t.Errorf("there are %s", all)
	}
	if a := k.put("again", time.Hour); a.ID != again.ID {
		t.Errorf("job %d has the key, want %d", a.ID, again.ID)
	}
	k.advance(2 * time.Hour)
	if all := k.inRedis(); len(all) > 0 {
		t.Errorf("there are %s", all)
	}
}

// TestTombstonesInSteps: of very many tombstones that end together each tick deletes some.
// Nothing is left to Redis, which would delete as many in a row as fit into 25 ms.
func TestTombstonesInSteps(t *testing.T) {
	t.Parallel()
	k := newTombstoneTest(t)
	const n = 1500 // which is more than a call may do
	for i := range n {
		k.put(fmt.Sprint(i), 30*time.Second)
	}
	k.flush()
	if all := k.inRedis(); len(all) < n {
		t.Fatalf("there are %d keys", len(all))
	}
	atMost(t, k.server, 4*maxMoves, func() { k.advance(time.Minute) })
	if all := k.inRedis(); len(all) > 0 {
		t.Errorf("there are %d keys", len(all))
	}
}

// TestCounterOfHeldKeys: in a partition from before version 0.3.0 it is right from its first change on, and fsck checks it.
func TestCounterOfHeldKeys(t *testing.T) {
	t.Parallel()
	k := newTombstoneTest(t)
	put := func(from, upto int) {
		for i := range upto - from {
			k.put(fmt.Sprint(from+i), time.Hour)
		}
		k.flush()
	}
	counts, client := "redstalk:{0}:counts", k.server.Client(t)
	put(0, 1200)
	client.HDel(t.Context(), counts, "held-keys")
	put(1200, 1201)
	if n := do(k.s, storage.Op{Kind: storage.Stats}).Stats.HeldKeys; n != 1201 {
		t.Errorf("%d keys are held, want 1201", n)
	}
	if _, wrong := checkAt(t, k.server.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	k.s.Close()
	client.HSet(t.Context(), counts, "held-keys", 7)
	for _, repair := range []bool{false, true} {
		if _, wrong := checkAt(t, k.server.URL(), repair); len(wrong) != 1 || !strings.Contains(wrong[0], "held-keys of counts is 7, and should be 1201") {
			t.Errorf("repair %v: %q", repair, wrong)
		}
	}
	if _, wrong := checkAt(t, k.server.URL(), false); len(wrong) > 0 {
		t.Errorf("after the repair: %q", wrong)
	}
}
