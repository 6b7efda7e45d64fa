package fsck

import (
	"context"
	"errors"
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

// ErrInstances: a namespace cannot be repaired while instances serve it.
var ErrInstances = errors.New("instances of redstalk are running")

var errRunning = fmt.Errorf("%w: stop them before anything is repaired, or wait %v", ErrInstances, watchHeartbeatsFor)

// refuseInstances returns an error if an instance is alive. If there are no instances it
// returns at once.
func (c *checker) refuseInstances(ctx context.Context, watchFor time.Duration) error {
	before, lately, err := c.lastHeartbeats(ctx)
	if err != nil || before == "" {
		return err
	}
	for until := time.Now().Add(watchFor); !lately; time.Sleep(watchHeartbeatsEvery) {
		var after string
		if after, lately, err = c.lastHeartbeats(ctx); err != nil {
			return err
		}
		lately = lately || after != before
		if !lately && time.Now().After(until) {
			return nil
		}
	}
	return errRunning
}

// lastHeartbeats returns all instances with their last heartbeats as a text to compare, "" if
// there are none, and whether any of them is recent.
func (c *checker) lastHeartbeats(ctx context.Context) (all string, lately bool, err error) {
	for _, p := range c.parts {
		now, err := p.node.Time(ctx)
		if err != nil {
			return "", false, fmt.Errorf("asking for the time: %w", err)
		}
		beats, err := p.node.Do(ctx, "zrange", p.prefix+"instances", 0, -1, "withscores").Scored()
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
