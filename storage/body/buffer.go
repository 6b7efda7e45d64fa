package body

import "sync/atomic"

// Buffer is the memory of one body. Its methods may be called from any goroutine, and
// on nil, which is the Buffer of a body that has none.
type Buffer struct {
	pool   *Pool
	memory []byte // its size is that of a class, or the body's; nil after the last Release
	size   int    // of the body, in bytes
	uses   atomic.Int32
}

// Bytes is the memory, whose length is what was asked for. It is dirty at first.
func (b *Buffer) Bytes() []byte {
	if b == nil {
		return nil
	}
	return b.memory[:b.size:b.size]
}

// Retain adds a use. The caller must have one, or know somebody who keeps one for that
// long.
func (b *Buffer) Retain() {
	if b != nil && b.uses.Add(1) <= 1 && poison {
		panic("body: a Buffer is retained after its last use has ended")
	}
}

// Release ends a use. With the last one the memory may be used for another body.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	switch left := b.uses.Add(-1); {
	case left == 0:
		memory := b.memory
		b.memory, b.size = nil, 0
		b.pool.put(memory)
		b.pool.inUse.Add(-1)
	case left < 0 && poison:
		panic("body: a Buffer is released more often than it was used")
	}
}
