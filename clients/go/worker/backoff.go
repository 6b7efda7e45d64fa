package worker

import (
	"math/rand/v2"
	"time"
)

// A Backoff returns how long to wait after the given number of failures of a job, at least 1. If ok is
// false, the job is buried.
type Backoff func(failures int) (wait time.Duration, ok bool)

var defaultBackoff = Exponential(time.Second, time.Hour, 0)

// Exponential waits first, then twice as long each time, up to longest, and up to a tenth longer or
// shorter, so that jobs that failed together do not come together. After limit failures the job is buried; 0 is no limit.
func Exponential(first, longest time.Duration, limit int) Backoff {
	return func(failures int) (time.Duration, bool) {
		wait := longest
		if n := max(failures, 1) - 1; n < 40 && first<<n > 0 {
			wait = min(first<<n, longest)
		}
		if spread := wait / 10; spread > 0 {
			wait += rand.N(2*spread) - spread
		}
		return wait, limit == 0 || failures <= limit
	}
}

// Intervals waits as the list says, and then buries the job.
func Intervals(waits ...time.Duration) Backoff {
	return func(failures int) (time.Duration, bool) {
		if failures > len(waits) {
			return 0, false
		}
		return waits[max(failures, 1)-1], true
	}
}
