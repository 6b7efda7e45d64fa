package embedded

import (
	"runtime"
	"sync"
	"time"
)

// holdTime is how long the lock should be held for a part of long work: all other callers wait
// meanwhile.
const holdTime = time.Millisecond

// minPartSize is the minimum size of a part.
const minPartSize = 32

// partSize is the adaptive size of a part: how much is done at most under one hold of the lock. It
// shrinks if the last parts took long, because some jobs are more work than others, and some
// machines are slower.
type partSize struct{ size, limit int }

func newPartSize(limit int) partSize { return partSize{limit, limit} }

// adjust changes the size according to how long a part took.
func (s *partSize) adjust(took time.Duration) {
	if took > holdTime {
		s.size = max(s.size/2, int(int64(s.size)*int64(holdTime)/int64(took)), minPartSize)
	} else {
		s.size = min(s.size+s.size/8, s.limit)
	}
}

// yielder makes a goroutine that computes for a long time leave the processor now and then.
// Otherwise the scheduler preempts the goroutine after 10 ms, perhaps while it holds the lock,
// and then nobody gets the lock before the goroutine runs again. The goroutine sleeps, because
// runtime.Gosched is not enough: as long as any goroutine can run, the scheduler does not poll
// the network.
type yielder struct{ begun time.Time }

const (
	// yieldAfter is about how long the goroutine computes without a pause.
	yieldAfter = time.Millisecond

	// yieldPause is the pause. It lasts up to a millisecond if nobody else wants the
	// processor.
	yieldPause = 50 * time.Microsecond

	// comparesPerYield is how many comparisons of a sort are made between two readings of the
	// clock.
	comparesPerYield = 64
)

// ownThread gives the goroutine a thread of its own until release is called. The kernel soon
// runs a thread that has slept, and then lets it run for a while. A thread that has just worked
// for the garbage collector or for another goroutine has used up its share: it loses the
// processor to other threads for some milliseconds, perhaps while the goroutine holds the lock.
// For that reason 32 jobs often took 10 ms while a million jobs were flushed and memory was
// collected.
func ownThread() (y *yielder, release func()) {
	runtime.LockOSThread()
	return &yielder{time.Now()}, runtime.UnlockOSThread
}

// work is called after each small piece of work. It pauses if the goroutine has computed for
// yieldAfter.
func (y *yielder) work() {
	if time.Since(y.begun) > yieldAfter {
		time.Sleep(yieldPause)
		y.begun = time.Now()
	}
}

// unlockAndYield releases the lock and leaves the processor to a goroutine that waits for it. A
// sync.Mutex wakes only one waiter, and the next one only after that has run: so all of them
// would wait for as long as the goroutine that has released the lock computes.
func unlockAndYield(mu *sync.Mutex) {
	mu.Unlock()
	runtime.Gosched()
}

// yielding returns compare for a long sort, with pauses.
func yielding[T any](compare func(a, b T) int) func(a, b T) int {
	y, n := yielder{time.Now()}, 0
	return func(a, b T) int {
		if n++; n%comparesPerYield == 0 {
			y.work()
		}
		return compare(a, b)
	}
}
