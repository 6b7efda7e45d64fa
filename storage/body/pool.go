package body

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// smallest is the size in bytes from which on a body has a Buffer. To allocate a
	// smaller one costs less than to count who uses it.
	smallest = 4 << 10

	// largest is the largest memory that is kept for another body.
	largest = 16 << 20

	// mostIdle is how many bytes are kept at most. What is given back beyond that is
	// left to the garbage collector.
	mostIdle = 64 << 20

	// collectAfter is how many bytes may be left to the garbage collector before it is
	// told to begin. By itself it would begin when there is as much garbage as there are
	// jobs, and bodies of gigabytes would take twice their room, or more while they grow.
	// What it has to look at is not the bodies, so it has done in milliseconds.
	collectAfter = 256 << 20

	// stepBits: there are 1<<stepBits sizes of memory from one power of two to the
	// next. So at most a ninth of the memory of a body is not used.
	stepBits = 3

	numClasses = (24 - 11) << stepBits // for sizes above 2 KiB, up to largest
)

// Pool makes Buffers, and keeps the memory of those that nobody uses any more for the
// next ones. All methods may be called from any goroutine.
type Pool struct {
	poisoned bool
	inUse    atomic.Int64

	mu   sync.Mutex // guards what follows
	idle [numClasses]class
	size int // bytes that are idle
	left int // bytes that were left to the garbage collector since it was last told to begin
}

// class is idle memory of one size.
type class struct {
	memory [][]byte // what was given back last is used first
	least  int      // how many there were at least since the last Trim
}

// NewPool returns an empty Pool.
func NewPool() *Pool { return &Pool{poisoned: poison} }

// Get returns a Buffer of size bytes with one use. It returns nil if bodies of this size
// have none.
func (p *Pool) Get(size int) *Buffer {
	if size < smallest && !(p.poisoned && size > 0) {
		return nil
	}
	b := &Buffer{pool: p, size: size, memory: p.take(size)}
	p.inUse.Add(1)
	b.uses.Store(1)
	return b
}

// InUse is how many Buffers there are whose last use has not ended. Those that were left
// to the garbage collector count for ever.
func (p *Pool) InUse() int { return int(p.inUse.Load()) }

// take returns memory of size bytes or more.
func (p *Pool) take(size int) []byte {
	if p.poisoned {
		return dirty(make([]byte, size))
	}
	if size < smallest || size > largest {
		return make([]byte, size)
	}
	n, room := classOf(size)
	p.mu.Lock()
	c := &p.idle[n]
	last := len(c.memory) - 1
	if last < 0 {
		p.mu.Unlock()
		return make([]byte, room)
	}
	memory := c.memory[last]
	c.memory[last] = nil
	c.memory = c.memory[:last]
	c.least = min(c.least, last)
	p.size -= room
	p.mu.Unlock()
	return memory
}

// put keeps memory for the next body, if there is room.
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
		p.leave(size)
		return
	}
	n, _ := classOf(size)
	p.size += size
	p.idle[n].memory = append(p.idle[n].memory, memory)
}

// leave counts memory that is left to the garbage collector. The lock is held.
func (p *Pool) leave(size int) {
	if p.left += size; p.left >= collectAfter {
		p.left = 0
		go runtime.GC()
	}
}

// Trim leaves to the garbage collector what was idle ever since the last call. It is
// to be called every second or so.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.idle {
		c := &p.idle[n]
		if c.least > 0 {
			p.size -= c.least * len(c.memory[0])
			p.leave(c.least * len(c.memory[0]))
			c.memory = slices.Clone(c.memory[c.least:])
		}
		c.least = len(c.memory)
	}
}

// classOf returns the number of the class for bodies of that size, and the size of its
// memory. size is from smallest to largest.
func classOf(size int) (number, room int) {
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
