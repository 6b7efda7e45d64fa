package limits

import (
	"sync"
	"sync/atomic"
)

// Limits are the limits of one process. All listeners share them.
type Limits struct {
	max         int64
	connections atomic.Int64
	incoming    incoming

	mu      sync.Mutex // guards the fields below
	guard   guard
	sources map[*source]struct{}
	stop    chan struct{} // ends the guard's goroutine; nil while there is no source
	trimmer trimmer

	trim func() // returns unused memory to the operating system
}

// New returns limits for the number of concurrent connections, for the unread bytes of all
// of them together, and for the bytes of bodies that are being received. 0 means no limit.
func New(connections int, unread, arriving int64) *Limits {
	return &Limits{max: int64(connections), incoming: incoming{max: arriving}, guard: guard{max: unread}, sources: make(map[*source]struct{}), trim: trimMemory}
}

// MaxConnections returns the limit of concurrent connections; 0 means no limit.
func (b *Limits) MaxConnections() int {
	if b == nil {
		return 0
	}
	return int(b.max)
}

// reserved is how many connections beyond the limit HTTP can have: probes and scrapes must be answered, above all
// when clients have taken all others.
const reserved = 32

// Enter counts a connection until Leave is called. If the connection would exceed the limit,
// it is not counted, and Enter returns false.
func (b *Limits) Enter() bool { return b.enter(0) }

// EnterHTTP is Enter for a connection of a listener for HTTP.
func (b *Limits) EnterHTTP() bool { return b.enter(reserved) }

func (b *Limits) enter(more int64) bool {
	if b == nil {
		return true
	}
	if n := b.connections.Add(1); b.max > 0 && n > b.max+more {
		b.connections.Add(-1)
		return false
	}
	return true
}

// Leave ends the counting of a connection.
func (b *Limits) Leave() {
	if b != nil {
		b.connections.Add(-1)
	}
}
