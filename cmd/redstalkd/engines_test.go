package main

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	"redstalk/tools/redistest"
)

// rare multiplies the repetitions of tests that look for rare events.
var rare = flag.Int("rare", 1, "how many times as often as usual is tried what may go wrong once in a while")

// onEngines runs a test with each engine. Every call of store returns the arguments for
// another empty store.
func onEngines(t *testing.T, test func(t *testing.T, store func() []string)) {
	t.Run("memory", func(t *testing.T) {
		test(t, func() []string { return []string{"--store", "memory:"} })
	})
	t.Run("embedded", func(t *testing.T) {
		test(t, func() []string { return []string{"--store", "embedded:" + t.TempDir(), "-s", "1048576"} })
	})
	t.Run("redis", func(t *testing.T) {
		test(t, namespaces(redistest.Start(t).URL()))
	})
}

// namespaces returns the arguments for another namespace on a Redis at every
// call.
func namespaces(url string) func() []string {
	var last atomic.Int64
	return func() []string {
		return []string{"--store", url, "--namespace", fmt.Sprint("test", last.Add(1))}
	}
}
