package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
)

// Layout 1, of version 0.1.0, has no headers and reasons in metadata, and layout 2, of 0.2.0, no `keep` and no ended jobs, so nothing but
// the version is changed. Programs of an older layout would take new metadata for broken, so none of
// them may work there any more. An instance that has ended is not among the instances; one that
// was killed sends no heartbeat. If others do, the upgrade is refused.

const (
	// watchFor is how long instances must send no heartbeat before an upgrade.
	watchFor = schema.HeartbeatTimeout + schema.SlowCall

	// watchEvery is how often that is checked.
	watchEvery = 200 * time.Millisecond
)

// upgradeText sets the version of a layout, unless that was done before or the instances are
// others than those that were seen, or have sent heartbeats since. It returns the version.
const upgradeText = `
redis.call('DEL', KEYS[1] .. 'none')
local seen = redis.call('ZRANGE', KEYS[1] .. 'instances', '0', '-1', 'WITHSCORES')
local version = redis.call('HGET', KEYS[1] .. 'layout', 'version')
if version == ARGV[1] and table.concat(seen, ' ') == ARGV[2] then
  redis.call('HSET', KEYS[1] .. 'layout', 'version', ARGV[3])
  version = ARGV[3]
end
return version`

// isOlder returns whether a namespace with this version of the layout can be upgraded.
func isOlder(version string) bool {
	n, err := strconv.Atoi(version)
	return err == nil && n >= schema.OldestLayout && n < schema.LayoutVersion
}

// upgrade gives a namespace the present layout.
func upgrade(ctx context.Context, node conn.Node, o Options, from string) error {
	prefix := schema.KeyPrefix(o.Namespace, 0)
	seen, begun := "", time.Now()
	for first := true; ; first = false {
		beats, err := node.Do(ctx, "zrange", prefix+"instances", 0, -1, "withscores").Texts()
		if err != nil {
			return fmt.Errorf("reading the instances before an upgrade: %w", err)
		}
		now := strings.Join(beats, " ")
		if first {
			seen = now
		}
		if len(beats) == 0 || now != seen || time.Since(begun) >= watchFor {
			done, err := tryUpgrade(ctx, node, prefix, from, seen)
			if err != nil {
				return err
			}
			if done {
				o.Log.Warn("the layout of the store is upgraded: older versions of redstalk refuse it from now on", "namespace", o.Namespace, "from", from, "to", schema.LayoutVersion)
				return nil
			}
			return fmt.Errorf("%w: older instances still use the namespace %q (%s): stop all of them, then start this one",
				errLayout, o.Namespace, namesIn(beats))
		}
		time.Sleep(watchEvery)
	}
}

// tryUpgrade runs upgradeText, and returns whether the namespace has the present layout.
func tryUpgrade(ctx context.Context, node conn.Node, prefix, from, seen string) (done bool, err error) {
	version, err := node.Do(ctx, "eval", upgradeText, 1, prefix, from, seen, schema.LayoutVersion).Text()
	if err != nil {
		return false, fmt.Errorf("upgrading the namespace: %w", err)
	}
	return version == strconv.Itoa(schema.LayoutVersion), nil
}

// namesIn returns the names of instances, which are followed by their heartbeats.
func namesIn(beats []string) string {
	var names []string
	for pair := range slices.Chunk(beats, 2) {
		names = append(names, pair[0])
	}
	return strings.Join(names, ", ")
}
