package fsck

import (
	"cmp"
	"sync"
)

// concurrentChecks is the number of scripts under way at once, so that Redis need not wait for
// the next one.
const concurrentChecks = 2

// workerPool runs a few functions at the same time.
type workerPool struct {
	checker *checker
	free    chan struct{} // has an element for each function that runs
	all     sync.WaitGroup
}

func newWorkerPool(c *checker) *workerPool {
	return &workerPool{checker: c, free: make(chan struct{}, concurrentChecks)}
}

// do runs a function as soon as there is a free place.
func (f *workerPool) do(what func() error) {
	f.free <- struct{}{}
	f.all.Go(func() {
		err := what()
		f.checker.mu.Lock()
		f.checker.err = cmp.Or(f.checker.err, err)
		f.checker.mu.Unlock()
		<-f.free
	})
}

// ok returns whether nothing has failed so far.
func (f *workerPool) ok() bool {
	f.checker.mu.Lock()
	defer f.checker.mu.Unlock()
	return f.checker.err == nil
}

// wait waits until all are done, and returns the first error.
func (f *workerPool) wait() error {
	f.all.Wait()
	return f.checker.err
}
