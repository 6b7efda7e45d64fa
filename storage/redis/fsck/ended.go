package fsck

import (
	"context"
	"strconv"
	"strings"

	"redstalk/storage/redis/schema"
)

// chunksPerCheck is how many chunks of records of ended jobs are read together.
const chunksPerCheck = 20

// endedCount is what the chunks of records of ended jobs in a partition count, as far as they were read.
type endedCount struct {
	seen    map[string]bool // a scan can return a key twice
	records int
	bytes   map[string]int // by tube
}

// checkChunks checks the chunks of records of ended jobs that were added.
func (c *checker) checkChunks(ctx context.Context, f *workerPool, p *checkedPartition) {
	names := p.chunks
	p.chunks = nil
	f.do(func() error {
		for _, name := range names {
			text, err := p.node.Do(ctx, "get", p.prefix+"ended:"+name).Text()
			if err != nil || text == "" {
				continue // it was dropped meanwhile
			}
			if err := c.checkChunk(ctx, p, name, text); err != nil {
				return err
			}
		}
		c.reportProgress("records of ended jobs", len(names))
		return nil
	})
}

// checkChunk checks a chunk with that name and text.
func (c *checker) checkChunk(ctx context.Context, p *checkedPartition, name, text string) error {
	chunk, until, runs, err := schema.CheckEndedChunk(name, text, len(c.parts))
	if err != nil {
		return c.askOfEnded(ctx, p, "broken", name)
	}
	c.mu.Lock()
	if n := &p.ended; !n.seen[name] {
		n.seen[name] = true
		n.records += chunk.N
		n.bytes[chunk.Tube] += chunk.Bytes
	}
	c.mu.Unlock()
	about := []string{"chunk", name, strconv.Itoa(len(text)), chunk.Tube, chunk.Batch, milliseconds(int64(until)), milliseconds(int64(chunk.At.Plus(chunk.Keep + min(chunk.Keep/10, schema.EndedOpen))))}
	for _, run := range runs {
		about = append(about, string(schema.AppendID(nil, run[0])), strconv.FormatUint(run[1], 10))
	}
	_, _, err = c.ask(ctx, p, endedScript, about)
	return err
}

func milliseconds(ns int64) string { return strconv.FormatInt(ns/1e6, 10) }

// checkEndedKey checks a key about records of ended jobs, and returns whether it is one.
func (c *checker) checkEndedKey(ctx context.Context, f *workerPool, p *checkedPartition, key string) bool {
	scan, what := "zscan", key
	switch kind, _, _ := strings.Cut(key, ":"); kind {
	case "ended-of", "ended-in", "ended-until", "ended-ids":
	case "ended-tubes":
		what = "tubes"
	case "ended-waits":
		scan, what = "hscan", "waits"
	default:
		return false
	}
	f.do(func() error {
		return c.scanEntries(ctx, p, scan, key, func(found []string) error {
			return c.askOfEnded(ctx, p, what, entriesOf(found)...)
		})
	})
	return true
}

// countEnded compares the counters of records of ended jobs with what was found, unless instances have changed it meanwhile.
func (c *checker) countEnded(ctx context.Context, p *checkedPartition) error {
	after, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	if !c.repair && after != p.before {
		if len(p.ended.seen) > 0 {
			c.skipped(p, "the records of ended jobs were not counted: instances are changing them")
		}
		return nil
	}
	have, err := p.node.Do(ctx, "hgetall", p.prefix+"ended-bytes").Pairs()
	if err != nil {
		return err
	}
	all, args := 0, []string(nil)
	for name, bytes := range p.ended.bytes {
		have[name] = ""
		all += bytes
	}
	p.ended.bytes[""] = all
	have[""] = ""
	for name := range have {
		args = append(args, name, strconv.Itoa(p.ended.bytes[name]))
	}
	for records := []string{strconv.Itoa(p.ended.records)}; len(args) > 0; {
		n, _, err := c.ask(ctx, p, endedScript, append(append([]string{"sums"}, records...), args[:min(len(args), 200)]...))
		if err != nil {
			return err
		}
		args = args[n-1:]
	}
	return nil
}

// askOfEnded runs the script that checks what belongs to records of ended jobs.
func (c *checker) askOfEnded(ctx context.Context, p *checkedPartition, what string, args ...string) error {
	return c.askInParts(ctx, p, endedScript, []string{what}, args, "entries of ended jobs")
}
