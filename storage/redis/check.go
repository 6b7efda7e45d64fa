package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

var (
	jobsCheck    = scriptFrom("check/jobs.lua")
	membersCheck = scriptFrom("check/members.lua")
	countsCheck  = scriptFrom("check/counts.lua")
	keysCheck    = scriptFrom("check/keys.lua")
)

const (
	// checkWork is how much one script does, in calls of Redis, about: a few
	// milliseconds.
	checkWork = 2500

	// checkJobs and checkMembers are how many jobs, and jobs that are members of
	// queues, a script is given to look at.
	checkJobs    = 150
	checkMembers = 300

	// checkQueues is of how many queues the first members are asked for at once.
	checkQueues = 50

	// checkCalls is how many scripts are under way at once: Redis need not wait
	// for the next one.
	checkCalls = 2
)

// ErrInstances: a namespace cannot be repaired while instances serve from it.
var ErrInstances = errors.New("instances of redstalk are running")

var errAlive = fmt.Errorf("%w: stop them before anything is repaired, or wait %v", ErrInstances, watchFor)

// Report is told what a check comes upon, by one goroutine at a time.
type Report struct {
	// Found is told what is wrong.
	Found func(partition int, what string)

	// Skipped, if not nil, is told what could not be compared, because instances
	// were changing it all the time.
	Skipped func(partition int, what string)

	// Looking, if not nil, is told what is being looked at, and how many so far.
	Looking func(what string, n int)
}

// Check compares the records of jobs with the queues, both ways, and the
// counters with what is there. It reports what is wrong, and returns how many
// jobs it has looked at. Instances may be running: whatever one call of them does is
// done between two looks, and what takes several looks is compared if nothing has
// changed meanwhile. Unless it is to repair: then none may be running, and what is
// wrong is set right. No look keeps Redis busy for long.
func Check(ctx context.Context, o Options, repair bool, report Report) (jobs int, err error) {
	return check(ctx, o, repair, report, checkWork)
}

// check is Check by scripts that do so much each.
func check(ctx context.Context, o Options, repair bool, report Report, work int) (jobs int, err error) {
	o = o.withDefaults()
	if err := CheckNamespace(o.Namespace); err != nil {
		return 0, err
	}
	a, err := parseAddress(o)
	if err != nil {
		return 0, err
	}
	a.options.ReadTimeout, a.options.WriteTimeout = o.Timeout, o.Timeout // nothing is tried again
	o.kind, o.Partitions = a.kind, max(o.Partitions, 1)
	l := newLink(a, o)
	defer l.Close()
	c := &checker{link: l, options: &o, repair: repair, report: report, work: work}
	if err := c.run(ctx); err != nil {
		return c.jobs, fmt.Errorf("checking Redis at %s: %w", a.where(), a.hide(err))
	}
	return c.jobs, nil
}

// checker is one check under way.
type checker struct {
	link    *link
	options *Options
	repair  bool
	work    int // see checkWork
	parts   []checked

	mu     sync.Mutex // of what follows
	report Report
	jobs   int
	seen   map[string]int // what report.Looking has been told
	failed error          // the first error of what is under way
}

// checked is what a check has seen of a partition.
type checked struct {
	number  int
	node    *goredis.Client
	prefix  string
	jobs    []string        // ids, to be looked at
	queues  []string        // keys behind the prefix, to be looked at
	holders map[string]bool // instances that have reserved jobs
	bodies  bodies          // guarded by checker.mu
}

func (c *checker) run(ctx context.Context) error {
	c.seen = make(map[string]int)
	if err := c.readLayout(ctx); err != nil {
		return err
	}
	if c.repair {
		alive, err := anyAlive(ctx, c.link, c.options, len(c.parts))
		if err != nil {
			return err
		}
		if alive {
			return errAlive
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		var err error
		if p.bodies, err = c.newBodies(ctx, p); err != nil {
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
		if err := c.count(ctx, &c.parts[i]); err != nil {
			return err
		}
		if err := c.compareBytes(ctx, &c.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// looked counts what is being looked at.
func (c *checker) looked(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[what] += n
	if c.report.Looking != nil {
		c.report.Looking(what, c.seen[what])
	}
}

// found reports what is wrong.
func (c *checker) found(p *checked, wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range wrong {
		c.report.Found(p.number, what)
	}
}

// skipped reports what was not compared.
func (c *checker) skipped(p *checked, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report.Skipped != nil {
		c.report.Skipped(p.number, what)
	}
}

// readLayout finds out how many partitions there are, and where.
func (c *checker) readLayout(ctx context.Context) error {
	first := keyPrefix(c.options.Namespace, 0)
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
		return fmt.Errorf("the namespace %q is not one of layout version %d: it has version %q", c.options.Namespace, layoutVersion, version)
	}
	for number := range n {
		p := checked{number: number, prefix: keyPrefix(c.options.Namespace, number), holders: make(map[string]bool)}
		if p.node, err = c.link.node(ctx, p.prefix); err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// scan goes through the keys of a node, and has jobs and queues looked at.
func (c *checker) scan(ctx context.Context, node *goredis.Client) error {
	f := &flow{checker: c, free: make(chan struct{}, checkCalls)}
	keys := node.Scan(ctx, 0, globEscaper.Replace(c.options.Namespace)+":{*}:*", 1000).Iterator()
	for keys.Next(ctx) && f.ok() {
		rest, ok := strings.CutPrefix(keys.Val(), c.options.Namespace+":{")
		digits, key, whole := strings.Cut(rest, "}:")
		number, err := strconv.Atoi(digits)
		if ok && whole && err == nil && number < len(c.parts) && c.parts[number].node == node {
			c.note(ctx, f, &c.parts[number], key)
		}
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.node == node {
			c.lookAtJobs(ctx, f, p)
			c.lookAtQueues(ctx, f, p)
		}
	}
	return cmp.Or(f.wait(), keys.Err())
}

// flow does a few things at the same time.
type flow struct {
	checker *checker
	free    chan struct{} // has an element for each thing that is being done
	all     sync.WaitGroup
}

// do does something as soon as it is its turn.
func (f *flow) do(what func() error) {
	f.free <- struct{}{}
	f.all.Go(func() {
		err := what()
		f.checker.mu.Lock()
		f.checker.failed = cmp.Or(f.checker.failed, err)
		f.checker.mu.Unlock()
		<-f.free
	})
}

// ok returns whether nothing has failed so far.
func (f *flow) ok() bool {
	f.checker.mu.Lock()
	defer f.checker.mu.Unlock()
	return f.checker.failed == nil
}

// wait waits until all is done, and returns the first error.
func (f *flow) wait() error {
	f.all.Wait()
	return f.checker.failed
}

// note takes down a key of a partition, and has those noted looked at when they are
// many.
func (c *checker) note(ctx context.Context, f *flow, p *checked, key string) {
	if isID(key) {
		if p.jobs = append(p.jobs, p.prefix+key); len(p.jobs) >= checkJobs {
			c.lookAtJobs(ctx, f, p)
		}
		return
	}
	switch kind, name, _ := strings.Cut(key, ":"); kind { // "put", a staged record, goes by itself
	case "reserved":
		p.holders[name] = true
		p.queues = append(p.queues, key)
	case "groups":
		p.holders[name] = true
	case "ready", "delayed", "buried", "leases":
		p.queues = append(p.queues, key)
	case "keys":
		f.do(func() error { return c.lookAtKeys(ctx, p, name) })
	}
	if len(p.queues) >= checkQueues {
		c.lookAtQueues(ctx, f, p)
	}
}

// lookAtJobs has those jobs looked at that were noted.
func (c *checker) lookAtJobs(ctx context.Context, f *flow, p *checked) {
	jobs := p.jobs
	p.jobs = nil
	f.do(func() error {
		for len(jobs) > 0 {
			n, reply, err := c.ask(ctx, p, jobsCheck, jobs)
			if err != nil {
				return err
			}
			sizes, _ := reply[2].([]any)
			c.mu.Lock()
			p.bodies.add(jobs, sizes)
			jobs = jobs[n:]
			c.jobs += n
			c.mu.Unlock()
			c.looked("jobs", n)
		}
		return nil
	})
}

// ask runs a script that looks at jobs, members or keys, reports what it has found, and
// returns how many of the arguments it has dealt with, and its reply.
func (c *checker) ask(ctx context.Context, p *checked, script func() *goredis.Script, about []string) (n int, reply checkReply, err error) {
	if reply, err = c.call(ctx, p, script, about); err != nil {
		return 0, nil, err
	}
	c.found(p, reply.texts(1))
	return reply.int(0), reply, nil
}

// call runs a script.
func (c *checker) call(ctx context.Context, p *checked, script func() *goredis.Script, about []string) (checkReply, error) {
	args := []any{boolArg(c.repair), len(c.parts), c.work}
	for _, arg := range about {
		args = append(args, arg)
	}
	reply, err := script().Run(ctx, p.node, []string{p.prefix}, args...).Slice()
	if err != nil && codeOf(err) == "INSTANCES" {
		return nil, errAlive
	}
	return reply, err
}

// checkReply is what a script answers.
type checkReply []any

func (r checkReply) int(at int) int {
	n, _ := r[at].(int64)
	return int(n)
}

func (r checkReply) texts(at int) []string {
	all, _ := r[at].([]any)
	texts := make([]string, len(all))
	for i, text := range all {
		texts[i] = fmt.Sprint(text)
	}
	return texts
}

// lookAtKeys has the keys of the jobs of a tube looked at.
func (c *checker) lookAtKeys(ctx context.Context, p *checked, name string) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		keys, next, err := p.node.HScan(ctx, p.prefix+"keys:"+name, cursor, "", checkJobs).Result()
		if err != nil {
			return err
		}
		for len(keys) > 0 {
			n, _, err := c.ask(ctx, p, keysCheck, append([]string{name}, keys...))
			if err != nil {
				return err
			}
			keys = keys[2*n:]
			c.looked("keys", n)
		}
		cursor = next
	}
	return nil
}

// member is one of a queue.
type member struct{ queue, name string }

// lookAtQueues has the members of those queues looked at that were noted.
func (c *checker) lookAtQueues(ctx context.Context, f *flow, p *checked) {
	queues := p.queues
	p.queues = nil
	f.do(func() error {
		look := &membersLook{checker: c, partition: p}
		cursors := make([]uint64, len(queues))
		for len(queues) > 0 {
			rest, err := look.next(ctx, queues, cursors)
			if err != nil {
				return err
			}
			queues, cursors = queues[:rest], cursors[:rest]
		}
		return look.flush(ctx)
	})
}

// membersLook collects members, to have many looked at in one call.
type membersLook struct {
	checker   *checker
	partition *checked
	members   []member
	jobs      int // of these, in ranges as well
}

// next looks at some more members of each of the queues, and leaves those at the
// beginning that have still more, with their cursors. It returns how many these are.
func (l *membersLook) next(ctx context.Context, queues []string, cursors []uint64) (rest int, err error) {
	pipe := l.partition.node.Pipeline()
	scans := make([]*goredis.ScanCmd, len(queues))
	for i, queue := range queues {
		scans[i] = pipe.ZScan(ctx, l.partition.prefix+queue, cursors[i], "", checkMembers)
	}
	pipe.Exec(ctx) // its error is that of one of them
	for i, scan := range scans {
		found, cursor, err := scan.Result()
		if err != nil {
			return 0, err
		}
		for k := 0; k < len(found); k += 2 { // behind each its score
			if err := l.add(ctx, member{queues[i], found[k]}); err != nil {
				return 0, err
			}
		}
		if cursor != 0 {
			queues[rest], cursors[rest] = queues[i], cursor
			rest++
		}
	}
	return rest, nil
}

// add adds a member.
func (l *membersLook) add(ctx context.Context, m member) error {
	l.members = append(l.members, m)
	if l.jobs += l.partition.jobsOf(m.name); l.jobs < checkMembers {
		return nil
	}
	return l.flush(ctx)
}

// flush has the members looked at.
func (l *membersLook) flush(ctx context.Context) error {
	for len(l.members) > 0 {
		about, last := make([]string, 0, 2*len(l.members)), ""
		for _, m := range l.members {
			if m.queue == last {
				m.queue = ""
			} else {
				last = m.queue
			}
			about = append(about, m.queue, m.name)
		}
		n, _, err := l.checker.ask(ctx, l.partition, membersCheck, about)
		if err != nil {
			return err
		}
		l.members = l.members[n:]
		l.checker.looked("members of queues", n)
	}
	l.members, l.jobs = nil, 0
	return nil
}

// jobsOf returns how many jobs a member of a queue is, which may be a range.
func (p *checked) jobsOf(member string) int {
	if at := len(p.prefix) + idLen + 1; len(member) > at {
		many, _, _ := strings.Cut(member[at:], ";")
		if n, err := strconv.Atoi(many); err == nil {
			return n
		}
	}
	return 1
}
