package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"redstalk/tools/conformance/differ"
	dialogue "redstalk/tools/conformance/transcript"
	"redstalk/tools/redistest"
)

var (
	differCommands = flag.Int("differ-commands", 300, "commands to compare with the true beanstalkd on each engine")
	differSeed     = flag.Uint64("differ-seed", 1, "seed of the random scripts")
	differFaults   = flag.Int("differ-faults", 1, "how many different faults to collect")
	differShrink   = flag.Duration("differ-shrink", time.Minute, "how long a failing script may be made smaller")
)

// allCovered is the number of commands from which on every possible reply must have
// been seen.
const allCovered = 50_000

// TestDiffer plays random scripts on the program, with each engine, and on the
// real beanstalkd, and compares every reply.
func TestDiffer(t *testing.T) {
	t.Parallel() // it waits more than it computes
	onEngines(t, func(t *testing.T, store func() []string) {
		missing := compare(t, differ.Config{
			Judge: startJudge(t),
			Subject: func(flags ...string) (differ.Server, error) {
				return startSubject(append(store(), flags...))
			},
			Plain: *differCommands, Timed: *differCommands / 12,
		}).Coverage.Missing()
		if *differCommands >= allCovered && len(missing) > 0 {
			t.Errorf("never seen: %q", missing)
		}
	})
}

// othersLag is how long an instance may take to learn about the connections of the
// others. The promise is 2 s, which TestTwoInstances checks. The rest
// is for a busy machine.
const othersLag = 3 * time.Second

// TestDifferOnTwoInstances: two instances on one Redis are one beanstalkd. The
// connections of a script are dealt to them in turn.
func TestDifferOnTwoInstances(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	store := patiently(namespaces(redistest.Start(t).URL()))
	compare(t, differ.Config{
		Judge: startJudge(t),
		Subject: func(flags ...string) (differ.Server, error) {
			return startFront(2, append(store(), flags...))
		},
		Plain: *differCommands / 2, Timed: *differCommands / 12,
		Lag: othersLag, Parallel: 6, Crowd: 12,
	})
}

// TestDifferInPartitions: the same with one instance, and tubes in as many
// partitions as on a cluster, on one Redis.
func TestDifferInPartitions(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	compareSpread(t, *differCommands/4, redistest.Start(t).URL(), "--partitions", "16")
}

// TestDifferOnCluster: the same on three nodes of a cluster.
func TestDifferOnCluster(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	compareSpread(t, *differCommands/2, redistest.StartCluster(t, 3, 0).URL())
}

// compareSpread is for a store with partitions, where list-tubes has another
// order. There is only one instance: the order of ids is not defined for jobs that two
// instances put within a second in different partitions.
func compareSpread(t *testing.T, commands int, url string, more ...string) {
	t.Helper()
	store, judge := patiently(namespaces(url)), startJudge(t)
	compare(t, differ.Config{
		Judge: func(flags ...string) (differ.Server, error) {
			s, err := judge(flags...)
			return withSortedLists(s), err
		},
		Subject: func(flags ...string) (differ.Server, error) {
			s, err := startSubject(slices.Concat(store(), more, flags))
			return withSortedLists(s), err
		},
		Plain: commands, Timed: commands / 14,
		Crowd: 12,
	})
}

// standstill is longer than any stall of a busy machine.
const standstill = 5 * time.Minute

// patiently makes the engine wait for Redis for standstill.
func patiently(store func() []string) func() []string {
	return func() []string { return append(store(), "--store-timeout", standstill.String()) }
}

// compare plays scripts and reports what differs.
func compare(t *testing.T, c differ.Config) *differ.Report {
	t.Helper()
	c.Seed, c.Faults, c.Shrink, c.Log = *differSeed, *differFaults, *differShrink, t.Logf
	report, err := differ.Run(context.Background(), c)
	if errors.Is(err, dialogue.ErrNoBeanstalkd) {
		t.Skip("there is no beanstalkd here to judge by; `make deps` installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands compared without time and %d with, in %d and %d scripts; of the latter %d were cut short by a slow machine, and %d failed once and not again\n%v",
		report.Plain, report.Timed, report.Scripts-report.TimedScripts, report.TimedScripts, report.Voided, report.Doubtful, report.Coverage)
	for _, f := range report.Found {
		t.Error(f)
	}
	if report.Doubtful > 2+report.TimedScripts/4 {
		t.Errorf("too many timed scripts failed once and not again: the machine cannot be the cause of all")
	}
	return report
}

// startJudge starts real beanstalkds.
func startJudge(t *testing.T) func(flags ...string) (differ.Server, error) {
	dir := t.TempDir()
	return func(flags ...string) (differ.Server, error) {
		srv, err := dialogue.StartBeanstalkd(dir, flags...)
		return asServer(srv, err)
	}
}

// startSubject starts the program in a directory of its own.
func startSubject(flags []string) (differ.Server, error) {
	dir, err := os.MkdirTemp("", "differ")
	if err != nil {
		return differ.Server{}, err
	}
	srv, err := dialogue.Start("redstalk", binary, dir, flags...)
	if err != nil {
		os.RemoveAll(dir)
		return differ.Server{}, err
	}
	s, err := asServer(srv, nil)
	s.Stop = func() {
		srv.Stop()
		os.RemoveAll(dir)
	}
	return s, err
}

func asServer(srv *dialogue.Server, err error) (differ.Server, error) {
	if err != nil {
		return differ.Server{}, err
	}
	target := srv.Target()
	return differ.Server{Dial: target.Dial, Signal: target.Signal, Stop: srv.Stop}, nil
}
