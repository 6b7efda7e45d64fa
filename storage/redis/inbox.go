package redis

import (
	"slices"
	"sync"
)

// inbox has the units that wait for a call of the partition, and decides which goroutine is the
// caller, that is, makes the calls. There is one caller at a time: either the goroutine that
// has added a unit while there was no caller, or the worker (partition.work). Whatever "belongs
// to the caller of the partition" is guarded by this.
//
// The methods are safe for concurrent use, except those that are for the caller or the worker.
type inbox struct {
	mu      sync.Mutex
	changed sync.Cond // worker, called or ending has changed
	queue   []*unit
	called  bool    // there is a caller
	worker  bool    // the worker must become the caller
	failure failure // with which the worker begins
	ending  bool    // nothing more is accepted
}

// failure is a call that has failed, and whose units still wait.
type failure struct {
	call *call // nil if there is none
	err  error
}

// add queues units. ok is false if the partition has ended. If caller is true, the calling
// goroutine is the caller from now on, which happens only with mayCall. Otherwise the worker
// becomes the caller, unless there is one already.
func (in *inbox) add(units []*unit, mayCall bool) (caller, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ending {
		return false, false
	}
	in.queue = append(in.queue, units...)
	caller = !in.called && mayCall
	if !in.called && !caller {
		in.worker = true
		in.changed.Signal()
	}
	in.called = true
	return caller, true
}

// next returns the unit that has waited longest; nil if none waits. It is for the caller.
func (in *inbox) next() *unit {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		return nil
	}
	u := in.queue[0]
	in.queue[0] = nil
	in.queue = in.queue[1:]
	return u
}

func (in *inbox) empty() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.queue) == 0
}

// putBack queues units before and after those that wait. It is for the caller.
func (in *inbox) putBack(first, last []*unit) {
	if len(first) == 0 && len(last) == 0 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue = slices.Concat(first, in.queue, last)
}

// waiting returns the units that wait.
func (in *inbox) waiting() []*unit {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.queue)
}

// remove removes the units for which want returns true. It is for the caller.
func (in *inbox) remove(want func(*unit) bool) (removed []*unit) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue = slices.DeleteFunc(in.queue, func(u *unit) bool {
		ok := want(u)
		if ok {
			removed = append(removed, u)
		}
		return ok
	})
	return removed
}

// keepCaller is called by the caller before each call. If nothing waits it returns false, and
// there is no caller any more.
func (in *inbox) keepCaller() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.called = len(in.queue) > 0
	if in.ending {
		in.changed.Signal()
	}
	return in.called
}

// handOver ends the role of the caller. The worker takes over if there is anything to do.
func (in *inbox) handOver(f failure) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if f.call != nil || len(in.queue) > 0 {
		in.worker, in.failure = true, f
	} else {
		in.called = false
	}
	if in.worker || in.ending {
		in.changed.Signal()
	}
}

// await returns when the worker has become the caller, with the failed call if there is one;
// false if the partition has ended. It is for the worker.
func (in *inbox) await() (failure, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.worker {
		if in.ending && !in.called {
			return failure{}, false
		}
		in.changed.Wait()
	}
	f := in.failure
	in.worker, in.failure = false, failure{}
	return f, true
}

// end stops accepting units. The worker ends when nothing waits any more.
func (in *inbox) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ending = true
	in.changed.Signal()
}

func (in *inbox) hasEnded() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ending
}
