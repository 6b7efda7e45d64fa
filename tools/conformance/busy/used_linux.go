package busy

import (
	"syscall"
	"time"
)

// used is the processor time that the calling thread has had, 0 if it is unknown.
func used() time.Duration {
	const thisThread = 1 // RUSAGE_THREAD, which package syscall lacks
	var usage syscall.Rusage
	if syscall.Getrusage(thisThread, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
