package main

import (
	"fmt"
	"sync/atomic"
	"testing"

	"redstalk/storage/redis/redistest"
)

// onEngines runs a test with each engine. store returns the arguments for a
// store of its own, empty, at every call.
func onEngines(t *testing.T, test func(t *testing.T, store func() []string)) {
	t.Run("memory", func(t *testing.T) {
		test(t, func() []string { return []string{"--store", "memory:"} })
	})
	t.Run("embedded", func(t *testing.T) {
		test(t, func() []string { return []string{"--store", "embedded:" + t.TempDir(), "-s", "1048576"} })
	})
	t.Run("redis", func(t *testing.T) {
		redis := redistest.Start(t)
		var namespaces atomic.Int64
		test(t, func() []string {
			return []string{"--store", redis.URL(), "--namespace", fmt.Sprint("test", namespaces.Add(1))}
		})
	})
}
