package redis

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
)

//go:embed lua/check/permissions.lua
var permissionsScript string

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
