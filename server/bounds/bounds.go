// Package bounds has what all doors of a process share: how many connections there may be,
// and how much of what clients were answered may lie unread.
//
// # What lives here
//
//   - Bounds: the one value that every door gets; it counts connections (bounds.go).
//   - Reader: a client that has something to read, as its door knows it, and the guard that
//     has the worst of them give way (unread.go).
//   - crowds: when many connections have gone their memory is given back to the operating
//     system (crowd.go).
//
// # What does not
//
// Closing connections, and what a door tells a client: that is the door's.
//
// # Invariants
//
// All methods may be called from any goroutine, and on nil: then nothing is bounded.
package bounds

import (
	"sync"
	"sync/atomic"
)

// Bounds are those of one process.
type Bounds struct {
	most        int64
	connections atomic.Int64

	mu      sync.Mutex // guards what follows
	guard   guard
	sources map[*source]struct{}
	stop    chan struct{} // ends the guard's goroutine; nil while there is no source
	crowds  crowds

	free func() // gives memory back to the operating system
}

// New returns bounds: so many connections at a time, and so many bytes unread over all of
// them. 0 means no limit.
func New(connections int, unread int64) *Bounds {
	return &Bounds{most: int64(connections), guard: guard{most: unread}, sources: make(map[*source]struct{}), free: giveBack}
}

// MaxConnections is how many connections there may be at a time; 0 means no limit.
func (b *Bounds) MaxConnections() int {
	if b == nil {
		return 0
	}
	return int(b.most)
}

// Enter counts a connection, which Leave ends. It returns false, and counts nothing, if that
// would be one too many.
func (b *Bounds) Enter() bool {
	if b == nil {
		return true
	}
	if n := b.connections.Add(1); b.most > 0 && n > b.most {
		b.connections.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter has begun.
func (b *Bounds) Leave() {
	if b != nil {
		b.connections.Add(-1)
	}
}
