package redis

import (
	"slices"
	"sync"
)

// inbox has the units that wait for a call of the partition, and says who makes the
// calls: the caller. That is one goroutine at a time, either the one that has handed
// over a unit while there was no caller, or the worker (partition.work). Everything
// that a partition says to belong to the caller is guarded by this.
//
// All methods may be called by anybody, except where they say that they are for the
// caller or for the worker.
type inbox struct {
	mu      sync.Mutex
	changed sync.Cond // worker, called or ending has
	queue   []*unit
	called  bool    // there is a caller
	worker  bool    // the worker is to become the caller
	failure failure // what the worker begins with
	ending  bool    // nothing more is accepted
}

// failure is a call that has failed, and whose units still wait.
type failure struct {
	call *call // nil if there is none
	err  error
}

// add queues units; false if the partition has ended. If caller is true whoever has
// called this is the caller from now on, which happens only if mayCall. Otherwise it is
// the worker, unless there is a caller already.
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

// next returns the unit that has waited longest; nil if none waits. It is for the
// caller.
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

// putBack queues units before those that wait, and others behind them. It is for the
// caller.
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

// remove takes those units out for which want returns true. It is for the caller.
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

// goOn is asked by the caller before each call. If nothing waits it returns false, and
// then there is no caller any more.
func (in *inbox) keepCaller() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.called = len(in.queue) > 0
	if in.ending {
		in.changed.Signal()
	}
	return in.called
}

// handOver ends the role of the caller. The worker takes over if there is anything to
// do.
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

// await returns when the worker has become the caller, with the call that has failed
// if there is one; false if the partition has ended. It is for the worker.
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

// end has nothing more accepted. The worker ends when nothing waits any more.
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
