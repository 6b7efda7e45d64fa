package client_test

import (
	"runtime"
	"sync"
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

// BenchmarkAnswer is the least that 50 goroutines cost which each wait for an answer to one call after another: another
// goroutine takes all calls that there are, and answers each. It is a lower limit for BenchmarkPut.
func BenchmarkAnswer(b *testing.B) {
	var mu sync.Mutex
	var waiting, taken []chan struct{}
	wake := make(chan struct{}, 1)
	go func() {
		for range wake {
			runtime.Gosched() // others add their calls
			mu.Lock()
			waiting, taken = taken[:0], waiting
			mu.Unlock()
			for _, done := range taken {
				done <- struct{}{}
			}
		}
	}()
	var callers sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for range 50 {
		callers.Go(func() {
			for done := make(chan struct{}, 1); left.Add(-1) >= 0; <-done {
				mu.Lock()
				waiting = append(waiting, done)
				first := len(waiting) == 1
				mu.Unlock()
				if first {
					wake <- struct{}{}
				}
			}
		})
	}
	callers.Wait()
	close(wake)
}
