package fsck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"redstalk/storage/redis/schema"
)

// The policy of a prefix is in all partitions. They must agree with the one in which get-policy
// reads it. While instances run, a set-policy can be under way, so only differences that last are
// faults.

// prefixFault is a field of a hash of a partition that has the wrong value; "" for none.
type prefixFault struct {
	partition     *checkedPartition
	hash, pattern string
	is, want      string
}

func (f prefixFault) String() string {
	return fmt.Sprintf("%s has %q for %s, and should have %q", f.hash, f.is, f.pattern, f.want)
}

// checkPrefixes checks the policies of prefixes, and what of them concerns puts. A set-policy under
// way has until settleIn to reach all partitions.
func (c *checker) checkPrefixes(ctx context.Context, settleIn time.Duration) error {
	faults, err := c.prefixFaults(ctx)
	for until := time.Now().Add(settleIn); len(faults) > 0 && !c.repair && time.Now().Before(until); {
		time.Sleep(watchHeartbeatsEvery)
		var now []prefixFault
		if now, err = c.prefixFaults(ctx); err != nil {
			break
		}
		faults = slices.DeleteFunc(faults, func(f prefixFault) bool { return !slices.Contains(now, f) })
	}
	if err != nil {
		return err
	}
	for _, f := range faults {
		c.found(f.partition, []string{f.String()})
		if err := c.repairPrefix(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// repairPrefix corrects a fault, if this is a repair.
func (c *checker) repairPrefix(ctx context.Context, f prefixFault) error {
	key := f.partition.prefix + f.hash
	switch {
	case !c.repair:
		return nil
	case f.want == "":
		return f.partition.node.Do(ctx, "hdel", key, f.pattern).Err
	}
	return f.partition.node.Do(ctx, "hset", key, f.pattern, f.want).Err
}

// prefixFaults returns all faults, in the order of partitions and patterns.
func (c *checker) prefixFaults(ctx context.Context) (faults []prefixFault, err error) {
	policies, err := c.readAll(ctx, "prefixes")
	if err != nil {
		return nil, err
	}
	limits, err := c.readAll(ctx, "prefix-limits")
	if err != nil {
		return nil, err
	}
	patterns := make(map[string]bool)
	for _, have := range slices.Concat(policies, limits) {
		for pattern := range have {
			patterns[pattern] = true
		}
	}
	for i, p := range c.parts {
		for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
			want := policies[schema.PartitionOf(pattern, len(c.parts))][pattern]
			if is := policies[i][pattern]; is != want {
				faults = append(faults, prefixFault{p, "prefixes", pattern, is, want})
			}
			policy, err := schema.ParsePolicy(want)
			if is := limits[i][pattern]; err == nil && is != schema.LimitsText(policy) {
				faults = append(faults, prefixFault{p, "prefix-limits", pattern, is, schema.LimitsText(policy)})
			}
		}
	}
	return faults, nil
}

// readAll returns a hash of each partition.
func (c *checker) readAll(ctx context.Context, hash string) (all []map[string]string, err error) {
	for _, p := range c.parts {
		have, err := p.node.Do(ctx, "hgetall", p.prefix+hash).Pairs()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", hash, err)
		}
		all = append(all, have)
	}
	return all, nil
}
