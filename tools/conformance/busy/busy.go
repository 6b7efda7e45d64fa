// Package busy measures how busy the machine is, for tests with limits of time. Such tests run
// concurrently with others, and a limit that is generous enough for that would be useless on
// an idle machine. So they multiply their limit by Factor.
//
// Do not use it for timeouts whose length does not matter: make these long. And do not use it
// for promises that hold on every machine, such as that nothing is early.
package busy

import (
	"runtime"
	"time"
)

// sample is the processor time that one measurement uses.
const sample = 20 * time.Millisecond

// Factor returns how many times longer a program takes now than on an idle machine to get the
// same processor time. It is at least 1,
// and 1 where that is unknown. It uses 20 ms of processor time.
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

// Times returns a limit for an idle machine, multiplied by Factor.
func Times(limit time.Duration) time.Duration {
	return time.Duration(float64(limit) * Factor())
}
