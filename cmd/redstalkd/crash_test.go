package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/ledger"
)

var (
	crashRounds = flag.Int("crash-rounds", 1, "how many times TestCrash kills the program, with each way of syncing")
	crashSeed   = flag.Uint64("crash-seed", 1, "what makes the choices of TestCrash; 0: the clock")
)

// auditLimit is the timeout of an audit, much longer than expected.
const auditLimit = time.Minute

// TestCrash kills the program at random moments under load, starts it again on
// the same directory and port, and compares its jobs with what it had
// acknowledged. That includes jobs with keys and leases, which go to dead-letter tubes and are
// moved. Since the kernel survives, -f 50 and -F lose nothing
// either; losses with the kernel are tested in storage/embedded.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-crash-seed %d", seed)
	for i, flags := range [][]string{{"-f", "0"}, {"-f", "50"}, {"-F"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			if i > 0 {
				atLength(t)
			}
			t.Parallel()
			newKilledServer(t, ledger.Config{Seed: seed + uint64(i)}, flags...).runRounds(t, *crashRounds)
		})
	}
}

// TestCrashLarge is TestCrash with bodies of up to 400 KiB, and a few of 2 MiB, or, in at
// least 10 rounds, of 64 MiB.
func TestCrashLarge(t *testing.T) {
	atLength(t)
	t.Parallel()
	c := ledger.Config{Seed: *crashSeed, Backlog: 200, MaxBody: 400 << 10, LargestBody: 2 << 20}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	if *crashRounds >= 10 {
		c.LargestBody = 64 << 20
	}
	t.Logf("-crash-seed %d", c.Seed)
	newKilledServer(t, c, "-f", "0", "-z", fmt.Sprint(64<<20)).runRounds(t, *crashRounds)
}

// killedServer is a program that is killed repeatedly, and the load on it.
type killedServer struct {
	args       []string
	rng        *rand.Rand
	record     *ledger.Ledger
	killWithin time.Duration // of the begin of a round, on a machine with nothing else to do
	*process
}

// newKilledServer starts a program with flags. c configures the load, and has the seed.
func newKilledServer(t *testing.T, c ledger.Config, flags ...string) *killedServer {
	t.Helper()
	port := child.FreePort()
	c.Addrs, c.Producers, c.Consumers, c.Kickers, c.Leasers, c.GroupLimit = []string{"127.0.0.1:" + port}, 16, 16, 1, 10, 2
	v := &killedServer{
		args:       append([]string{"-p", port, "-s", "1048576", "-b", t.TempDir()}, flags...),
		rng:        rand.New(rand.NewPCG(c.Seed, 0)),
		record:     ledger.New(c),
		killWithin: 300 * time.Millisecond,
	}
	if c.MaxBody > 100<<10 { // these are slower
		v.killWithin = 1500 * time.Millisecond
	}
	v.process, _ = serve(t, v.args...)
	return v
}

// runRounds kills the program in each round, and at the end stops it with a signal,
// always under load; the ledger is checked each time.
func (v *killedServer) runRounds(t *testing.T, rounds int) {
	for round := range rounds {
		v.round(t, syscall.SIGKILL, fmt.Sprint("round ", round+1))
	}
	v.round(t, syscall.SIGTERM, "the round of SIGTERM")
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	if err := v.record.Drain(ctx); err != nil {
		t.Error(err)
	}
	r := v.record.Report()
	t.Logf("%d rounds: %v", rounds+1, r)
	if r.PutsAcked < 20*rounds || r.DeletesAcked < 10*rounds || r.Broken == 0 || r.InternalErrors > 0 || r.Leases < 5*rounds || r.Full < rounds/2 {
		t.Errorf("that was no load: %v", r)
	}
}

// round ends the program under load and starts it again. In half of the rounds the
// load continues meanwhile, and in some the program is killed again
// while it starts.
func (v *killedServer) round(t *testing.T, sig syscall.Signal, name string) {
	t.Helper()
	onwards := v.rng.IntN(2) == 0
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() { v.record.Run(ctx) })
	defer load.Wait()
	defer stop()

	<-time.After(v.upTo(busy.Times(v.killWithin)))
	v.end(t, sig)
	if !onwards {
		stop()
		load.Wait()
	}
	if v.rng.IntN(3) == 0 {
		v.process = start(t, command(append([]string{"-V"}, v.args...)...))
		<-time.After(v.upTo(60 * time.Millisecond))
		v.end(t, syscall.SIGKILL)
	}
	v.process, _ = serve(t, v.args...)
	if onwards {
		<-time.After(v.upTo(100 * time.Millisecond))
		stop()
		load.Wait()
	}
	v.check(t, name)
}

func (v *killedServer) upTo(d time.Duration) time.Duration {
	return 10*time.Millisecond + time.Duration(v.rng.Int64N(int64(d)))
}

func (v *killedServer) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	v.signal(t, sig)
	if code := v.code(t); sig == syscall.SIGTERM && code != 0 {
		t.Errorf("asked to end: %d\n%s", code, v.stderr)
	}
}

func (v *killedServer) check(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	if err := v.record.Check(ctx); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
