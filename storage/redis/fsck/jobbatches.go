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

// askOfBatches runs the script that checks what belongs to batches. about is the first arguments of each of its calls.
func (c *checker) askOfBatches(ctx context.Context, p *checkedPartition, about []string, args []string) error {
	return c.askInParts(ctx, p, jobBatchesScript, about, args, "entries of batches")
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
	err = c.checkRecords(ctx, p, schema.JobBatches, func(name string) []string {
		if !unchanged {
			return []string{"", ""}
		}
		n := p.members[name]
		if n == nil {
			n = new(memberCount)
		}
		return []string{strconv.Itoa(n.pending), strconv.Itoa(n.parked)}
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
