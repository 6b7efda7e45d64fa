package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage/redis/schema"
)

//go:embed lua/check/permissions.lua
var permissionsScript string

// checkServers checks at the start what would lose jobs or fail later, on every server that has
// jobs or can get some. It returns what the server of each partition allows, which is inspected
// again later, see servercheck.go.
func checkServers(ctx context.Context, l *link, o *Options) (all []*capabilities, err error) {
	for number := range o.Partitions {
		prefix := schema.KeyPrefix(o.Namespace, number)
		node, err := l.node(ctx, prefix)
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
	return all, l.each(ctx, func(ctx context.Context, node *goredis.Client) error {
		info, err := node.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		return checkServerInfo(node.Options().Addr, info, err, *o)
	})
}

// checkServerInfo checks the INFO of a server, if there is one.
func checkServerInfo(addr, info string, err error, o Options) error {
	log := o.Log
	if addr == "FailoverClient" { // the name that go-redis uses
		addr = "the primary"
	}
	if o.kind != single {
		log = log.With("server", addr)
	}
	switch {
	case forbids(err, "info"):
		log.Warn("Redis does not let this user run INFO, so it is unknown whether Redis can lose jobs")
		return nil
	case err != nil && o.kind != single: // servers that are needed were inspected more strictly before
		log.Warn("a server does not answer, so it is unknown whether it can lose jobs", "err", err)
		return nil
	case err != nil:
		return err
	}
	return checkInfo(addr, info, log, o)
}

func checkInfo(addr, info string, log *slog.Logger, o Options) error {
	value := func(name string) string { return infoValue(info, name) }
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

// checkUser refuses a user without a password, which mostly is a password in the wrong place.
func checkUser(options *goredis.Options) error {
	if options.Username != "" && options.Password == "" {
		return errors.New("reading the URL of Redis: there is a user but no password; write redis://:PASSWORD@HOST for a password without a user")
	}
	return nil
}
