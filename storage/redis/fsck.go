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

	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
)

var (
	jobsScript    = lua.Load("check/jobs.lua")
	membersScript = lua.Load("check/members.lua")
	countsScript  = lua.Load("check/counts.lua")
	keysScript    = lua.Load("check/keys.lua")
)

const (
	// maxCheckWork is how much one script does, in calls of Redis: a few milliseconds.
	maxCheckWork = 2500

	// jobsPerCheck and membersPerCheck are how many jobs, and jobs that are members of queues,
	// one script checks.
	jobsPerCheck    = 150
	membersPerCheck = 300

	// queuesPerScan is the number of queues whose next members are requested together.
	queuesPerScan = 50

	// concurrentChecks is the number of scripts under way at once, so that Redis need not wait
	// for the next one.
	concurrentChecks = 2
)

// ErrInstances: a namespace cannot be repaired while instances serve it.
var ErrInstances = errors.New("instances of redstalk are running")

var errAlive = fmt.Errorf("%w: stop them before anything is repaired, or wait %v", ErrInstances, watchHeartbeatsFor)

// Report receives the findings of a check, in one goroutine at a time.
type Report struct {
	// Found is called with each fault.
	Found func(partition int, what string)

	// Skipped, if not nil, is called with what could not be compared because instances kept
	// changing it.
	Skipped func(partition int, what string)

	// Looking, if not nil, is called with what is being checked, and how many so far.
	Progress func(what string, n int)
}

// Check compares the records of jobs with the queues, both ways, and the counters with what is
// there. It reports the faults, and returns how many jobs it has checked. Instances can be
// running: one script sees all or nothing of one of their calls, and what takes several scripts
// is compared only if nothing has changed meanwhile. With repair no instance may be running,
// and faults are corrected. No script keeps Redis busy for long.
func Check(ctx context.Context, o Options, repair bool, report Report) (jobs int, err error) {
	return check(ctx, o, repair, report, maxCheckWork)
}

// check is Check with scripts that do this much work each.
func check(ctx context.Context, o Options, repair bool, report Report, work int) (jobs int, err error) {
	o = o.withDefaults()
	if err := schema.CheckNamespace(o.Namespace); err != nil {
		return 0, err
	}
	a, err := parseAddress(o)
	if err != nil {
		return 0, err
	}
	a.options.ReadTimeout, a.options.WriteTimeout = o.Timeout, o.Timeout // nothing is retried
	o.kind, o.Partitions = a.kind, max(o.Partitions, 1)
	l := newLink(a, o)
	defer l.Close()
	c := &checker{link: l, options: &o, repair: repair, report: report, work: work}
	if err := c.run(ctx); err != nil {
		return c.jobs, fmt.Errorf("checking Redis at %s: %w", a.where(), a.redactError(err))
	}
	return c.jobs, nil
}

// checker is one check under way.
type checker struct {
	link    *link
	options *Options
	repair  bool
	work    int // see maxCheckWork
	parts   []checkedPartition

	mu     sync.Mutex // of what follows
	report Report
	jobs   int
	seen   map[string]int // what was passed to report.Looking
	err    error          // the first error
}

// checkedPartition is what a check has seen of a partition.
type checkedPartition struct {
	number  int
	node    *goredis.Client
	prefix  string
	jobs    []string        // ids to be checked
	queues  []string        // keys after the prefix, to be checked
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

// reportProgress counts what is being checked.
func (c *checker) reportProgress(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[what] += n
	if c.report.Progress != nil {
		c.report.Progress(what, c.seen[what])
	}
}

// found reports faults.
func (c *checker) found(p *checkedPartition, wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range wrong {
		c.report.Found(p.number, what)
	}
}

// skipped reports what was not compared.
func (c *checker) skipped(p *checkedPartition, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report.Skipped != nil {
		c.report.Skipped(p.number, what)
	}
}

// readLayout finds the partitions and their servers.
func (c *checker) readLayout(ctx context.Context) error {
	first := schema.KeyPrefix(c.options.Namespace, 0)
	node, err := c.link.node(ctx, first)
	if err != nil {
		return err
	}
	have, err := node.HGetAll(ctx, first+"layout").Result()
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(have["partitions"])
	if version := have["version"]; version != strconv.Itoa(schema.LayoutVersion) || n < 1 {
		return fmt.Errorf("the namespace %q is not one of layout version %d: it has version %q", c.options.Namespace, schema.LayoutVersion, version)
	}
	for number := range n {
		p := checkedPartition{number: number, prefix: schema.KeyPrefix(c.options.Namespace, number), holders: make(map[string]bool)}
		if p.node, err = c.link.node(ctx, p.prefix); err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// scan goes through the keys of a server, and checks its jobs and queues.
func (c *checker) scan(ctx context.Context, node *goredis.Client) error {
	f := &workerPool{checker: c, free: make(chan struct{}, concurrentChecks)}
	keys := node.Scan(ctx, 0, globEscaper.Replace(c.options.Namespace)+":{*}:*", 1000).Iterator()
	for keys.Next(ctx) && f.ok() {
		rest, ok := strings.CutPrefix(keys.Val(), c.options.Namespace+":{")
		digits, key, whole := strings.Cut(rest, "}:")
		number, err := strconv.Atoi(digits)
		if ok && whole && err == nil && number < len(c.parts) && c.parts[number].node == node {
			c.addKey(ctx, f, &c.parts[number], key)
		}
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.node == node {
			c.checkJobs(ctx, f, p)
			c.checkQueues(ctx, f, p)
		}
	}
	return cmp.Or(f.wait(), keys.Err())
}

// workerPool runs a few functions at the same time.
type workerPool struct {
	checker *checker
	free    chan struct{} // has an element for each function that runs
	all     sync.WaitGroup
}

// do runs a function as soon as there is a free place.
func (f *workerPool) do(what func() error) {
	f.free <- struct{}{}
	f.all.Go(func() {
		err := what()
		f.checker.mu.Lock()
		f.checker.err = cmp.Or(f.checker.err, err)
		f.checker.mu.Unlock()
		<-f.free
	})
}

// ok returns whether nothing has failed so far.
func (f *workerPool) ok() bool {
	f.checker.mu.Lock()
	defer f.checker.mu.Unlock()
	return f.checker.err == nil
}

// wait waits until all are done, and returns the first error.
func (f *workerPool) wait() error {
	f.all.Wait()
	return f.checker.err
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
	case "ready", "delayed", "buried", "leases":
		p.queues = append(p.queues, key)
	case "keys":
		f.do(func() error { return c.checkKeys(ctx, p, name) })
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
			jobs = jobs[n:]
			c.jobs += n
			c.mu.Unlock()
			c.reportProgress("jobs", n)
		}
		return nil
	})
}

// ask runs a script that checks jobs, members or keys, and reports the faults. It returns how
// many of the arguments were checked, and the reply.
func (c *checker) ask(ctx context.Context, p *checkedPartition, script func() *goredis.Script, about []string) (n int, reply checkReply, err error) {
	if reply, err = c.call(ctx, p, script, about); err != nil {
		return 0, nil, err
	}
	c.found(p, reply.texts(1))
	return reply.int(0), reply, nil
}

// call runs a script.
func (c *checker) call(ctx context.Context, p *checkedPartition, script func() *goredis.Script, about []string) (checkReply, error) {
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

// checkKeys checks the job keys of a tube.
func (c *checker) checkKeys(ctx context.Context, p *checkedPartition, name string) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		keys, next, err := p.node.HScan(ctx, p.prefix+"keys:"+name, cursor, "", jobsPerCheck).Result()
		if err != nil {
			return err
		}
		for len(keys) > 0 {
			n, _, err := c.ask(ctx, p, keysScript, append([]string{name}, keys...))
			if err != nil {
				return err
			}
			keys = keys[2*n:]
			c.reportProgress("keys", n)
		}
		cursor = next
	}
	return nil
}

// member is a member of a queue.
type member struct{ queue, name string }

// checkQueues checks the members of the queues that were added.
func (c *checker) checkQueues(ctx context.Context, f *workerPool, p *checkedPartition) {
	queues := p.queues
	p.queues = nil
	f.do(func() error {
		check := &membersCheck{checker: c, partition: p}
		cursors := make([]uint64, len(queues))
		for len(queues) > 0 {
			rest, err := check.next(ctx, queues, cursors)
			if err != nil {
				return err
			}
			queues, cursors = queues[:rest], cursors[:rest]
		}
		return check.flush(ctx)
	})
}

// membersCheck collects members, so that one call checks many.
type membersCheck struct {
	checker   *checker
	partition *checkedPartition
	members   []member
	jobs      int // how many jobs they are, ranges included
}

// next checks some more members of each queue. It moves the queues that have more members to
// the beginning, with their cursors, and returns how many these are.
func (l *membersCheck) next(ctx context.Context, queues []string, cursors []uint64) (rest int, err error) {
	pipe := l.partition.node.Pipeline()
	scans := make([]*goredis.ScanCmd, len(queues))
	for i, queue := range queues {
		scans[i] = pipe.ZScan(ctx, l.partition.prefix+queue, cursors[i], "", membersPerCheck)
	}
	pipe.Exec(ctx) // its error is that of one of them
	for i, scan := range scans {
		found, cursor, err := scan.Result()
		if err != nil {
			return 0, err
		}
		for k := 0; k < len(found); k += 2 { // each is followed by its score
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
func (l *membersCheck) add(ctx context.Context, m member) error {
	l.members = append(l.members, m)
	if l.jobs += l.partition.jobsOf(m.name); l.jobs < membersPerCheck {
		return nil
	}
	return l.flush(ctx)
}

// flush checks the members.
func (l *membersCheck) flush(ctx context.Context) error {
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
		n, _, err := l.checker.ask(ctx, l.partition, membersScript, about)
		if err != nil {
			return err
		}
		l.members = l.members[n:]
		l.checker.reportProgress("members of queues", n)
	}
	l.members, l.jobs = nil, 0
	return nil
}

// jobsOf returns how many jobs a member of a queue is: more than one for a range.
func (p *checkedPartition) jobsOf(member string) int {
	if at := len(p.prefix) + schema.IDLen + 1; len(member) > at {
		many, _, _ := strings.Cut(member[at:], ";")
		if n, err := strconv.Atoi(many); err == nil {
			return n
		}
	}
	return 1
}
