package client_test

import (
	"sync/atomic"
	"testing"

	"redstalk/clients/go/redstalktest"
)

// BenchmarkPut puts from 50 goroutines, one job after another in each.
func BenchmarkPut(b *testing.B) {
	c := redstalktest.Run(b)
	body := make([]byte, 128)
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, 50)
	b.ReportAllocs()
	for range 50 {
		go func() {
			for left.Add(-1) >= 0 {
				if _, err := c.Put(b.Context(), "bench", body); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 50 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
