package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/ledger"
	"redstalk/tools/redistest"
)

var (
	chaosRounds = flag.Int("chaos-rounds", 1, "how many rounds of faults TestChaos has, on each way of running Redis")
	chaosFaults = flag.String("chaos-faults", "", "a pattern: only faults with such a name happen in TestChaos")
	chaosSeed   = flag.Uint64("chaos-seed", 1, "what makes the choices of TestChaos; 0: the clock")
	chaosLogs   = flag.Bool("chaos-logs", false, "TestChaos shows what instances had to say, also if nothing went wrong")
)

const (
	// chaosPatience is the timeout of every wait of TestChaos. It is long, since the
	// machine can be busy.
	chaosPatience = 5 * time.Minute

	// chaosJobSize is the -z of the instances; a few jobs are as large.
	chaosJobSize = 1 << 20

	// instances is the number of instances in TestChaos.
	instances = 3
)

// TestChaos runs producers and consumers on three instances. In each round, one or
// two faults, drawn by a seed, happen to instances, Redis and the connections
// between them. During the run and at the end the ledger compares what it recorded with
// what the server has: no acknowledged job is lost, no deleted job
// comes back, no id is given to two puts, no job is deleted twice, and none is delivered
// while another client has it, except if that client's instance was killed,
// frozen or cut off, or the TTR ended. After each round and at the end fsck must
// find nothing.
//
// Leasers put jobs with keys, and repeat that until they know the result. They lease them through
// one instance and finish them through another, let them go to a dead-letter tube, and
// move them. Each stays one job, in one place; a lease ends only with the TTR; and a lease that
// is over is refused by every instance. Their jobs are in groups, of which never more are leased than
// the limit says, and none while the group is paused.
//
// Some clients put, reserve and finish up to 512 jobs with one packet. Bodies are
// up to -z long. At any time, a tenth of the clients that hold jobs are frozen, with
// -ha-long for 3 to 10 s, and then try to finish their jobs.
//
// The seed determines which faults happen, to whom and for how long, but not their
// timing relative to the load: the same seed need not find the same fault of the
// server again.
func TestChaos(t *testing.T) {
	atLength(t)
	if !*haLong {
		t.Parallel()
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos-seed %d", seed)
	var runs []*chaos
	for i, one := range []struct {
		name  string
		title string // at more length
		start func(*testing.T) *setup
		long  bool
	}{
		{"one Redis", "one Redis", chaosRedis, false},
		{"Sentinel, 2 of 2", "Sentinel, 2 replicas, `--wait-replicas 2`", chaosSentinel, true},
		{"Sentinel, 1 of 2", "Sentinel, 2 replicas, `--wait-replicas 1`, the primary is replaced only when it is dead, or cut off from all replicas",
			chaosSentinelOne, true},
		{"Cluster", "Cluster, 3 primaries with a replica each, `--wait-replicas 1`, `--store-timeout 8s`", chaosCluster, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			if one.long && !*haLong {
				t.Skip("-ha-long runs it")
			}
			c := newChaos(t, one.start(t), seed+uint64(i))
			c.name, c.title = one.name, one.title
			runs = append(runs, c)
			c.runRounds(*chaosRounds)
		})
	}
	t.Logf("for docs/high-availability.md:\n\n%s\n%s\n%s", ledgerTable(runs), ledgerNotes(runs), unansweredTable(runs))
}

// chaos is a run of TestChaos: its servers and its results.
type chaos struct {
	*setup
	name      string
	title     string
	t         *testing.T
	rng       *rand.Rand
	instances []*chaosInstance
	record    *ledger.Ledger
	done      *history
	bag       []*fault // faults still to be drawn before any is repeated
	drawn     []*fault // of the present round
	results   []result
	unsound   int // times that fsck found something
}

// chaosInstance is an instance. It keeps its address when it is killed and
// restarted.
type chaosInstance struct {
	args  []string
	addr  string           // where clients find it
	own   string           // where it listens
	front *redistest.Proxy // between the two; nil if they are the same
	*process
	before []*process // which it was earlier
}

func newChaos(t *testing.T, s *setup, seed uint64) *chaos {
	t.Helper()
	c := &chaos{setup: s, t: t, rng: rand.New(rand.NewPCG(seed, 0)), done: watchHistory(t)}
	wanted := regexp.MustCompile(*chaosFaults)
	c.faults = slices.DeleteFunc(slices.Concat(instanceFaults, c.faults), func(f *fault) bool { return !wanted.MatchString(f.name) })
	t.Logf("%d kinds of faults: %s", len(c.faults), strings.Join(namesOf(c.faults), " | "))
	for i := range instances {
		in := c.newInstance(i)
		c.instances = append(c.instances, in)
		c.launch(in)
	}
	c.record = ledger.New(ledger.Config{
		Addrs: c.addrs(), Seed: seed, Tubes: 8, Producers: 6, Consumers: 9, Kickers: 1, MaxBody: 600, LargestBody: chaosJobSize,
		Bursters: 3, BurstPace: 500 * time.Millisecond, Leasers: 6, LeasePace: 5 * time.Millisecond, GroupLimit: 2, MinFreeze: longestFault() / 2, MaxFreeze: 10 * longestFault() / 6,
		Pace: 25 * time.Millisecond, Hold: 30 * time.Millisecond, Patience: chaosPatience, Excuse: c.done.excuse,
	})
	return c
}

// newInstance prepares an instance; the clients of the last one reach it through
// a proxy.
func (c *chaos) newInstance(number int) *chaosInstance {
	port := child.FreePort()
	in := &chaosInstance{own: "127.0.0.1:" + port}
	in.args = append([]string{"-V", "-l", "127.0.0.1", "-p", port, "-z", fmt.Sprint(chaosJobSize),
		"--store", c.url, "--store-timeout", c.limit.String()}, c.flags...)
	if in.addr = in.own; number == instances-1 {
		in.front = redistest.NewProxyTo(c.t, in.own)
		in.addr = in.front.Addr
	}
	return in
}

// pid is the id of the process, which changes with launch.
func (in *chaosInstance) pid() int { return in.Pid() }

// launch starts an instance, and retries while Redis is not usable.
func (c *chaos) launch(in *chaosInstance) {
	c.t.Helper()
	for limit := time.Now().Add(chaosPatience); time.Now().Before(limit); {
		if in.process != nil {
			in.before = append(in.before, in.process)
		}
		if in.process = start(c.t, command(in.args...)); in.serves() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("an instance does not start:\n%s", in.stderr)
}

// serves waits until the process serves; false if it ends instead.
func (p *process) serves() bool {
	for !strings.Contains(p.stderr.String(), "msg=serving") {
		select {
		case <-p.Ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// runRounds runs rounds of faults under load, and then audits.
func (c *chaos) runRounds(rounds int) {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() { c.record.Run(ctx) })
	batches, batchSeed := c.newBatches(c.addrs()), c.rng.Uint64()
	load.Go(func() { batches.run(ctx, batchSeed) })
	defer load.Wait()
	defer stop()
	defer c.printLogs()
	c.setSchedules()
	c.awaitPuts(100)
	for number := range rounds {
		c.round(number)
	}
	stop()
	load.Wait()
	c.fsck("when the load has ended")
	c.checkSchedules()
	batches.check()
	c.audit(rounds)
	c.t.Log(c.record.Report())
}

// addrs returns where clients find the instances.
func (c *chaos) addrs() (addrs []string) {
	for _, in := range c.instances {
		addrs = append(addrs, in.addr)
	}
	return addrs
}

// round causes faults, and waits until everything has recovered.
func (c *chaos) round(number int) {
	c.t.Helper()
	c.drawn = c.draw()
	c.record.TakeUnanswered()
	errors, stalls, begun := c.record.Report().InternalErrors, c.done.stalls.Load(), time.Now()
	var ends []func()
	for _, f := range c.drawn {
		ends = append(ends, f.begin(c))
	}
	back := c.probe(begun)
	together(ends)
	r := result{drawn: c.drawn, back: <-back}
	c.whole()
	ctx, cancel := context.WithTimeout(context.Background(), chaosPatience)
	defer cancel()
	if err := c.record.AwaitReplies(ctx, time.Now()); err != nil {
		c.t.Fatalf("a client gets no answer: %v", err)
	}
	c.awaitPuts(50)
	for where, unanswered := range c.record.TakeUnanswered() {
		r.unanswered = max(r.unanswered, unanswered)
		if !c.done.disturbed(where, begun) {
			r.elsewhere = max(r.elsewhere, unanswered)
		}
	}
	r.errors = c.record.Report().InternalErrors - errors
	r.stalled = c.done.stalls.Load() > stalls
	c.t.Logf("round %d, %s: %v", number+1, begun.UTC().Format("15:04:05.000"), r)
	if r.hasty = r.errors > 0 && r.unanswered < c.limit && !c.done.disturbed("", begun); r.hasty {
		c.t.Errorf("round %d: commands were not held up for %v before INTERNAL_ERROR", number+1, c.limit)
	}
	c.results = append(c.results, r)
	c.fsck(fmt.Sprint("after round ", number+1))
}

// hasFault reports whether a fault of this class is among those of the round.
func (c *chaos) hasFault(of class) bool {
	return slices.ContainsFunc(c.drawn, func(f *fault) bool { return f.class == of })
}

// together calls all at the same time, and returns when all have returned.
func together(all []func()) {
	var group sync.WaitGroup
	for _, do := range all {
		group.Go(do)
	}
	group.Wait()
}

// tooBusy is the busy.Factor from which on no limits of time can be kept.
const tooBusy = 2.5

// draw returns the fault of a round, or two. All are equally frequent, as far as the
// machine allows them.
func (c *chaos) draw() []*fault {
	fit := func(*fault) bool { return true }
	if busy.Factor() > tooBusy {
		fit = func(f *fault) bool { return f.traits&prompt == 0 }
	}
	first := c.next(fit)
	if first == nil {
		c.bag = nil
		first = c.next(fit)
	}
	if first == nil {
		c.t.Skip("void, as the machine is too busy for any of these faults")
	}
	if c.rng.IntN(3) > 0 {
		return []*fault{first}
	}
	second := c.next(func(f *fault) bool { return f.class != first.class && fit(f) })
	if second == nil {
		return []*fault{first}
	}
	if second.class < first.class {
		first, second = second, first
	}
	return []*fault{first, second}
}

// next takes a wanted fault out of the bag, or returns nil if there is none in
// it. An empty bag is filled first.
func (c *chaos) next(wanted func(*fault) bool) *fault {
	if len(c.bag) == 0 {
		for _, at := range c.rng.Perm(len(c.faults)) {
			c.bag = append(c.bag, c.faults[at])
		}
	}
	for i, f := range c.bag {
		if wanted(f) {
			c.bag = append(c.bag[:i:i], c.bag[i+1:]...)
			return f
		}
	}
	return nil
}

// probe uses each instance until all serve, and then delivers how long after begun
// that was.
func (c *chaos) probe(begun time.Time) <-chan time.Duration {
	var all sync.WaitGroup
	for _, in := range c.instances {
		all.Go(func() {
			for limit := time.Now().Add(chaosPatience); !c.works(in.addr); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) {
					c.t.Errorf("%s does not work again", in.addr)
					return
				}
			}
		})
	}
	back := make(chan time.Duration, 1)
	go func() {
		all.Wait()
		back <- time.Since(begun)
	}()
	return back
}

// awaitPuts waits until so many more puts are acknowledged.
func (c *chaos) awaitPuts(n int) {
	c.t.Helper()
	awaitPuts(c.t, c.record, n, chaosPatience)
}

// fsck runs fsck of the program. It retries if that could not run, such as when the
// machine stood still and nodes of a cluster lost each other.
func (c *chaos) fsck(when string) {
	c.t.Helper()
	for try := 1; ; try++ {
		p := start(c.t, command("fsck", "--store", c.url))
		<-p.Ended
		code := p.Cmd.ProcessState.ExitCode()
		if code == 0 {
			return
		}
		if code == exitWrong || try == 10 {
			c.unsound++
			c.t.Errorf("fsck %s: code %d\n%s%s", when, code, p.stdout, p.stderr)
			return
		}
		c.whole()
	}
}

// audit takes out all jobs and checks the ledger.
func (c *chaos) audit(rounds int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), chaosPatience)
	defer cancel()
	if err := c.record.Drain(ctx); err != nil && c.moreSwitches() {
		c.title += " (void)"
		c.t.Skipf("void, as the sentinels have replaced a primary that nothing was done to: %v", err)
	} else if err != nil {
		c.t.Error(err)
	}
	c.fsck("at the end")
	if r := c.record.Report(); r.PutsAcked < 50*rounds || r.DeletesAcked < 25*rounds || r.Leases < 5*rounds || r.Renamed == 0 || r.PastRefused == 0 || r.Full == 0 {
		c.t.Errorf("that was no load: %v", r)
	}
}

// moreSwitches reports whether primaries were replaced more often than by faults.
func (c *chaos) moreSwitches() bool {
	if c.switches == nil {
		return false
	}
	wanted := 0
	for _, r := range c.results {
		for _, f := range r.drawn {
			if f.traits&takesOver != 0 {
				wanted++
			}
		}
	}
	return c.switches() > wanted
}

// printLogs prints the logs of the instances, if the test has failed.
func (c *chaos) printLogs() {
	if !c.t.Failed() && !c.t.Skipped() && !*chaosLogs {
		return
	}
	for i, in := range c.instances {
		for _, p := range append(in.before, in.process) {
			lines := slices.DeleteFunc(strings.Split(p.stderr.String(), "\n"), func(line string) bool {
				return !strings.Contains(line, "level=WARN") && !strings.Contains(line, "level=ERROR")
			})
			for _, line := range lines[max(0, len(lines)-300):] {
				c.t.Logf("instance %d: %.300s", i, line)
			}
		}
	}
}

// works reports whether puts in all tubes are acknowledged at an address.
func (c *chaos) works(addr string) bool {
	const limit = 20 * time.Second // an instance that answers later is asked again
	conn, err := protoclient.Dial(addr, limit)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.Timeout = limit
	var commands []byte
	for i := range c.tubes {
		commands = protoclient.AppendPut(fmt.Appendf(commands, "use probe-%d\r\n", i), 0, 0, 60, []byte("x"))
	}
	wanted, other := protoclient.Using, protoclient.Inserted
	return conn.Ask(commands, 2*c.tubes, func(reply *protoclient.Reply) error {
		if reply.Word != wanted {
			return reply.Unexpected()
		}
		if wanted == protoclient.Inserted {
			c.record.Foreign(reply.ID)
		}
		wanted, other = other, wanted
		return nil
	}) == nil
}
