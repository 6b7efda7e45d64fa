package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

var (
	jobsCheck    = checkSource("jobs.lua")
	membersCheck = checkSource("members.lua")
	countsCheck  = checkSource("counts.lua")
)

// checkPart is how many jobs or members one script looks at.
const checkPart = 200

// checkWhole is of how many members of a queue at most one script looks at all,
// while instances may be running.
const checkWhole = 10_000

// ErrInstances: a namespace cannot be repaired while instances serve from it.
var ErrInstances = errors.New("instances of redstalk are running")

// Check compares the records of jobs with the queues, both ways, and the
// counters with what is there. It calls found with what is wrong, and returns
// how many jobs it has looked at. Instances may be running: whatever one call
// of them does is done between two looks. Unless it is to repair: then none may
// be, and what is wrong is set right.
func Check(ctx context.Context, o Options, repair bool, found func(partition int, what string)) (jobs int, err error) {
	o = o.withDefaults()
	if err := CheckNamespace(o.Namespace); err != nil {
		return 0, err
	}
	a, err := parseAddress(o)
	if err != nil {
		return 0, err
	}
	o.kind, o.Partitions = a.kind, max(o.Partitions, 1)
	l := newLink(a, o, false)
	defer l.Close()
	c := &checker{link: l, namespace: o.Namespace, repair: boolArg(repair), found: found}
	if err := c.run(ctx); err != nil {
		return c.jobs, fmt.Errorf("checking Redis at %s: %w", a.where(), a.hide(err))
	}
	return c.jobs, nil
}

// checker is one check under way.
type checker struct {
	link      *link
	namespace string
	repair    string // 1 to do that
	found     func(int, string)
	jobs      int
	parts     []checked
}

// checked is what a check has seen of a partition.
type checked struct {
	node    *goredis.Client
	prefix  string
	jobs    []string // ids, to be looked at
	queues  []string // keys behind the prefix
	holders []string // instances that have reserved jobs
}

func (c *checker) run(ctx context.Context) error {
	if err := c.readLayout(ctx); err != nil {
		return err
	}
	if c.repair == "1" {
		if err := c.alone(ctx); err != nil {
			return err
		}
	}
	var seen []*goredis.Client
	for i := range c.parts {
		node := c.parts[i].node
		if slices.Contains(seen, node) {
			continue
		}
		seen = append(seen, node)
		if err := c.scan(ctx, node); err != nil {
			return err
		}
	}
	for i := range c.parts {
		if err := c.look(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// readLayout finds out how many partitions there are, and where.
func (c *checker) readLayout(ctx context.Context) error {
	first := keyPrefix(c.namespace, 0)
	node, err := c.link.node(ctx, first)
	if err != nil {
		return err
	}
	have, err := node.HGetAll(ctx, first+"layout").Result()
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(have["partitions"])
	if version := have["version"]; version != strconv.Itoa(layoutVersion) || n < 1 {
		return fmt.Errorf("the namespace %q is not one of layout version %d: it has version %q", c.namespace, layoutVersion, version)
	}
	for number := range n {
		p := checked{prefix: keyPrefix(c.namespace, number)}
		if p.node, err = c.link.node(ctx, p.prefix); err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}

// alone returns an error if an instance has given a sign of life lately.
func (c *checker) alone(ctx context.Context) error {
	for _, p := range c.parts {
		now, err := p.node.Time(ctx).Result()
		if err != nil {
			return err
		}
		since := strconv.FormatInt(now.Add(-silence-time.Second).UnixMilli(), 10)
		n, err := p.node.ZCount(ctx, p.prefix+"instances", since, "+inf").Result()
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: stop them before anything is repaired, or wait %v", ErrInstances, silence+time.Second)
		}
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// scan goes through the keys of a node.
func (c *checker) scan(ctx context.Context, node *goredis.Client) error {
	keys := node.Scan(ctx, 0, globEscaper.Replace(c.namespace)+":{*}:*", 1000).Iterator()
	for keys.Next(ctx) {
		rest, is := strings.CutPrefix(keys.Val(), c.namespace+":{")
		digits, key, whole := strings.Cut(rest, "}:")
		number, err := strconv.Atoi(digits)
		if !is || !whole || err != nil || number >= len(c.parts) || c.parts[number].node != node {
			continue
		}
		if err := c.note(ctx, number, key); err != nil {
			return err
		}
	}
	return keys.Err()
}

// note takes down a key of a partition, and looks at jobs when there are many.
func (c *checker) note(ctx context.Context, number int, key string) error {
	p := &c.parts[number]
	if isID(key) {
		if p.jobs = append(p.jobs, p.prefix+key); len(p.jobs) >= checkPart {
			return c.lookAtJobs(ctx, number)
		}
		return nil
	}
	switch kind, name, _ := strings.Cut(key, ":"); kind {
	case "reserved":
		p.holders = append(p.holders, name)
		p.queues = append(p.queues, key)
	case "groups":
		p.holders = append(p.holders, name)
	case "ready", "delayed", "buried":
		p.queues = append(p.queues, key)
	}
	return nil
}

// look checks what is left of a partition.
func (c *checker) look(ctx context.Context, number int) error {
	p := &c.parts[number]
	if err := c.lookAtJobs(ctx, number); err != nil {
		return err
	}
	for _, queue := range p.queues {
		if err := c.lookAtQueue(ctx, number, queue); err != nil {
			return err
		}
	}
	return c.ask(ctx, number, countsCheck, strconv.Itoa(checkWhole), p.holders)
}

func (c *checker) lookAtJobs(ctx context.Context, number int) error {
	p := &c.parts[number]
	c.jobs += len(p.jobs)
	err := c.ask(ctx, number, jobsCheck, "", p.jobs)
	p.jobs = p.jobs[:0]
	return err
}

func (c *checker) lookAtQueue(ctx context.Context, number int, queue string) error {
	p := &c.parts[number]
	var members []string
	jobs := 0
	all := p.node.ZScan(ctx, p.prefix+queue, 0, "", checkPart).Iterator()
	for all.Next(ctx) {
		members = append(members, all.Val())
		jobs += p.jobsOf(all.Val())
		if !all.Next(ctx) { // its score
			break
		}
		if jobs >= checkPart {
			if err := c.ask(ctx, number, membersCheck, queue, members); err != nil {
				return err
			}
			members, jobs = members[:0], 0
		}
	}
	if err := all.Err(); err != nil {
		return err
	}
	return c.ask(ctx, number, membersCheck, queue, members)
}

// jobsOf returns how many jobs a member of a queue is, which may be a run.
func (p *checked) jobsOf(member string) int {
	if at := len(p.prefix) + idLen + 1; len(member) > at {
		many, _, _ := strings.Cut(member[at:], ";")
		if n, err := strconv.Atoi(many); err == nil {
			return n
		}
	}
	return 1
}

// ask runs a script, and tells what it has found. about is an argument of its own,
// unless it is "".
func (c *checker) ask(ctx context.Context, number int, script, about string, names []string) error {
	p, args := &c.parts[number], []any{c.repair, len(c.parts)}
	if about != "" {
		args = append(args, about)
	}
	for _, name := range names {
		args = append(args, name)
	}
	wrong, err := p.node.Eval(ctx, script, []string{p.prefix}, args...).StringSlice()
	for _, what := range wrong {
		c.found(number, what)
	}
	return err
}
