package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
)

// checkServers checks at the start what would lose jobs or fail later, on every server that has
// jobs or can get some. It returns what the server of each partition allows, which is inspected
// again later, see servercheck.go.
func checkServers(ctx context.Context, pool *conn.Pool, o *Options) (all []*capabilities, err error) {
	for number := range o.Partitions {
		prefix := schema.KeyPrefix(o.Namespace, number)
		node, err := pool.Node(ctx, prefix)
		if err != nil {
			return nil, err
		}
		caps, err := inspect(ctx, node, prefix, o, true)
		if err == nil {
			err = caps.unusable()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, caps)
	}
	if slices.ContainsFunc(all, (*capabilities).cannotStage) {
		warnOfStaging(o.Log)
	}
	var mu sync.Mutex // servers are asked concurrently
	return all, pool.Each(ctx, func(ctx context.Context, node conn.Node) error {
		info, err := node.Do(ctx, "info").Text()
		mu.Lock()
		defer mu.Unlock()
		return checkServerInfo(node.Addr(), info, err, *o)
	})
}

// checkServerInfo checks the INFO of a server, if there is one.
func checkServerInfo(addr, info string, err error, o Options) error {
	log := o.Log
	if addr == "FailoverClient" { // the name that go-redis uses
		addr = "the primary"
	}
	if o.kind != conn.Single {
		log = log.With("server", addr)
	}
	switch {
	case conn.Forbids(err, "info"):
		log.Warn("Redis does not let this user run INFO, so it is unknown whether Redis can lose jobs")
		return nil
	case err != nil && o.kind != conn.Single: // servers that are needed were inspected more strictly before
		log.Warn("a server does not answer, so it is unknown whether it can lose jobs", "err", err)
		return nil
	case err != nil:
		return err
	}
	return checkInfo(addr, info, log, o)
}

func checkInfo(addr, info string, log *slog.Logger, o Options) error {
	value := func(name string) string { return conn.InfoValue(info, name) }
	if policy := value("maxmemory_policy"); strings.HasPrefix(policy, "allkeys") {
		if !o.AllowEviction {
			return fmt.Errorf("the maxmemory-policy of Redis at %s is %s, by which it deletes jobs when memory is full: set it to noeviction", addr, policy)
		}
		log.Warn("Redis deletes jobs when its memory is full", "maxmemory-policy", policy)
	}
	if value("role") == "master" && value("aof_enabled") == "0" && value("connected_slaves") == "0" {
		log.Warn("Redis has neither an append-only file nor a replica: jobs are lost when it ends")
	}
	return nil
}

const (
	// defaultPartitions is the number of partitions on a single server, so that ids are 1, 2, 3
	// …; clusterPartitions is that on a cluster.
	defaultPartitions = 1
	clusterPartitions = 16

	// MaxPartitions limits them: each costs every instance a connection and periodic calls.
	MaxPartitions = 1024
)

// partitionsFor returns the number of partitions for the number in Options; 0 is the default.
func partitionsFor(asked int, k conn.Kind) (int, error) {
	switch {
	case asked < 0 || asked > MaxPartitions:
		return 0, fmt.Errorf("there can be 1 to %d partitions, not %d", MaxPartitions, asked)
	case asked > 0:
		return asked, nil
	case k == conn.Cluster:
		return clusterPartitions, nil
	}
	return defaultPartitions, nil
}

// errLayout: a namespace has another layout than this instance needs.
var errLayout = errors.New("another layout")

// prepare checks that this instance can use the namespace. It marks a new one, with the hash
// NAMESPACE:{0}:layout.
func prepare(ctx context.Context, node conn.Node, o Options) error {
	prefix := schema.KeyPrefix(o.Namespace, 0)
	key := prefix + "layout"
	want := []struct {
		field  string
		value  int
		advice string
	}{
		{"version", schema.LayoutVersion, "choose another namespace"},
		{"partitions", o.Partitions, "choose another namespace, or the same number for all instances"},
	}
	for _, w := range want {
		if err := writeThoughFull(ctx, node, prefix, "HSETNX", key, w.field, w.value).Err; err != nil {
			return err
		}
	}
	have, err := node.Do(ctx, "hgetall", key).Pairs()
	if err != nil {
		return err
	}
	if from := have["version"]; isOlder(from) {
		if err := upgrade(ctx, node, o, from); err != nil {
			return err
		}
		o.Log.Info("the data were upgraded", "namespace", o.Namespace, "from", from, "to", schema.LayoutVersion)
		have["version"] = strconv.Itoa(schema.LayoutVersion)
	}
	for _, w := range want {
		if have[w.field] != strconv.Itoa(w.value) {
			return fmt.Errorf("%w: the namespace %q has %s %s, and this redstalk needs %d: %s", errLayout, o.Namespace, w.field, have[w.field], w.value, w.advice)
		}
	}
	return nil
}

// writeThoughFull runs a command that writes even if Redis has no memory left: Redis allows a
// script to write if its first write needs no memory. Otherwise no instance could start to work
// off what fills the memory.
func writeThoughFull(ctx context.Context, node conn.Node, prefix string, words ...any) conn.Reply {
	command := []any{"eval", "redis.call('DEL', KEYS[1]) return redis.call(unpack(ARGV))", 1, prefix + "none"}
	return node.Do(ctx, append(command, words...)...)
}
