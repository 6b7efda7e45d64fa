package body

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// smallest is the smallest body, in bytes, that has a Buffer. Allocating a smaller one
	// costs less than counting its references.
	smallest = 4 << 10

	// largest is the largest memory that is kept for reuse.
	largest = 16 << 20

	// mostIdle is the limit of idle memory in bytes. Memory released beyond that is left to
	// the garbage collector.
	mostIdle = 64 << 20

	// collectAfter is how many bytes are left to the garbage collector before a collection
	// is started explicitly. The runtime itself would wait until there is as much garbage as
	// live data, so bodies of gigabytes would take twice their size, or more while they grow.
	// A collection takes only milliseconds, because bodies contain no pointers.
	collectAfter = 256 << 20

	// stepBits: there are 1<<stepBits sizes of memory per power of two. So at most a ninth
	// of the memory of a body is unused.
	stepBits = 3

	numClasses = (24 - 11) << stepBits // for sizes above 2 KiB, up to largest
)

// Pool allocates Buffers, and keeps the memory of released ones for reuse. All methods may
// be called from any goroutine.
type Pool struct {
	poisoned bool
	inUse    atomic.Int64

	mu      sync.Mutex // guards what follows
	idle    [numClasses]class
	size    int // bytes of idle memory
	dropped int // bytes left to the garbage collector since a collection was last started
}

// class is idle memory of one size.
type class struct {
	memory [][]byte // a stack: the memory released last is reused first
	least  int      // the smallest number since the last Trim
}

// NewPool returns an empty Pool.
func NewPool() *Pool { return &Pool{poisoned: poison} }

// Get returns a Buffer of size bytes with one reference. It returns nil if bodies of this
// size have no Buffer.
func (p *Pool) Get(size int) *Buffer {
	if size < smallest && !(p.poisoned && size > 0) {
		return nil
	}
	b := &Buffer{pool: p, size: size, memory: p.take(size)}
	p.inUse.Add(1)
	b.refs.Store(1)
	return b
}

// InUse returns how many Buffers have references. Those whose references were never released
// count forever.
func (p *Pool) InUse() int { return int(p.inUse.Load()) }

// take returns memory of at least size bytes.
func (p *Pool) take(size int) []byte {
	if p.poisoned {
		return dirty(make([]byte, size))
	}
	if size < smallest || size > largest {
		return make([]byte, size)
	}
	n, capacity := classOf(size)
	p.mu.Lock()
	c := &p.idle[n]
	last := len(c.memory) - 1
	if last < 0 {
		p.mu.Unlock()
		return make([]byte, capacity)
	}
	memory := c.memory[last]
	c.memory[last] = nil
	c.memory = c.memory[:last]
	c.least = min(c.least, last)
	p.size -= capacity
	p.mu.Unlock()
	return memory
}

// put keeps memory for reuse, unless that exceeds a limit.
func (p *Pool) put(memory []byte) {
	if p.poisoned {
		dirty(memory)
		return
	}
	size := len(memory)
	if size < smallest {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if size > largest || p.size+size > mostIdle {
		p.drop(size)
		return
	}
	n, _ := classOf(size)
	p.size += size
	p.idle[n].memory = append(p.idle[n].memory, memory)
}

// drop counts memory that is left to the garbage collector. The lock is held.
func (p *Pool) drop(size int) {
	if p.dropped += size; p.dropped >= collectAfter {
		p.dropped = 0
		go runtime.GC()
	}
}

// Trim drops the memory that was idle ever since the last call. It must be called about
// once a second.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.idle {
		c := &p.idle[n]
		if c.least > 0 {
			p.size -= c.least * len(c.memory[0])
			p.drop(c.least * len(c.memory[0]))
			c.memory = slices.Clone(c.memory[c.least:])
		}
		c.least = len(c.memory)
	}
}

// classOf returns the number of the class for bodies of that size, and the size of its
// memory. size is from smallest to largest.
func classOf(size int) (number, capacity int) {
	const first = 11 // sizes above 1<<first are in the first classes
	power := bits.Len(uint(size-1)) - 1
	step := 1 << (power - stepBits)
	above := (size - 1 - 1<<power) / step // steps below size, from 0
	return (power-first)<<stepBits + above, 1<<power + (above+1)*step
}

// dirty overwrites memory.
func dirty(memory []byte) []byte {
	if len(memory) > 0 {
		memory[0] = 0xDB
	}
	for n := 1; n < len(memory); n *= 2 {
		copy(memory[n:], memory[:n])
	}
	return memory
}
