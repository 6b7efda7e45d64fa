package redis

import (
	"context"
	"fmt"
	"time"

	"redstalk/storage/redis/schema"
)

// A repair needs a namespace that no instance serves. An old heartbeat, by the clock of Redis,
// does not prove that: the clock may have been set, or Redis may have been down and the
// instances are about to return.

const (
	// watchHeartbeatsFor is how long instances with old heartbeats are watched: an instance
	// that is alive sends another one within that time. watchHeartbeatsEvery is the interval of
	// polling.
	watchHeartbeatsFor   = schema.HeartbeatTimeout + schema.SlowCall
	watchHeartbeatsEvery = 100 * time.Millisecond
)

// anyAlive returns whether an instance is alive in any of these partitions. If there are no
// instances it returns at once.
func anyAlive(ctx context.Context, l *link, o *Options, partitions int) (bool, error) {
	before, lately, err := lastHeartbeats(ctx, l, o.Namespace, partitions)
	if err != nil || lately || before == "" {
		return lately, err
	}
	for until := time.Now().Add(o.watchFor); ; time.Sleep(watchHeartbeatsEvery) {
		after, lately, err := lastHeartbeats(ctx, l, o.Namespace, partitions)
		if alive := lately || after != before; err != nil || alive || time.Now().After(until) {
			return alive, err
		}
	}
}

// lastHeartbeats returns all instances with their last heartbeats as a text to compare, "" if
// there are none, and whether any of them is recent.
func lastHeartbeats(ctx context.Context, l *link, namespace string, partitions int) (all string, lately bool, err error) {
	for number := range partitions {
		prefix := schema.KeyPrefix(namespace, number)
		node, err := l.node(ctx, prefix)
		if err != nil {
			return "", false, err
		}
		now, err := node.Time(ctx).Result()
		if err != nil {
			return "", false, fmt.Errorf("asking for the time: %w", err)
		}
		beats, err := node.ZRangeWithScores(ctx, prefix+"instances", 0, -1).Result()
		if err != nil {
			return "", false, fmt.Errorf("reading the heartbeats: %w", err)
		}
		for _, beat := range beats {
			lately = lately || now.Sub(time.UnixMilli(int64(beat.Score))).Abs() < watchHeartbeatsFor
			all += fmt.Sprintf("%v %.0f;", beat.Member, beat.Score)
		}
	}
	return all, lately, nil
}
