package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage/redis/schema"
)

const (
	// defaultPartitions is the number of partitions on a single server, so that ids are 1, 2, 3
	// …; clusterPartitions is that on a cluster.
	defaultPartitions = 1
	clusterPartitions = 16

	// MaxPartitions limits them: each costs every instance a connection and periodic calls.
	MaxPartitions = 1024
)

// partitionsFor returns the number of partitions for the number in Options; 0 is the default.
func partitionsFor(asked int, k kind) (int, error) {
	switch {
	case asked < 0 || asked > MaxPartitions:
		return 0, fmt.Errorf("there can be 1 to %d partitions, not %d", MaxPartitions, asked)
	case asked > 0:
		return asked, nil
	case k == cluster:
		return clusterPartitions, nil
	}
	return defaultPartitions, nil
}

// errLayout: a namespace has another layout than this instance needs.
var errLayout = errors.New("another layout")

// prepare checks that this instance can use the namespace. It marks a new one, with the hash
// NAMESPACE:{0}:layout.
func prepare(ctx context.Context, node *goredis.Client, o Options) error {
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
		if err := writeThoughFull(ctx, node, prefix, "HSETNX", key, w.field, w.value).Err(); err != nil {
			return err
		}
	}
	have, err := node.HGetAll(ctx, key).Result()
	if err != nil {
		return err
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
func writeThoughFull(ctx context.Context, by goredis.Scripter, prefix string, words ...any) *goredis.Cmd {
	return by.Eval(ctx, "redis.call('DEL', KEYS[1]) return redis.call(unpack(ARGV))", []string{prefix + "none"}, words...)
}
