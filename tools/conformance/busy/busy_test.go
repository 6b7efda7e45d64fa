package busy

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestFactor: the factor is 1 or more, and grows with what runs beside.
func TestFactor(t *testing.T) {
	if f := Factor(); f < 1 {
		t.Errorf("%v", f)
	}
	if runtime.GOOS != "linux" {
		return
	}
	var ended atomic.Bool
	defer ended.Store(true)
	others := 7 * runtime.NumCPU()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(others + 1))
	for range others {
		go func() {
			for !ended.Load() {
			}
		}()
	}
	for range 20 {
		if Factor() >= 2 {
			return
		}
	}
	t.Error("it never grew to 2 beside seven times as many threads as there are processors")
}
