// Package limits has what all listeners of a process share: how many connections there may be,
// how much of what clients were answered may lie unread, and how much there may be of what they
// have begun to send.
//
// # What lives here
//
//   - Limits: the one value that every listener gets; it counts connections (bounds.go).
//   - Reader: a client that has something to read, as its listener knows it, and the guard that
//     has the worst of them give way (unread.go).
//   - Arrival: a body of which a part has come; who has begun to send a large one may have to
//     wait for room, or to give way (incoming.go).
//   - crowds: when many connections have gone their memory is given back to the operating
//     system (crowd.go).
//
// # What does not
//
// Closing connections, and what a listener tells a client: that is the listener's.
//
// # Invariants
//
// All methods may be called from any goroutine, and on nil: then nothing is bounded.
package limits

import (
	"sync"
	"sync/atomic"
)

// Limits are those of one process.
type Bounds struct {
	most        int64
	connections atomic.Int64
	incoming    incoming

	mu      sync.Mutex // guards what follows
	guard   guard
	sources map[*source]struct{}
	stop    chan struct{} // ends the guard's goroutine; nil while there is no source
	crowds  crowds

	free func() // gives memory back to the operating system
}

// New returns bounds: so many connections at a time, and over all of them so many bytes unread,
// and so many of bodies that are on their way. 0 means no limit.
func New(connections int, unread, arriving int64) *Bounds {
	return &Bounds{most: int64(connections), incoming: incoming{most: arriving}, guard: guard{most: unread}, sources: make(map[*source]struct{}), free: giveBack}
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
