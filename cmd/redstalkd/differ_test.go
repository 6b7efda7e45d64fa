package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"redstalk/server/differ"
	dialogue "redstalk/server/transcript"
)

var (
	differCommands = flag.Int("differ-commands", 5000, "commands to compare with the true beanstalkd on each engine")
	differSeed     = flag.Uint64("differ-seed", 1, "seed of the random scripts")
	differFaults   = flag.Int("differ-faults", 1, "how many different faults to collect")
	differShrink   = flag.Duration("differ-shrink", time.Minute, "how long a failing script may be made smaller")
)

// allCovered is from how many commands on every reply that there is must have
// been seen.
const allCovered = 50_000

// TestDiffer plays random scripts on the program, with each engine, and on the
// true beanstalkd, and compares every reply.
func TestDiffer(t *testing.T) {
	judge := t.TempDir()
	startJudge := func(flags ...string) (differ.Server, error) {
		srv, err := dialogue.StartBeanstalkd(judge, flags...)
		return asServer(srv, err)
	}
	onEngines(t, func(t *testing.T, store func() []string) {
		report, err := differ.Run(context.Background(), differ.Config{
			Judge: startJudge,
			Subject: func(flags ...string) (differ.Server, error) {
				return startSubject(append(store(), flags...))
			},
			Seed: *differSeed, Plain: *differCommands, Timed: 250 + *differCommands/20,
			Faults: *differFaults, Shrink: *differShrink, Log: t.Logf,
		})
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
		if missing := report.Coverage.Missing(); *differCommands >= allCovered && len(missing) > 0 {
			t.Errorf("never seen: %q", missing)
		}
	})
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
