package fsck

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
)

const (
	// jobsPerCheck is how many jobs one script checks.
	jobsPerCheck = 150

	// queuesPerScan is the number of queues whose next members are requested together.
	queuesPerScan = 50
)

// scanAll scans the keys of each server.
func (c *checker) scanAll(ctx context.Context) error {
	var seen []conn.Node
	for _, p := range c.parts {
		if slices.Contains(seen, p.node) {
			continue
		}
		seen = append(seen, p.node)
		if err := c.scan(ctx, p.node); err != nil {
			return err
		}
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// scan goes through the keys of a server, and checks its jobs and queues.
func (c *checker) scan(ctx context.Context, node conn.Node) error {
	f := newWorkerPool(c)
	err := c.addKeys(ctx, f, node)
	for _, p := range c.parts {
		if p.node == node {
			c.checkJobs(ctx, f, p)
			c.checkQueues(ctx, f, p)
			c.checkReports(ctx, f, p)
			c.checkChunks(ctx, f, p)
		}
	}
	return cmp.Or(f.wait(), err)
}

// addKeys adds all keys of a server, until a check has failed.
func (c *checker) addKeys(ctx context.Context, f *workerPool, node conn.Node) error {
	for cursor, more := uint64(0), true; more && f.ok(); more = cursor != 0 {
		keys, next, err := node.Do(ctx, "scan", cursor, "match", globEscaper.Replace(c.namespace)+":{*}:*", "count", 1000).Scan()
		if err != nil {
			return err
		}
		cursor = next
		for _, name := range keys {
			rest, ok := strings.CutPrefix(name, c.namespace+":{")
			digits, key, whole := strings.Cut(rest, "}:")
			number, err := strconv.Atoi(digits)
			if ok && whole && err == nil && number < len(c.parts) && c.parts[number].node == node {
				c.addKey(ctx, f, c.parts[number], key)
			}
		}
	}
	return nil
}

// addKey adds a key of a partition, and starts checks when there are enough keys.
func (c *checker) addKey(ctx context.Context, f *workerPool, p *checkedPartition, key string) {
	if schema.IsID(key) {
		if p.jobs = append(p.jobs, p.prefix+key); len(p.jobs) >= jobsPerCheck {
			c.checkJobs(ctx, f, p)
		}
		return
	}
	switch kind, name, _ := strings.Cut(key, ":"); kind { // "put", a staged record, expires by itself
	case "reserved":
		p.holders[name] = true
		p.queues = append(p.queues, key)
	case "groups":
		p.holders[name] = true
	case "ready", "lane-ready", "lone-ready", "delayed", "buried", "leases":
		p.queues = append(p.queues, key)
	case "keys":
		f.do(func() error { return c.checkKeys(ctx, p, name) })
	case "lane-jobs", "lane-reserved", "eligible", "configured", "rechecks":
		f.do(func() error { return c.checkGroups(ctx, p, "zscan", kind, name) })
	case "lanes", "lone", "group-limits", "group-pauses", "starts":
		f.do(func() error { return c.checkGroups(ctx, p, "hscan", kind, name) })
	case "schedules":
		f.do(func() error { return c.checkRecords(ctx, p, schema.Schedules, func(string) []string { return nil }) })
	case "after":
		f.do(func() error { return c.checkAfterJobs(ctx, p, name) })
	case "members":
		f.do(func() error { return c.askOfBatches(ctx, p, []string{"members"}, []string{name}) })
	case "ended":
		if p.chunks = append(p.chunks, name); len(p.chunks) >= chunksPerCheck {
			c.checkChunks(ctx, f, p)
		}
	case "checkpoint", "progress":
		if p.reports = append(p.reports, key); len(p.reports) >= jobsPerCheck {
			c.checkReports(ctx, f, p)
		}
	case "expiring":
		f.do(func() error { return c.checkExpiring(ctx, p) })
	default:
		if !c.checkEndedKey(ctx, f, p, key) {
			c.checkNames(ctx, f, p, key)
		}
	}
	if len(p.queues) >= queuesPerScan {
		c.checkQueues(ctx, f, p)
	}
}

// checkJobs checks the jobs that were added.
func (c *checker) checkJobs(ctx context.Context, f *workerPool, p *checkedPartition) {
	jobs := p.jobs
	p.jobs = nil
	f.do(func() error {
		for len(jobs) > 0 {
			n, reply, err := c.ask(ctx, p, jobsScript, jobs)
			if err != nil {
				return err
			}
			sizes, _ := reply[2].([]any)
			c.mu.Lock()
			p.bodies.add(jobs, sizes)
			found, _ := reply[3].([]any)
			p.members.add(p, found)
			jobs = jobs[n:]
			c.jobs += n
			c.mu.Unlock()
			c.reportProgress("jobs", n)
		}
		return nil
	})
}

// checkReports checks the keys that were added about what the holders of jobs have reported.
func (c *checker) checkReports(ctx context.Context, f *workerPool, p *checkedPartition) {
	keys := p.reports
	p.reports = nil
	f.do(func() error { return c.askInParts(ctx, p, reportsScript, nil, keys, "checkpoints and progress") })
}

// checkGroups checks the entries of a key about the groups of a tube. scan is the command that reads
// it: each entry comes with a value.
func (c *checker) checkGroups(ctx context.Context, p *checkedPartition, scan, kind, name string) error {
	about := []string{kind, name}
	err := c.scanEntries(ctx, p, scan, kind+":"+name, func(found []string) error {
		return c.askInParts(ctx, p, groupsScript, about, entriesOf(found), "entries about groups")
	})
	if err != nil || kind != "lane-jobs" && kind != "lane-reserved" && kind != "lone" {
		return err
	}
	_, _, err = c.ask(ctx, p, groupsScript, about) // whether the tube is known
	return err
}

// scanEntries calls do with the entries of a key, some at a time. scan is the command that reads it: each entry comes
// with a value.
func (c *checker) scanEntries(ctx context.Context, p *checkedPartition, scan, key string, do func(found []string) error) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		found, next, err := p.node.Do(ctx, scan, p.prefix+key, cursor, "count", jobsPerCheck).Scan()
		if err != nil {
			return err
		}
		if err := do(found); err != nil {
			return err
		}
		cursor = next
	}
	return nil
}

// entriesOf returns every second text.
func entriesOf(pairs []string) (entries []string) {
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, pairs[i])
	}
	return entries
}

// checkKeys checks the job keys of a tube.
func (c *checker) checkKeys(ctx context.Context, p *checkedPartition, name string) error {
	return c.scanEntries(ctx, p, "hscan", "keys:"+name, func(keys []string) error {
		for len(keys) > 0 {
			n, _, err := c.ask(ctx, p, keysScript, append([]string{name}, keys...))
			if err != nil {
				return err
			}
			keys = keys[2*n:]
			c.reportProgress("keys", n)
		}
		return nil
	})
}

// checkExpiring checks the jobs that are said to expire.
func (c *checker) checkExpiring(ctx context.Context, p *checkedPartition) error {
	return c.scanEntries(ctx, p, "zscan", "expiring", func(found []string) error {
		return c.askInParts(ctx, p, expiringScript, nil, entriesOf(found), "jobs that expire")
	})
}
