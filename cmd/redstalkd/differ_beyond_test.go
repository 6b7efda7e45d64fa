package main

import (
	"slices"
	"testing"

	"redstalk/storage/redis/redistest"
	"redstalk/tools/conformance/differ"
)

// TestDifferBeyond plays random scripts with extensions on the program with each engine,
// and compares with the memory engine.
func TestDifferBeyond(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	onEngines(t, func(t *testing.T, store func() []string) {
		compareBeyond(t, *differCommands, func(flags ...string) (differ.Server, error) {
			return startSubject(slices.Concat(store(), flags))
		}, differ.Config{})
	})
}

// TestDifferBeyondOnTwoInstances: the same on two instances that look like one server.
func TestDifferBeyondOnTwoInstances(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	store := patiently(namespaces(redistest.Start(t).URL()))
	compareBeyond(t, *differCommands/2, func(flags ...string) (differ.Server, error) {
		return startFront(2, append(store(), flags...))
	}, differ.Config{Lag: othersLag})
}

// TestDifferBeyondInPartitions: the same on one Redis with tubes in 16 partitions.
func TestDifferBeyondInPartitions(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	compareBeyondSpread(t, *differCommands/2, redistest.Start(t).URL(), "--partitions", "16")
}

// TestDifferBeyondOnCluster: the same on three nodes of a cluster.
func TestDifferBeyondOnCluster(t *testing.T) {
	atLength(t)
	t.Parallel() // it waits more than it computes
	compareBeyondSpread(t, *differCommands/2, redistest.StartCluster(t, 3, 0).URL())
}

func compareBeyondSpread(t *testing.T, commands int, url string, more ...string) {
	t.Helper()
	store := patiently(namespaces(url))
	compareBeyond(t, commands, func(flags ...string) (differ.Server, error) {
		return startSubject(slices.Concat(store(), more, flags))
	}, differ.Config{Unordered: true})
}

// compareBeyond compares a server with the engine in memory.
func compareBeyond(t *testing.T, commands int, subject func(...string) (differ.Server, error), c differ.Config) {
	t.Helper()
	c.Judge = func(flags ...string) (differ.Server, error) {
		return startSubject(append([]string{"--store", "memory:"}, flags...))
	}
	c.Subject, c.Beyond = subject, true
	c.Plain, c.Timed, c.Crowd = commands, commands/14, 12
	missing := compare(t, c).Coverage.MissingBeyond()
	if *differCommands >= allCovered && len(missing) > 0 {
		t.Errorf("never seen: %q", missing)
	}
}
