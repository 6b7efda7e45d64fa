package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/check/permissions.lua
var permissionCheck string

// guard checks at the start what would cost jobs or fail later on.
func guard(ctx context.Context, client goredis.UniversalClient, o Options) error {
	missing, err := client.Eval(ctx, permissionCheck, []string{keyPrefix(o.Namespace, 0)}).StringSlice()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("the user of Redis may not run these commands in scripts: %s", strings.Join(missing, ", "))
	}
	info, err := client.Info(ctx).Result()
	if codeOf(err) == "NOPERM" {
		o.Log.Warn("Redis does not let this user run INFO, so it cannot be checked whether Redis may lose jobs")
		return nil
	}
	if err != nil {
		return err
	}
	return checkInfo(info, o)
}

func checkInfo(info string, o Options) error {
	value := func(name string) string {
		_, rest, _ := strings.Cut(info, "\n"+name+":")
		text, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(text)
	}
	if policy := value("maxmemory_policy"); strings.HasPrefix(policy, "allkeys") {
		if !o.AllowEviction {
			return fmt.Errorf("the maxmemory-policy of Redis is %s, by which it deletes jobs when memory is full: set it to noeviction", policy)
		}
		o.Log.Warn("Redis deletes jobs when its memory is full", "maxmemory-policy", policy)
	}
	if value("aof_enabled") == "0" && value("connected_slaves") == "0" {
		o.Log.Warn("Redis has neither an append-only file nor a replica: jobs are lost when it ends")
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

// errFewReplicas: a batch was carried out, but is not yet where it has to be.
var errFewReplicas = errors.New("too few replicas have the batch")

// awaitReplicas sends a call and has Redis wait until enough replicas have
// what it wrote, both on one connection, as WAIT asks for.
func (p *partition) awaitReplicas(ctx context.Context, args []any) (any, error) {
	limit := p.options.attempt() / 2
	pipe := p.client.Pipeline()
	call := pipe.Do(ctx, args...)
	wait := pipe.Do(ctx, "wait", p.options.WaitReplicas, limit.Milliseconds())
	pipe.Exec(ctx) // its error is that of one of the two
	if err := call.Err(); err != nil {
		return nil, err
	}
	n, err := wait.Int()
	if err == nil && n < p.options.WaitReplicas {
		err = fmt.Errorf("%w: %d of %d", errFewReplicas, n, p.options.WaitReplicas)
	}
	return call.Val(), err
}
