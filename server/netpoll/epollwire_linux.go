package netpoll

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"redstalk/protocol"
	"redstalk/storage"
)

// epollWire is a Wire on a descriptor that a loop watches.
type epollWire struct {
	loop *loop
	fd   int
	wake func(Submitter)
	full bool // the last read filled the buffer; belongs to the session

	pending atomic.Int64 // bytes in buffered, for readers without the lock

	mu        sync.Mutex       // guards what follows; loop.mu may be held when it is taken
	buffered  []protocol.Piece // to be sent when the socket has room; the wire releases the bodies
	deferred  []protocol.Piece // to be sent with the replies of other wires, see batchedSends; empty if buffered is not
	copied    []byte           // memory of the pieces of deferred that are no bodies
	listed    bool             // in the list of the loop's batchedSends
	iteration uint64           // the loop's last iteration in which an event concerned this wire
	drained   uint64           // bytes that were buffered and then sent
	err       error            // of writing, or errAborted
	readOn    bool             // a short read does not mean that the socket is empty
	closed    bool
}

// handleEvents notes what the events of an iteration say. It reports whether the session should
// be woken.
func (w *epollWire) handleEvents(events uint32, iteration uint64) bool {
	const fromClient = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	w.mu.Lock()
	defer w.mu.Unlock()
	w.iteration = iteration
	if events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR|syscall.EPOLLPRI) != 0 {
		w.readOn = true
	}
	blocked := len(w.buffered) > 0
	if blocked {
		w.drain()
	}
	return events&fromClient != 0 || blocked && len(w.buffered) == 0
}

// drain sends buffered bytes. The lock is held.
func (w *epollWire) drain() {
	if w.closed || w.err != nil {
		w.dropBuffered()
		return
	}
	n, err := sendVec(w.fd, w.buffered)
	w.drained += uint64(n)
	w.pending.Add(-int64(n))
	w.buffered = skip(w.buffered, n)
	if w.err = err; err != nil || len(w.buffered) == 0 {
		w.dropBuffered()
	}
}

// buffer buffers pieces, to be sent later. It copies those that are no bodies. The lock is held.
func (w *epollWire) buffer(pieces []protocol.Piece) {
	for _, p := range pieces {
		if len(p.Bytes) == 0 {
			p.Release()
			continue
		}
		w.pending.Add(int64(len(p.Bytes)))
		if p.Body {
			w.buffered = append(w.buffered, p)
		} else {
			w.bufferCopy(p.Bytes)
		}
	}
}

// bufferCopy buffers a copy of p, in one piece with the copy before it. The lock is held.
func (w *epollWire) bufferCopy(p []byte) {
	if last := len(w.buffered) - 1; last >= 0 && !w.buffered[last].Body {
		w.buffered[last].Bytes = append(w.buffered[last].Bytes, p...)
		return
	}
	w.buffered = append(w.buffered, protocol.Piece{Bytes: bytes.Clone(p)})
}

// dropBuffered discards the buffered bytes. The lock is held.
func (w *epollWire) dropBuffered() {
	release(w.buffered)
	w.buffered = nil
	w.pending.Store(0)
}

// skip releases the pieces within the first n bytes, and returns the rest.
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

// Read implements Wire. A read that does not fill the buffer has emptied the socket, and bytes
// that come later raise a new event. There are two exceptions: the end of the stream, and urgent
// data, before which a read stops. After an event for either, Readable stays true until a read
// finds nothing.
func (w *epollWire) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(w.fd, p)
		w.full = n == len(p)
		if err != syscall.EINTR {
			return w.readResult(n, err)
		}
	}
}

// ReadVec implements protocol.VecReader.
func (w *epollWire) ReadVec(pieces [][]byte) (int, error) {
	for {
		n, full, err := receiveVec(w.fd, pieces)
		w.full = full
		if err != syscall.EINTR {
			return w.readResult(n, err)
		}
	}
}

// readResult translates the result of a system call into that of Read.
func (w *epollWire) readResult(n int, err error) (int, error) {
	switch {
	case n > 0:
		return n, nil
	case err == nil:
		return 0, io.EOF
	case err == syscall.EAGAIN:
		return 0, w.noDataError()
	}
	return 0, err
}

func (w *epollWire) noDataError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return ErrNoData
}

// Readable implements Wire.
func (w *epollWire) Readable() bool {
	if w.full {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readOn || w.err != nil
}

// Write implements Wire.
func (w *epollWire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.canDefer(len(p), 0) {
		w.copied = append(w.copied[:0], p...)
		w.deferred = append(w.deferred, protocol.Piece{Bytes: w.copied})
		return len(p), nil
	}
	if w.sendDeferred(); w.err != nil {
		return 0, w.err
	}
	n := 0
	if len(w.buffered) == 0 {
		if n, w.err = send(w.fd, p); w.err != nil {
			return n, w.err
		}
	}
	if n < len(p) {
		w.pending.Add(int64(len(p) - n))
		w.bufferCopy(p[n:])
	}
	return len(p), nil
}

// WriteVec implements protocol.VecWriter. Bodies that cannot be sent at once are not copied:
// the wire releases them when they have been sent, or when it is certain that they will not be.
func (w *epollWire) WriteVec(pieces []protocol.Piece) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	if copied, bodies := sizes(pieces); len(pieces) <= MaxPieces && w.canDefer(copied, bodies) {
		w.deferPieces(pieces)
		return nil
	}
	if w.sendDeferred(); len(w.buffered) == 0 && w.err == nil {
		n, w.err = sendVec(w.fd, pieces)
	}
	if w.err != nil {
		release(pieces)
		return w.err
	}
	w.buffer(skip(pieces, n))
	return nil
}

// canDefer reports whether a reply of these sizes can be deferred, to be sent with the replies of
// other wires. The lock is held.
func (w *epollWire) canDefer(copied, bodies int) bool {
	return w.err == nil && copied <= maxDeferredCopy && bodies <= maxDeferredBodies &&
		len(w.buffered)+len(w.deferred) == 0 && w.loop.sends.accepts(w)
}

// deferPieces defers pieces, to be sent with the replies of other wires. It copies those that
// are no bodies. The lock is held.
func (w *epollWire) deferPieces(pieces []protocol.Piece) {
	w.copied = w.copied[:0]
	for _, p := range pieces {
		if !p.Body {
			w.copied = append(w.copied, p.Bytes...)
		}
	}
	rest := w.copied
	for _, p := range pieces {
		if !p.Body {
			p.Bytes, rest = rest[:len(p.Bytes)], rest[len(p.Bytes):]
		}
		w.deferred = append(w.deferred, p)
	}
}

// sizes returns how many bytes of pieces have to be copied to keep them, and how many are bodies.
func sizes(pieces []protocol.Piece) (copied, bodies int) {
	for i := range pieces {
		if n := len(pieces[i].Bytes); pieces[i].Body {
			bodies += n
		} else {
			copied += n
		}
	}
	return copied, bodies
}

// maxIdleCopied is the largest capacity of copied that a wire keeps for the next reply.
const maxIdleCopied = 512

// addDeferred adds the deferred pieces to a Sender. The caller holds the lock until they have
// been sent.
func (w *epollWire) addDeferred(to *Sender) {
	if len(w.deferred) == 1 {
		to.Add(w.fd, w.deferred[0].Bytes)
		return
	}
	var pieces [MaxPieces][]byte
	for i, p := range w.deferred {
		pieces[i] = p.Bytes
	}
	to.AddVec(w.fd, pieces[:len(w.deferred)]...)
}

// sendDeferred sends the deferred pieces now. The lock is held.
func (w *epollWire) sendDeferred() {
	if len(w.deferred) > 0 {
		w.sendDeferredFrom(0)
	}
}

// sendDeferredFrom is sendDeferred when n bytes have been sent already. The lock is held.
func (w *epollWire) sendDeferredFrom(n int) {
	rest := skip(w.deferred, n)
	if len(rest) > 0 {
		n, w.err = sendVec(w.fd, rest)
		rest = skip(rest, n)
	}
	if w.err == nil {
		w.buffer(rest)
	} else {
		release(rest)
	}
	w.clearDeferred()
}

// clearDeferred empties deferred without releasing bodies. The lock is held.
func (w *epollWire) clearDeferred() {
	clear(w.deferred)
	w.deferred = w.deferred[:0]
	if cap(w.copied) > maxIdleCopied {
		w.copied = nil
	}
}

// PendingBytes implements Wire.
func (w *epollWire) PendingBytes() int { return int(w.pending.Load()) }

// Flush implements Wire.
func (w *epollWire) Flush() int {
	w.mu.Lock()
	w.sendDeferred()
	w.mu.Unlock()
	return w.PendingBytes()
}

// Drained implements Wire.
func (w *epollWire) Drained() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// Submit implements Submitter.
func (w *epollWire) Submit(b *storage.Batch) {
	w.loop.request(func() { w.loop.batches = append(w.loop.batches, b) })
}

// WakeLater implements Wire.
func (w *epollWire) WakeLater() {
	w.loop.request(func() { w.loop.wakeNext = append(w.loop.wakeNext, w) })
}

// maxDiscard is how many bytes one call of Delivered discards at most.
const maxDiscard = 16 << 10

// Delivered implements Wire.
func (w *epollWire) Delivered() bool {
	var discarded [maxDiscard]byte
	n, err := syscall.Read(w.fd, discarded[:])
	if n < 0 && err != syscall.EAGAIN && err != syscall.EINTR {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendDeferred()
	return w.err != nil || len(w.buffered) == 0 && (unsent(w.fd) == 0 || isReset(w.fd))
}

// Close implements Wire.
func (w *epollWire) Close() {
	w.loop.drop(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.sendDeferred()
		w.closed = true
		w.dropBuffered()
		syscall.Close(w.fd)
	}
}

// Abort implements Wire.
func (w *epollWire) Abort() {
	w.mu.Lock()
	if !w.closed {
		w.err = errAborted
		release(w.deferred)
		w.clearDeferred()
		w.dropBuffered()
		syscall.Shutdown(w.fd, syscall.SHUT_RDWR)
	}
	w.mu.Unlock()
	w.wake(w)
}
