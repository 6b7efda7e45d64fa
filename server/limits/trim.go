package limits

import (
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// When for trimAfter there have been at least trimDrop fewer connections than before, memory
	// is returned to the operating system.
	trimDrop  = 1000
	trimAfter = 20 * time.Second
)

// trimmer notices when many connections have ended. The Go runtime frees memory when it
// needs more: a nearly idle process would keep that of all connections for minutes.
type trimmer struct {
	peak  int64         // the most connections since memory was last returned
	fewer time.Duration // for how long there have been fewer by trimDrop
}

// due reports whether it is time to return memory. It must be called every Check.
func (c *trimmer) due(connections int64) bool {
	c.peak = max(c.peak, connections)
	if c.peak-connections < trimDrop {
		c.fewer = 0
		return false
	}
	if c.fewer += Check; c.fewer < trimAfter {
		return false
	}
	*c = trimmer{peak: connections}
	return true
}

// trimMemory returns unused memory to the operating system, including the buffers that
// net/http keeps for further connections: a sync.Pool holds them until the second garbage
// collection.
func trimMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
