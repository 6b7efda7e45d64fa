// Package busy tells how busy the machine is on which a test runs, for tests that say how
// long something may take. They run beside each other and beside whatever else a
// machine has to do, and a limit that holds there would not notice much elsewhere.
//
// # Contents
//
// Factor, by which such a test multiplies its limit.
//
// # Not here
//
// What is waited for without a limit that matters: there a long one does no harm. And
// promises that hold on every machine, such as that nothing comes early.
package busy

import (
	"runtime"
	"time"
)

// sample is how much processor time is used to find out.
const sample = 20 * time.Millisecond

// Factor returns how many times longer a program has to run now than on a machine that
// has nothing else to do, until it has had the same processor time. It is 1 or more,
// and 1 where that is unknown. It takes 20 ms of processor time to find out.
func Factor() float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun, before := time.Now(), used()
	for time.Since(begun) < sample || used()-before < sample && used() != 0 {
	}
	had := used() - before
	if had == 0 {
		return 1
	}
	return max(1, float64(time.Since(begun))/float64(had))
}

// Times returns a limit that was meant for a machine that has nothing else to do, for
// this one as it is now.
func Times(limit time.Duration) time.Duration {
	return time.Duration(float64(limit) * Factor())
}
