package fsck

import (
	"context"
	"fmt"
	"strconv"
)

// The bytes of the bodies of each tube are counted while its jobs are checked, in many scripts.
// So a tube has a mark that differs as soon as a job is put or removed. What was counted is
// compared with the tube's counter in one call, if the mark is still the same.

// newBodies returns an empty count for a partition, with the marks of its tubes.
func (c *checker) newBodies(ctx context.Context, p *checkedPartition) (bodies, error) {
	b := bodies{counted: make(map[string]bool), bytes: make(map[string]int), marks: make(map[string]string)}
	if c.repair {
		return b, nil
	}
	return b, c.eachTubes(ctx, p, func(names []string) error {
		_, reply, err := c.step(ctx, p, append([]string{"marks"}, names...)...)
		if err != nil {
			return err
		}
		for i, mark := range reply.texts(0) {
			b.marks[names[i]] = mark
		}
		return nil
	})
}

// compareBytes compares the counters of bytes with what was counted, for tubes that have not
// changed meanwhile. During a repair nothing changes.
func (c *checker) compareBytes(ctx context.Context, p *checkedPartition) error {
	left := 0
	err := c.eachTubes(ctx, p, func(names []string) error {
		args := []string{"bytes"}
		for _, name := range names {
			mark, ok := p.bodies.marks[name]
			if !ok && !c.repair {
				mark = "new"
			}
			args = append(args, name, strconv.Itoa(p.bodies.bytes[name]), mark)
		}
		_, reply, err := c.step(ctx, p, args...)
		if err == nil {
			left += reply.int(0)
		}
		return err
	})
	if left > 0 && err == nil {
		c.skipped(p, fmt.Sprintf("the bytes of %d tubes were not compared: instances are changing them", left))
	}
	return err
}

// compareCheckpoints compares the counters of checkpoints with what was counted, unless instances have changed something meanwhile.
func (c *checker) compareCheckpoints(ctx context.Context, p *checkedPartition) error {
	after, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	if !c.repair && after != p.before {
		if p.bodies.checkpoints > 0 {
			c.skipped(p, "the checkpoints were not counted: instances are changing them")
		}
		return nil
	}
	_, _, err = c.step(ctx, p, "checkpoints", strconv.Itoa(p.bodies.checkpoints), strconv.Itoa(p.bodies.checkpointBytes))
	return err
}

// eachTubes calls do with all tubes of a partition, some at a time.
func (c *checker) eachTubes(ctx context.Context, p *checkedPartition, do func(names []string) error) error {
	for from := int64(0); ; from += tubesPerCheck {
		names, err := p.node.Do(ctx, "zrange", p.prefix+"tubes", from, from+tubesPerCheck-1).Texts()
		if err != nil {
			return err
		}
		if err := do(names); err != nil || len(names) < tubesPerCheck {
			return err
		}
	}
}
