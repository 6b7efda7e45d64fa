package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestSuiteOnCluster is the suite on three primaries with a replica each.
func TestSuiteOnCluster(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 1)
	redis.NeverFailOver(t)
	e := &engines{url: redis.URL(), partitions: *suitePartitions, brief: 4}
	e.runOfAllSizes(t)
}

// TestSuiteBySentinels is the suite on a primary that sentinels name.
func TestSuiteBySentinels(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	redis := redistest.StartSentinels(t, 1)
	redis.NeverFailOver(t)
	e := &engines{url: redis.URL(), partitions: 1, brief: 8}
	e.runOfAllSizes(t)
}

// tubeIn returns the name of a tube that belongs to a partition.
func tubeIn(partition, of int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("tube", i); schema.PartitionOf(name, of) == partition {
			return name
		}
	}
}

func putIn(name string, pri uint32) storage.Op {
	return storage.Op{Kind: storage.Put, Tube: name, Pri: pri, TTR: 600, Body: []byte(name)}
}

func takeFrom(h tube.Holder, wait bool, names ...string) storage.Op {
	return storage.Op{Kind: storage.Take, Holder: h, Tubes: names, Wait: wait}
}

// clusterWithTwoTubes opens a store on a cluster whose nodes serve their slots without the
// others. It returns a node, a tube on it, and one on another node.
func clusterWithTwoTubes(t *testing.T) (s *Store, node *redistest.Server, on, elsewhere string) {
	t.Helper()
	ctx := context.Background()
	redis := redistest.StartCluster(t, 3, 0)
	for _, server := range redis.Primaries {
		if err := server.Client(t).ConfigSet(ctx, "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	s = openAt(t, redis.URL(), 2*time.Second)
	of := len(s.parts)
	node = redis.Owner(t, s.parts[0].prefix, redis.Primaries[0])
	on = tubeIn(0, of)
	for p := range of {
		if redis.Owner(t, s.parts[p].prefix, redis.Primaries[0]) != node {
			elsewhere = tubeIn(p, of)
		}
	}
	return s, node, on, elsewhere
}

// TestStuckNode stops one node of a cluster. Operations that need only the others continue, and
// those that need it are held up and then refused.
func TestStuckNode(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	s, stuck, bad, good := clusterWithTwoTubes(t)
	do(s, putIn(good, 5))
	do(s, storage.Op{Kind: storage.Put, Tube: good, Pri: 10, Delay: 1, TTR: 600})
	s.Tick() // from here on each partition knows what is due
	stuck.Stop()
	failing := make(chan storage.Answer, 2)
	go func() { failing <- do(s, putIn(bad, 1)) }()
	go func() { failing <- do(s, storage.Op{Kind: storage.Stats}) }()
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		if a := do(s, putIn(good, 9)); a.Err != nil {
			t.Fatalf("put on another node: %+v", a)
		}
		if next, _ := s.Tick(); next < -tickAgain {
			t.Fatalf("the next tick is due in %v, which it is again and again", next)
		}
	}
	for range 2 {
		if a := <-failing; !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("on the node that is stuck: %+v", a)
		}
	}
	if a := do(s, storage.Op{Kind: storage.TubeStats, Tube: good}); a.TubeStats == nil || a.TubeStats.Delayed != 0 {
		t.Errorf("the delay on another node is not over: %+v", a.TubeStats)
	}
	if a := do(s, takeFrom(1, true, bad, good)); string(a.Body) != good || a.Err != nil {
		t.Errorf("a take from both: %+v", a)
	}
	if a := do(s, takeFrom(1, true, bad)); !a.NotFound || a.Err != nil {
		t.Errorf("a waiting client is not answered to wait: %+v", a)
	}
	comes := storage.Op{Kind: storage.Ref, Role: tube.Using, Delta: 1, Tubes: []string{bad, good}}
	for _, op := range []storage.Op{comes, {Kind: storage.ReleaseAll, Holder: 7}} {
		if a := do(s, op); a.Err != nil {
			t.Errorf("a connection that comes or goes is held up: %+v", a)
		}
	}
	stuck.Continue()
	awaitReserved(t, s, 1)
	if a := do(s, storage.Op{Kind: storage.TubeStats, Tube: bad}); a.TubeStats == nil || a.TubeStats.Using != 1 {
		t.Errorf("the connection that came is not known: %+v", a)
	}
	if a := do(s, putIn(bad, 1)); a.Err != nil {
		t.Errorf("when the node works again: %+v", a)
	}
}

// TestClusterDown: a cluster that misses a part of itself stops as a whole. Operations are held
// up until it works again.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 0)
	s := openAt(t, redis.URL(), patient)
	state := redis.Primaries[1].Client(t)
	await := func(want string) {
		t.Helper()
		limit := time.Now().Add(time.Minute)
		for info := ""; !strings.Contains(info, want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("waited in vain for %s", want)
			}
			info, _ = state.ClusterInfo(context.Background()).Result()
		}
	}
	redis.Primaries[0].Stop()
	await("cluster_state:fail")
	of := len(s.parts)
	done := make(chan storage.Answer, of)
	for p := range of {
		go func() { done <- do(s, putIn(tubeIn(p, of), 0)) }()
	}
	select {
	case a := <-done:
		t.Errorf("while the cluster is down: %+v", a)
	case <-time.After(hasty):
	}
	redis.Primaries[0].Continue()
	for range of {
		if a := <-done; a.Err != nil {
			t.Errorf("when it is up again: %+v", a)
		}
	}
	if got := figures(t, s); got.Jobs != uint64(of) || got.Ready != uint64(of) {
		t.Errorf("%+v", got)
	}
}

// TestSlotMigration moves a partition from node to node: every operation on it is carried out
// once, also while its keys are on both sides.
func TestSlotMigration(t *testing.T) {
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 0)
	s := openAt(t, redis.URL(), patient)
	name := tubeIn(3, len(s.parts))
	const jobs = 250
	for range jobs {
		do(s, putIn(name, 0))
	}
	for round := range 3 {
		from := redis.Owner(t, s.parts[3].prefix, redis.Primaries[0])
		to := redis.Primaries[round]
		done, steps := make(chan storage.Answer, 100), 0
		redis.Migrate(t, s.parts[3].prefix, from, to, func() {
			steps++
			go func() { done <- do(s, putIn(name, 1)) }()
		})
		for range steps {
			if a := <-done; a.Err != nil {
				t.Errorf("while keys were moved: %+v", a)
			}
		}
		if got := do(s, storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats; got == nil || got.Total != got.Ready || got.Total < jobs {
			t.Errorf("after the move: %+v", got)
		}
	}
	seen := make(map[uint64]bool)
	total := int(do(s, storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats.Total)
	for range total {
		a := do(s, takeFrom(1, false, name))
		if a.Err != nil || a.NotFound || seen[a.ID] {
			t.Fatalf("job %d of %d: %+v", len(seen), total, a)
		}
		seen[a.ID] = true
	}
}

// TestStartChecksOfCluster: every node is checked.
func TestStartChecksOfCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	redis := redistest.StartCluster(t, 3, 1)
	if log, err := tryOpen(Options{URL: redis.URL()}); err != nil || strings.Contains(log, "neither an append-only") {
		t.Errorf("in order: %v, %s", err, log)
	}
	if _, err := tryOpen(Options{URL: redis.URL(), Partitions: 8}); err == nil || !strings.Contains(err.Error(), "has partitions 16, and this redstalk needs 8") {
		t.Errorf("another number of partitions: %v", err)
	}
	redis.AwaitListed(t)
	last := redis.Replicas[2]
	last.Client(t).ConfigSet(ctx, "maxmemory-policy", "allkeys-lfu")
	if _, err := tryOpen(Options{URL: redis.URL()}); err == nil || !strings.Contains(err.Error(), last.Addr+" is allkeys-lfu") {
		t.Errorf("with a replica that evicts: %v", err)
	}
	last.Client(t).ConfigSet(ctx, "maxmemory-policy", "noeviction")
	for _, node := range redis.Nodes() {
		rules := []any{"acl", "setuser", "u", "on", ">p", "~redstalk:*", "resetchannels", "-@all"}
		for _, name := range strings.Fields(documented) {
			rules = append(rules, "+"+name)
		}
		if err := node.Client(t).Do(ctx, rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	url := strings.Replace(redis.URL(), "://", "://u:p@", 1)
	log, err := tryOpen(Options{URL: url, WaitReplicas: 1})
	for tries := 0; strings.Contains(log, "i/o timeout") && tries < 5; tries++ { // a machine that has too much to do
		log, err = tryOpen(Options{URL: url, WaitReplicas: 1})
	}
	if err != nil || strings.Contains(log, "WARN") {
		t.Errorf("with what is documented: %v, %s", err, log)
	}
	if err := redis.Primaries[2].Client(t).Do(ctx, "acl", "setuser", "u", "-zpopmin").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(Options{URL: url}); err == nil || !strings.Contains(err.Error(), "ZPOPMIN") {
		t.Errorf("without a permission on one node: %v", err)
	}
}

// TestPasswordsBySentinels: the password is for Redis, and also for the sentinels if the URL
// says so.
func TestPasswordsBySentinels(t *testing.T) {
	url := strings.Replace(redistest.StartLocked(t, "secret").URL(), "://", "://:secret@", 1)
	if _, err := tryOpen(Options{URL: url + "?sentinel_auth=same"}); err != nil {
		t.Errorf("with the password: %v", err)
	}
	if _, err := tryOpen(Options{URL: url}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("without one for the sentinel: %v", err)
	}
}

// documented are the permissions in docs/redis.md.
const documented = `evalsha eval blpop lpop lrange rpush hsetnx hset hget hmget hgetall hdel hincrby hexists hlen hkeys hscan
	get set strlen mget mset getrange setrange append del exists rename persist
	zadd zrem zpopmin zremrangebyrank zrange zrangebyscore zrevrange zrevrangebylex zrangebylex zlexcount zscore zcard zcount zrank
	time info config|get wait cluster|slots cluster|myid`

// documentedForCheck are those that only fsck needs besides.
const documentedForCheck = `scan zscan pttl`

// TestStartChecksBySentinels: a replica that evicts could lose jobs later.
func TestStartChecksBySentinels(t *testing.T) {
	t.Parallel()
	redis := redistest.StartSentinels(t, 1)
	redis.Servers[1].Client(t).ConfigSet(context.Background(), "maxmemory-policy", "allkeys-lru")
	if _, err := tryOpen(Options{URL: redis.URL()}); err == nil || !strings.Contains(err.Error(), redis.Servers[1].Addr+" is allkeys-lru") {
		t.Errorf("with a replica that evicts: %v", err)
	}
}

// TestAllNodesGone: while no node of a cluster can be reached, operations are held up and then
// refused; when the nodes are back, everything continues.
func TestAllNodesGone(t *testing.T) {
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 0)
	s := openAt(t, redis.URL(), hasty)
	of := len(s.parts)
	here, there := tubeIn(0, of), tubeIn(1, of)
	for _, node := range redis.Primaries {
		node.Kill()
	}
	for i, op := range []storage.Op{putIn(here, 1), takeFrom(1, false, here, there), {Kind: storage.Tubes}} {
		begun := time.Now()
		if a := do(s, op); !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("operation %d: %+v", i, a)
		}
		if took := time.Since(begun); took > patient/2 {
			t.Errorf("operation %d was refused after %v", i, took)
		}
	}
	if a := do(s, takeFrom(1, true, here, there)); a.Err != nil || !a.NotFound {
		t.Errorf("a take that can wait: %+v", a)
	}
	for _, node := range redis.Primaries {
		if err := node.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	figures(t, s)
	for _, op := range []storage.Op{putIn(here, 1), takeFrom(1, false, here, there)} {
		if a := do(s, op); a.Err != nil || a.NotFound {
			t.Errorf("when they are back: %+v", a)
		}
	}
}

// TestDemotedWhileWaiting: Redis becomes a replica for a moment, as in a manual failover, while
// a call that was carried out waits for replicas, and answers UNBLOCKED. The call counts once,
// and the instance keeps what it has.
func TestDemotedWhileWaiting(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary := redistest.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := redistest.Start(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	client := primary.Client(t)
	info := func(section, what string) bool {
		text, err := client.Info(ctx, section).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(text, what)
	}
	awaitInfo := func(section, what string) {
		t.Helper()
		for limit := time.Now().Add(patient); !info(section, what); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	awaitInfo("replication", "state=online")
	s, err := Open(ctx, Options{URL: primary.URL(), WaitReplicas: 1, Timeout: patient, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	do(s, put("x"))
	held := do(s, take(3)).ID
	replica.Stop()
	done := make(chan storage.Answer, 1)
	go func() { done <- do(s, put("y")) }()
	awaitInfo("clients", "blocked_clients:1")
	for _, of := range [][2]string{{"127.0.0.1", "1"}, {"no", "one"}} {
		if err := client.Do(ctx, "replicaof", of[0], of[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	awaitInfo("errorstats", "errorstat_UNBLOCKED")
	replica.Continue()
	if a := <-done; a.Err != nil {
		t.Errorf("put: %+v", a)
	}
	if got := figures(t, s); got.Jobs != 2 || got.Ready != 1 || got.Reserved != 1 {
		t.Errorf("%+v", got)
	}
	if a := do(s, move(tube.Delete, 3, held)); a.Err != nil || a.NotFound {
		t.Errorf("delete of what was reserved: %+v", a)
	}
}
