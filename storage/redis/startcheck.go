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
)

//go:embed lua/check/permissions.lua
var permissionsScript string

// guard checks at the start what would cost jobs or fail later on, on every
// server that has jobs or may come to have some. It returns in what condition the server of
// each partition is, which is looked at again later: see fitness.go.
func checkServers(ctx context.Context, l *link, o *Options) (all []*capabilities, err error) {
	for number := range o.Partitions {
		prefix := keyPrefix(o.Namespace, number)
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
	var mu sync.Mutex // servers are looked at at the same time
	return all, l.each(ctx, func(ctx context.Context, node *goredis.Client) error {
		info, err := node.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		return checkServerInfo(node.Options().Addr, info, err, *o)
	})
}

// checkServer looks at what a server says of itself, if it does.
func checkServerInfo(addr, info string, err error, o Options) error {
	log := o.Log
	if addr == "FailoverClient" { // go-redis's word
		addr = "the primary"
	}
	if o.kind != single {
		log = log.With("server", addr)
	}
	switch {
	case forbids(err, "info"):
		log.Warn("Redis does not let this user run INFO, so it cannot be checked whether Redis may lose jobs")
		return nil
	case err != nil && o.kind != single: // those that are needed are asked for more than this
		log.Warn("a server does not answer, so it cannot be checked whether it may lose jobs", "err", err)
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

// checkUser refuses a user without a password, which mostly is a password in
// the wrong place.
func checkUser(options *goredis.Options) error {
	if options.Username != "" && options.Password == "" {
		return errors.New("reading the URL of Redis: there is a user but no password; write redis://:PASSWORD@HOST for a password without a user")
	}
	return nil
}
