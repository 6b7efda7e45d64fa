package server

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"redstalk/protocol"
	"redstalk/storage"
)

// epollWire is a wire on a descriptor that a loop watches.
type epollWire struct {
	loop *loop
	fd   int
	wake func(outbox)
	full bool // the last read filled the buffer; belongs to the session

	pending atomic.Int64 // bytes in kept, to be read without the lock

	mu      sync.Mutex       // guards what follows; loop.mu may be held when it is taken
	kept    []protocol.Piece // to be sent when there is room; the wire has the uses of the bodies
	drained uint64           // bytes that were kept and then sent
	err     error            // of writing, or that it was cut
	eager   bool             // a short read does not mean that the socket is empty
	closed  bool
}

// note takes down what an event says, and returns whether the session should
// be woken.
func (w *epollWire) note(events uint32) bool {
	const fromClient = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	w.mu.Lock()
	defer w.mu.Unlock()
	if events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR|syscall.EPOLLPRI) != 0 {
		w.eager = true
	}
	waiting := len(w.kept) > 0
	if waiting {
		w.drain()
	}
	return events&fromClient != 0 || waiting && len(w.kept) == 0
}

// drain sends what was kept back. The lock is held.
func (w *epollWire) drain() {
	if w.closed || w.err != nil {
		w.dropKept()
		return
	}
	n, err := sendVec(w.fd, w.kept)
	w.drained += uint64(n)
	w.pending.Add(-int64(n))
	w.kept = skip(w.kept, n)
	if w.err = err; err != nil || len(w.kept) == 0 {
		w.dropKept()
	}
}

// keep keeps what is left of pieces, to be sent later. It copies what is no body. The
// lock is held.
func (w *epollWire) keep(pieces []protocol.Piece) {
	for _, p := range pieces {
		if len(p.Bytes) == 0 {
			p.Release()
			continue
		}
		w.pending.Add(int64(len(p.Bytes)))
		if p.Body {
			w.kept = append(w.kept, p)
		} else {
			w.keepCopy(p.Bytes)
		}
	}
}

// keepCopy keeps a copy of p, in one piece with the copy before it. The lock is held.
func (w *epollWire) keepCopy(p []byte) {
	if last := len(w.kept) - 1; last >= 0 && !w.kept[last].Body {
		w.kept[last].Bytes = append(w.kept[last].Bytes, p...)
		return
	}
	w.kept = append(w.kept, protocol.Piece{Bytes: bytes.Clone(p)})
}

// dropKept forgets what is kept. The lock is held.
func (w *epollWire) dropKept() {
	release(w.kept)
	w.kept = nil
	w.pending.Store(0)
}

// skip releases the pieces that the first n bytes are, and returns the others.
func skip(pieces []protocol.Piece, n int) []protocol.Piece {
	for len(pieces) > 0 && len(pieces[0].Bytes) <= n {
		n -= len(pieces[0].Bytes)
		pieces[0].Release()
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0].Bytes = pieces[0].Bytes[n:]
	}
	return pieces
}

func release(pieces []protocol.Piece) {
	for i := range pieces {
		pieces[i].Release()
	}
}

// Read implements wire. A read that does not fill the buffer has emptied the
// socket: what comes later is a new edge. That is not so for the end of the
// stream, nor does a read go past a byte of urgent data: after either reading
// goes on until nothing is left.
func (w *epollWire) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(w.fd, p)
		w.full = n == len(p)
		if err != syscall.EINTR {
			return w.hasRead(n, err)
		}
	}
}

// ReadVec implements protocol.VecReader.
func (w *epollWire) ReadVec(pieces [][]byte) (int, error) {
	for {
		n, full, err := receiveVec(w.fd, pieces)
		w.full = full
		if err != syscall.EINTR {
			return w.hasRead(n, err)
		}
	}
}

// hasRead makes of what a system call has returned what Read returns.
func (w *epollWire) hasRead(n int, err error) (int, error) {
	switch {
	case n > 0:
		return n, nil
	case err == nil:
		return 0, io.EOF
	case err == syscall.EAGAIN:
		return 0, w.whyNothing()
	}
	return 0, err
}

func (w *epollWire) whyNothing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return errNothing
}

// More implements wire.
func (w *epollWire) More() bool {
	if w.full {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.eager || w.err != nil
}

// Write implements wire.
func (w *epollWire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	n := 0
	if len(w.kept) == 0 {
		if n, w.err = send(w.fd, p); w.err != nil {
			return n, w.err
		}
	}
	if n < len(p) {
		w.pending.Add(int64(len(p) - n))
		w.keepCopy(p[n:])
	}
	return len(p), nil
}

// WriteVec implements protocol.VecWriter. Bodies that cannot be sent at once are not
// copied: the wire releases them when they are sent, or never will be.
func (w *epollWire) WriteVec(pieces []protocol.Piece) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	if len(w.kept) == 0 && w.err == nil {
		n, w.err = sendVec(w.fd, pieces)
	}
	if w.err != nil {
		release(pieces)
		return w.err
	}
	w.keep(skip(pieces, n))
	return nil
}

// Kept implements wire.
func (w *epollWire) Kept() int { return int(w.pending.Load()) }

// Drained implements wire.
func (w *epollWire) Drained() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// Hand implements wire.
func (w *epollWire) Hand(b *storage.Batch) {
	w.loop.ask(func() { w.loop.batches = append(w.loop.batches, b) })
}

// Again implements wire.
func (w *epollWire) Again() {
	w.loop.ask(func() { w.loop.again = append(w.loop.again, w) })
}

// maxDiscard is how much Delivered throws away at a time.
const maxDiscard = 16 << 10

// Delivered implements wire.
func (w *epollWire) Delivered() bool {
	var discarded [maxDiscard]byte
	n, err := syscall.Read(w.fd, discarded[:])
	if n < 0 && err != syscall.EAGAIN && err != syscall.EINTR {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil || len(w.kept) == 0 && (unsent(w.fd) == 0 || isReset(w.fd))
}

// Close implements wire.
func (w *epollWire) Close() {
	w.loop.drop(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.dropKept()
		syscall.Close(w.fd)
	}
}

// Cut implements wire.
func (w *epollWire) Cut() {
	w.mu.Lock()
	if !w.closed {
		w.err = errCut
		w.dropKept()
		syscall.Shutdown(w.fd, syscall.SHUT_RDWR)
	}
	w.mu.Unlock()
	w.wake(w)
}
