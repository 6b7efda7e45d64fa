package body

import "sync/atomic"

// Buffer is the reference-counted memory of one body. Its methods may be called from any
// goroutine. nil is the Buffer of a body that has none; all methods work on it.
type Buffer struct {
	pool   *Pool
	memory []byte // its size is that of a class, or that of the body; nil after the last Release
	size   int    // of the body, in bytes
	refs   atomic.Int32
}

// Bytes returns the memory, with the length that was asked for. A new Buffer is not cleared.
func (b *Buffer) Bytes() []byte {
	if b == nil {
		return nil
	}
	return b.memory[:b.size:b.size]
}

// Retain adds a reference. The caller must have one, or must know that another owner keeps
// one meanwhile.
func (b *Buffer) Retain() {
	if b != nil && b.refs.Add(1) <= 1 && poison {
		panic("body: Retain after the last Release")
	}
}

// Release drops a reference. With the last one the memory can be reused for another body.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	switch refs := b.refs.Add(-1); {
	case refs == 0:
		memory := b.memory
		b.memory, b.size = nil, 0
		b.pool.put(memory)
		b.pool.inUse.Add(-1)
	case refs < 0 && poison:
		panic("body: too many Releases")
	}
}
