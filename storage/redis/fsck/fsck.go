package fsck

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
)

const (
	// defaultTimeout is how long Redis has to answer, if Options says nothing else, and
	// maxDialTime the limit of that for a connection.
	defaultTimeout = 5 * time.Second
	maxDialTime    = time.Second

	// DefaultWork is the default of Options.MaxWork: a few milliseconds of work.
	DefaultWork = 2500
)

// Options say what is checked.
type Options struct {
	// URL is as package conn describes it.
	URL string

	// Namespace is the beginning of all keys; "" means schema.DefaultNamespace.
	Namespace string

	// Timeout is how long Redis has to answer; 0 means 5 seconds. Nothing is retried.
	Timeout time.Duration

	// MaxWork limits the calls of Redis that one script makes; 0 means DefaultWork.
	MaxWork int

	// WatchFor is for how long instances are watched before a repair if their heartbeats are
	// old, see alive.go, and policies of prefixes that differ; 0: the default. Short for tests.
	WatchFor time.Duration
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, schema.DefaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxWork = cmp.Or(o.MaxWork, DefaultWork)
	o.WatchFor = cmp.Or(o.WatchFor, watchHeartbeatsFor)
	return o
}

// Check compares the records of jobs with the queues, both ways, and the counters, policies and
// schedules with what is there. It reports the faults, and returns how many jobs it has checked. Instances can be
// running: one script sees all or nothing of one of their calls, and what takes several scripts
// is compared only if nothing has changed meanwhile. With repair no instance may be running,
// and faults are corrected. No script keeps Redis busy for long.
func Check(ctx context.Context, o Options, repair bool, report Report) (jobs int, err error) {
	o = o.withDefaults()
	if err := schema.CheckNamespace(o.Namespace); err != nil {
		return 0, err
	}
	a, err := conn.Parse(o.URL, min(maxDialTime, o.Timeout/2))
	if err != nil {
		return 0, err
	}
	a.SetTimeout(o.Timeout)
	pool := conn.NewPool(a, 0)
	defer pool.Close()
	c := &checker{pool: pool, namespace: o.Namespace, repair: repair, report: report, work: o.MaxWork, seen: make(map[string]int)}
	if err := c.run(ctx, o.WatchFor); err != nil {
		return c.jobs, fmt.Errorf("checking Redis at %s: %w", a.Where(), a.Redactor().Error(err))
	}
	return c.jobs, nil
}

func (c *checker) run(ctx context.Context, watchFor time.Duration) error {
	if err := c.readLayout(ctx); err != nil {
		return err
	}
	if c.repair {
		if err := c.refuseInstances(ctx, watchFor); err != nil {
			return err
		}
	}
	for _, p := range c.parts {
		var err error
		if p.bodies, err = c.newBodies(ctx, p); err != nil {
			return err
		}
		p.members, p.ended = make(members), endedCount{seen: make(map[string]bool), bytes: make(map[string]int)}
		if p.before, err = c.changes(ctx, p); err != nil {
			return err
		}
	}
	if err := c.scanAll(ctx); err != nil {
		return err
	}
	if err := c.checkPrefixes(ctx, watchFor); err != nil {
		return err
	}
	for _, p := range c.parts {
		if _, _, err := c.ask(ctx, p, flagsScript, nil); err != nil {
			return err
		}
		if err := c.checkBatches(ctx, p); err != nil {
			return err
		}
		if err := c.countEnded(ctx, p); err != nil {
			return err
		}
		if err := c.count(ctx, p); err != nil {
			return err
		}
		if err := c.compareBytes(ctx, p); err != nil {
			return err
		}
		if err := c.compareCheckpoints(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// readLayout finds the partitions and their servers.
func (c *checker) readLayout(ctx context.Context) error {
	first := schema.KeyPrefix(c.namespace, 0)
	node, err := c.pool.Node(ctx, first)
	if err != nil {
		return err
	}
	have, err := node.Do(ctx, "hgetall", first+"layout").Pairs()
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(have["partitions"])
	version, _ := strconv.Atoi(have["version"])
	if version < schema.OldestLayout || version > schema.LayoutVersion || n < 1 {
		return fmt.Errorf("the namespace %q is not one of layout version %d: it has version %q", c.namespace, schema.LayoutVersion, have["version"])
	}
	for number := range n {
		p := &checkedPartition{number: number, prefix: schema.KeyPrefix(c.namespace, number), holders: make(map[string]bool)}
		if p.node, err = c.pool.Node(ctx, p.prefix); err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}
