package fsck

import (
	"sync"

	"redstalk/storage/redis/conn"
)

// Report receives the findings of a check, in one goroutine at a time.
type Report struct {
	// Found is called with each fault.
	Found func(partition int, what string)

	// Skipped, if not nil, is called with what could not be compared because instances kept
	// changing it.
	Skipped func(partition int, what string)

	// Progress, if not nil, is called with what is being checked, and how many so far.
	Progress func(what string, n int)
}

// checker is one check under way.
type checker struct {
	pool      *conn.Pool
	namespace string
	repair    bool
	work      int // see Options.MaxWork
	parts     []*checkedPartition

	mu     sync.Mutex // of what follows
	report Report
	jobs   int
	seen   map[string]int // what was passed to report.Progress
	err    error          // the first error
}

// reportProgress counts what is being checked.
func (c *checker) reportProgress(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[what] += n
	if c.report.Progress != nil {
		c.report.Progress(what, c.seen[what])
	}
}

// found reports faults.
func (c *checker) found(p *checkedPartition, wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range wrong {
		c.report.Found(p.number, what)
	}
}

// skipped reports what was not compared.
func (c *checker) skipped(p *checkedPartition, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report.Skipped != nil {
		c.report.Skipped(p.number, what)
	}
}
