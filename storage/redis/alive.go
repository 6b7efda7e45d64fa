package redis

import (
	"context"
	"fmt"
	"time"
)

// A repair needs a namespace that no instance serves. That a heartbeat was given
// long ago by the clock of Redis does not say so: the clock may have been set, or Redis may just
// have come back, and then the instances are about to.

const (
	// watchFor is how long instances are watched whose last heartbeats seem to be old: one
	// that lives gives another one meanwhile. watchEvery is how often they are looked at.
	watchFor   = silence + slow
	watchEvery = 100 * time.Millisecond
)

// anyAlive returns whether an instance lives in one of so many partitions. Where none is known
// it does so at once.
func anyAlive(ctx context.Context, l *link, o *Options, partitions int) (bool, error) {
	before, lately, err := lastHeartbeats(ctx, l, o.Namespace, partitions)
	if err != nil || lately || before == "" {
		return lately, err
	}
	for until := time.Now().Add(o.watchFor); ; time.Sleep(watchEvery) {
		after, lately, err := lastHeartbeats(ctx, l, o.Namespace, partitions)
		if alive := lately || after != before; err != nil || alive || time.Now().After(until) {
			return alive, err
		}
	}
}

// lastHeartbeats returns which instances there are and what Redis says of their last heartbeats,
// "" if there are none, and whether one seems to have been given lately.
func lastHeartbeats(ctx context.Context, l *link, namespace string, partitions int) (all string, lately bool, err error) {
	for number := range partitions {
		prefix := keyPrefix(namespace, number)
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
			lately = lately || now.Sub(time.UnixMilli(int64(beat.Score))).Abs() < watchFor
			all += fmt.Sprintf("%v %.0f;", beat.Member, beat.Score)
		}
	}
	return all, lately, nil
}
