package limits

import (
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// crowd is by how many connections there must be fewer than there were, and for how
	// long, before memory is given back to the operating system.
	crowd     = 1000
	crowdGone = 20 * time.Second
)

// crowds notices when many connections have gone. Go frees memory when it needs more: a process
// that hardly works would keep that of all connections for minutes.
type crowds struct {
	peak  int64         // the most connections since memory was last given back
	fewer time.Duration // for how long there have been fewer by crowd
}

// gone reports whether it is time to give memory back. It has to be called every Check.
func (c *crowds) gone(connections int64) bool {
	c.peak = max(c.peak, connections)
	if c.peak-connections < crowd {
		c.fewer = 0
		return false
	}
	if c.fewer += Check; c.fewer < crowdGone {
		return false
	}
	*c = crowds{peak: connections}
	return true
}

// giveBack gives memory that is not used back to the operating system, with that of buffers which
// net/http keeps for further connections: a sync.Pool has them until the second collection.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
