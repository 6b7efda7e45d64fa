package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/ledger"
	"redstalk/tools/redistest"
)

var haLong = flag.Bool("ha-long", false, "also run what takes long of the tests in which Redis fails over")

// These tests put two instances under load, let Redis fail over or move its
// slots, and compare the ledger with the jobs at the end.

// underLoad starts two instances on a store, and runs the ledger's load on them
// while trouble makes trouble. Then it checks the ledger; so no group is stuck after that.
func underLoad(t *testing.T, url string, cause func(*probe), flags ...string) ledger.Report {
	t.Helper()
	args := append([]string{"-p0", "--store", url}, flags...)
	_, a := serve(t, args...)
	_, b := serve(t, args...)
	p := &probe{t: t, addr: a, record: ledger.New(ledger.Config{
		Addrs: []string{a, b}, Seed: 1, Tubes: 8,
		Producers: 8, Consumers: 8, Kickers: 1, Leasers: 6, LeasePace: 5 * time.Millisecond, GroupLimit: 2, Patience: patience,
	})}
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() { p.record.Run(ctx) })
	defer load.Wait()
	defer stop()
	p.awaitPuts(200)
	cause(p)
	p.awaitPuts(200)
	stop()
	load.Wait()
	audit, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	if err := p.record.Drain(audit); err != nil {
		t.Error(err)
	}
	report := p.record.Report()
	if t.Log(report); report.Full == 0 {
		t.Error("no group has reached its limit")
	}
	return report
}

// probe watches how the load fares.
type probe struct {
	t      *testing.T
	addr   string // of an instance
	record *ledger.Ledger
}

// awaitPuts waits until so many more puts are acknowledged.
func (p *probe) awaitPuts(n int) {
	p.t.Helper()
	awaitPuts(p.t, p.record, n, patience)
}

// awaitPuts waits until so many more puts are acknowledged, if that takes no
// longer than patience.
func awaitPuts(t *testing.T, record *ledger.Ledger, n int, patience time.Duration) {
	t.Helper()
	want, limit := record.Report().PutsAcked+n, time.Now().Add(patience)
	for record.Report().PutsAcked < want {
		if time.Now().After(limit) {
			t.Fatalf("the load has come to a stop: %v", record.Report())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitService waits until a put is acknowledged in each of n tubes, and returns
// how long that took.
func (p *probe) awaitService(n int) time.Duration {
	p.t.Helper()
	watch := startWatch()
	var all sync.WaitGroup
	for i := range n {
		c := dial(p.t, p.addr)
		all.Go(func() {
			defer c.conn.Close()
			c.sendAside(fmt.Sprintf("use probe-%d\r\n", i))
			_, err := c.conn.Line()
			for line := ""; err == nil && !strings.HasPrefix(line, "INSERTED"); {
				c.sendAside("put 0 0 60 1\r\nx\r\n")
				line, err = c.conn.Line()
			}
			if err != nil {
				p.t.Error(err)
			}
		})
	}
	all.Wait()
	return watch.took()
}

// TestSentinelFailover kills the primary under load. A replica takes over, and
// as every answer waited for a replica, nothing that was acknowledged is lost.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	redis := redistest.StartSentinels(t, 2)
	r := underLoad(t, redis.URL(), func(p *probe) {
		killed := time.Now()
		redis.Servers[0].Kill()
		redis.AwaitPrimary(t, redis.Servers[0])
		decided := time.Since(killed)
		back := p.awaitService(1)
		t.Logf("the sentinels had decided after %v, and service was back %v later", decided, back)
		if back > busy.Times(2*time.Second) {
			t.Errorf("service was back %v after the decision", back)
		}
	}, "--wait-replicas", "1")
	if r.LongestUnanswered > busy.Times(10*time.Second) {
		t.Errorf("a client was without an answer for %v", r.LongestUnanswered)
	}
}

// TestFrozenPrimary stops the primary until another one has taken over, and lets
// it continue: commands that it has not answered, and commands that it gets before it
// knows, do not count.
func TestFrozenPrimary(t *testing.T) {
	if !*haLong {
		t.Skip("takes 20 s; -ha-long runs it")
	}
	t.Parallel()
	redis := redistest.StartSentinels(t, 2)
	frozen := redis.Servers[0]
	underLoad(t, redis.URL(), func(p *probe) {
		frozen.Stop()
		redis.AwaitFollowed(t, redis.AwaitPrimary(t, frozen)) // by the other replica, which confirms nothing to the frozen one any more
		t.Logf("service was back %v after the decision", p.awaitService(1))
		frozen.Continue()
		redis.AwaitReplica(t, frozen)
	}, "--wait-replicas", "1")
}

// TestClusterFailover moves partitions to a primary of a cluster under load, and
// kills it. It is started again when its replica has taken over, as a replica of
// that. A move alone is not confirmed by a replica, but everything that is acknowledged
// later is, together with everything before it on the same node.
func TestClusterFailover(t *testing.T) {
	atLength(t)
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 1)
	underLoad(t, redis.URL(), func(p *probe) {
		victim := redis.Primaries[1]
		for partition := range 4 {
			key := fmt.Sprintf("redstalk:{%d}:", partition)
			redis.Migrate(t, key, redis.Owner(t, key, victim), victim, nil)
		}
		p.awaitService(32)
		killed := time.Now()
		victim.Kill()
		redis.AwaitTakeover(t, "redstalk:{1}:", victim)
		decided := time.Since(killed)
		if err := victim.Restart(); err != nil {
			t.Fatal(err)
		}
		back := p.awaitService(32)
		t.Logf("the replica had taken over after %v; service in all tubes was back %v later", decided, back)
	}, "--wait-replicas", "1", "--store-timeout", "8s")
}

// TestSlotMigration moves partitions of a cluster to other nodes under load.
func TestSlotMigration(t *testing.T) {
	atLength(t)
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 0)
	underLoad(t, redis.URL(), func(p *probe) {
		moved, longest := 0, time.Duration(0)
		for partition := range 8 {
			key := fmt.Sprintf("redstalk:{%d}:", partition)
			from, to := redis.Owner(t, key, redis.Primaries[0]), redis.Primaries[partition%3]
			if from == to {
				continue
			}
			begun := time.Now()
			redis.Migrate(t, key, from, to, nil)
			moved, longest = moved+1, max(longest, time.Since(begun))
		}
		t.Logf("%d partitions were moved, each in %v at most; service in all tubes was back %v after the last", moved, longest, p.awaitService(32))
	})
}
