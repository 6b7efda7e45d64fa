package embedded

import (
	"runtime"
	"sync"
	"time"
)

// breather has a goroutine that computes for long leave the processor now and then. Else it is
// made to after 10 ms, and that may be while it holds the lock, which nobody gets then before the
// goroutine is let on again. It sleeps, since to yield is not enough: as long as anybody can run,
// the scheduler does not look who has something to read from the network.
type breather struct{ begun time.Time }

const (
	// breathAfter is how long it computes in a row, about.
	breathAfter = time.Millisecond

	// breath is the pause. It lasts up to a millisecond if nobody else wants the processor.
	breath = 50 * time.Microsecond

	// breathCompares is how many comparisons of a sort there are between two looks at the clock.
	breathCompares = 64
)

// ownThread gives the goroutine a thread of its own until release is called. The kernel lets a
// thread that has slept run soon, and for a while. One that has just worked for the collector or
// for another goroutine has had its share: it loses the processor to other threads for some
// milliseconds, and that may be while the goroutine holds the lock. While a million jobs were
// flushed and memory was collected, 32 of them often took 10 ms for that reason.
func ownThread() (b *breather, release func()) {
	runtime.LockOSThread()
	return &breather{time.Now()}, runtime.UnlockOSThread
}

// work is called after each small piece of work.
func (b *breather) work() {
	if time.Since(b.begun) > breathAfter {
		time.Sleep(breath)
		b.begun = time.Now()
	}
}

// yieldLock releases the lock and leaves the processor to whoever has waited for it. A sync.Mutex
// wakes only one of those who wait, and no other one until that has run: so all of them would wait
// for as long as the goroutine computes that has released it.
func yieldLock(mu *sync.Mutex) {
	mu.Unlock()
	runtime.Gosched()
}

// sorting returns compare for a sort of very many.
func sorting[T any](compare func(a, b T) int) func(a, b T) int {
	b, n := breather{time.Now()}, 0
	return func(x, y T) int {
		if n++; n%breathCompares == 0 {
			b.work()
		}
		return compare(x, y)
	}
}
