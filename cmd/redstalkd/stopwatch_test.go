package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lost is how long in all this process was ready to run but did not, as the machine
// was busy, in nanoseconds.
var lost struct {
	atomic.Int64
	watched sync.Once
}

// watchLost adds to lost, from the first stopwatch on.
func watchLost() {
	const tick, usual = 10 * time.Millisecond, time.Millisecond
	for {
		begun := time.Now()
		time.Sleep(tick)
		if late := time.Since(begun) - tick; late > usual {
			lost.Add(int64(late))
		}
	}
}

// stopwatch measures roughly how long something takes on an idle machine: the time that this
// process has lost meanwhile does not count.
type stopwatch struct {
	begun time.Time
	lost  int64
}

func startWatch() stopwatch {
	lost.watched.Do(func() { go watchLost() })
	return stopwatch{time.Now(), lost.Load()}
}

func (w stopwatch) took() time.Duration {
	return time.Since(w.begun) - time.Duration(lost.Load()-w.lost)
}

func TestStopwatch(t *testing.T) {
	w := startWatch()
	time.Sleep(100 * time.Millisecond)
	if took := w.took(); took > time.Since(w.begun) || took < 0 {
		t.Errorf("it took %v of %v", took, time.Since(w.begun))
	}
	lost.Add(int64(time.Hour))
	if took := w.took(); took > -50*time.Minute {
		t.Errorf("an hour that was lost counts: %v", took)
	}
	lost.Add(-int64(time.Hour))
}
