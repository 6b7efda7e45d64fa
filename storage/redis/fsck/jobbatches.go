package fsck

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redstalk/storage/redis/schema"
)

// members is how many members of batches were found in a partition, by the name of the batch. Those of a batch
// are compared with its record if nothing has changed meanwhile.
type members map[string]*memberCount

// memberCount is the members of a batch that were found.
type memberCount struct {
	pending, parked int
	ids             map[uint64]bool
}

// add adds what the check of jobs returns about members.
func (m members) add(p *checkedPartition, found []any) {
	for i := 0; i+2 < len(found); i += 3 {
		id, err := strconv.ParseUint(strings.TrimPrefix(fmt.Sprint(found[i]), p.prefix), 10, 64)
		if err != nil {
			continue
		}
		name := fmt.Sprint(found[i+1])
		n := m[name]
		if n == nil {
			n = &memberCount{ids: make(map[uint64]bool)}
			m[name] = n
		}
		if n.ids[id] {
			continue // a scan can return a job twice
		}
		n.ids[id] = true
		if fmt.Sprint(found[i+2]) == "parked" {
			n.parked++
		} else {
			n.pending++
		}
	}
}

// askOfBatches runs the script that checks batches. about is the first arguments of each of its calls.
func (c *checker) askOfBatches(ctx context.Context, p *checkedPartition, about []string, args []string) error {
	for len(args) > 0 {
		n, _, err := c.ask(ctx, p, jobBatchesScript, slices.Concat(about, args[:min(len(args), 3*jobsPerCheck)]))
		if err != nil {
			return err
		}
		args = args[n:]
		c.reportProgress("entries of batches", n)
	}
	return nil
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

// checkBatchEntries checks an entry of what is known of batches for each of their names.
func (c *checker) checkBatchEntries(ctx context.Context, p *checkedPartition, key string) error {
	return c.scanEntries(ctx, p, "zscan", key, func(found []string) error {
		return c.askOfBatches(ctx, p, []string{key}, entriesOf(found))
	})
}

// checkAfterJobs checks the after-jobs of a batch.
func (c *checker) checkAfterJobs(ctx context.Context, p *checkedPartition, name string) error {
	err := c.scanEntries(ctx, p, "zscan", "after:"+name, func(found []string) error {
		return c.askOfBatches(ctx, p, []string{"jobs", name}, entriesOf(found))
	})
	if err != nil {
		return err
	}
	return c.askOfBatches(ctx, p, []string{"after"}, []string{name})
}

// checkBatches checks the records of batches, and their indexes of members, when all jobs were checked.
func (c *checker) checkBatches(ctx context.Context, p *checkedPartition) error {
	after, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	unchanged := c.repair || after == p.before
	if !unchanged && len(p.members) > 0 {
		c.skipped(p, "the members of batches were not counted: instances are changing them")
	}
	err = c.scanEntries(ctx, p, "hscan", "job-batches", func(found []string) error {
		return c.checkBatchRecords(ctx, p, found, unchanged)
	})
	if err != nil {
		return err
	}
	for name, n := range p.members {
		if err := c.checkIndex(ctx, p, name, n); err != nil {
			return err
		}
	}
	return nil
}

// checkBatchRecords checks records, each of which follows its name. counted says whether the members were counted.
func (c *checker) checkBatchRecords(ctx context.Context, p *checkedPartition, found []string, counted bool) error {
	var broken, good []string
	for i := 0; i+1 < len(found); i += 2 {
		name := found[i]
		if _, err := schema.ParseJobBatch(name, found[i+1]); err != nil {
			broken = append(broken, name)
			continue
		}
		pending, parked := "", ""
		if counted {
			n := p.members[name]
			if n == nil {
				n = new(memberCount)
			}
			pending, parked = strconv.Itoa(n.pending), strconv.Itoa(n.parked)
		}
		good = append(good, name, pending, parked)
	}
	if err := c.askOfBatches(ctx, p, []string{"broken"}, broken); err != nil {
		return err
	}
	return c.askOfBatches(ctx, p, []string{"records"}, good)
}

// indexPart is how many entries of an index are read together.
const indexPart = 1000

// checkIndex checks that the index of a batch has the members that were found.
func (c *checker) checkIndex(ctx context.Context, p *checkedPartition, name string, n *memberCount) error {
	left := n.ids
	for from := 0; len(left) > 0; from += indexPart {
		entries, err := p.node.Do(ctx, "lrange", p.prefix+"members:"+name, from, from+indexPart-1).Texts()
		if err != nil {
			return err
		}
		for _, entry := range entries {
			p.dropIndexed(left, entry, len(c.parts))
		}
		if len(entries) < indexPart {
			break
		}
	}
	var lost []string
	for id := range left {
		lost = append(lost, strconv.FormatUint(id, 10))
	}
	slices.Sort(lost)
	return c.askOfBatches(ctx, p, []string{"lost", name}, lost)
}

// dropIndexed removes the ids that an entry of an index has, of as many partitions.
func (p *checkedPartition) dropIndexed(left map[uint64]bool, entry string, of int) {
	first, many, isRange := strings.Cut(entry, ";")
	id, err := strconv.ParseUint(first, 10, 64)
	n := uint64(1)
	if err == nil && isRange {
		n, err = strconv.ParseUint(many, 10, 32)
	}
	if err != nil {
		return
	}
	for range n {
		delete(left, id)
		id += uint64(of)
	}
}
