package redis

import (
	"fmt"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// inTubes does an operation in each of n tubes, and returns in how many it found a job.
func inTubes(t *testing.T, s *Store, n int, op func(name string) storage.Op) (found int) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		ops := make([]storage.Op, 0, 500)
		for i := from; i < min(from+500, n); i++ {
			ops = append(ops, op(fmt.Sprint("tube-", i)))
		}
		storage.DoWait(s, ops)
		for i := range ops {
			if err := ops[i].Answer.Err; err != nil {
				t.Fatal(err)
			}
			if !ops[i].Answer.NotFound {
				found++
			}
		}
	}
	return found
}

func takeIn(name string) storage.Op {
	return storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{name}}
}

// tickUntilIdle ticks until nothing is due.
func tickUntilIdle(t *testing.T, s *Store) {
	t.Helper()
	for {
		next, err := s.TickAll()
		if err != nil {
			t.Fatal(err)
		}
		if next > 0 {
			return
		}
	}
}

// TestPatternPolicyInSteps: after a change of the policy of a pattern no call of the script looks at all tubes
// that it concerns. The limit holds in all of them at once, and where it is gone jobs can soon be taken.
func TestPatternPolicyInSteps(t *testing.T) {
	t.Parallel()
	const tubes, higher, most = 600, 1 + 10 + 100, 4500
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	for range 3 {
		inTubes(t, s, tubes, func(name string) storage.Op {
			return storage.Op{Kind: storage.Put, Tube: name, TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}}
		})
	}
	limit := func(n uint32) *tube.Policy { return &tube.Policy{GroupLimits: tube.Limits{Concurrency: n}} }
	inSteps := func(what func()) {
		t.Helper()
		calls := mostCommands(t, server, what)
		t.Logf("%d commands", calls)
		if calls > most {
			t.Errorf("a call of the script makes %d commands", calls)
		}
	}
	takeAll := func(when string, want int) {
		t.Helper()
		if n := inTubes(t, s, tubes, takeIn); n != want {
			t.Errorf("%s: jobs are taken from %d tubes, want %d", when, n, want)
		}
	}
	inSteps(func() { setPolicy(s, "*", limit(1)) })
	takeAll("a limit is set", tubes)
	takeAll("as many are reserved", 0)
	inSteps(func() {
		tickUntilIdle(t, s)
		setPolicy(s, "tube-1*", limit(3)) // of tubes in the middle of the others
		setPolicy(s, "*", limit(2))       // while the steps of that are not done
		tickUntilIdle(t, s)
	})
	takeAll("a limit is raised", tubes)
	takeAll("another one is higher", higher)
	inSteps(func() {
		setPolicy(s, "tube-1*", nil)
		setPolicy(s, "*", nil)
		tickUntilIdle(t, s)
	})
	takeAll("no limit is left", tubes-higher)
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong[:min(len(wrong), 3)])
	}
}
