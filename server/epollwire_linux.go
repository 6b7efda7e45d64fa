package server

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"redstalk/protocol"
	"redstalk/server/aio"
	"redstalk/storage"
)

// epollWire is a wire on a descriptor that a loop watches.
type epollWire struct {
	loop *loop
	fd   int
	wake func(submitter)
	full bool // the last read filled the buffer; belongs to the session

	pending atomic.Int64 // bytes in kept, to be read without the lock

	mu      sync.Mutex       // guards what follows; loop.mu may be held when it is taken
	kept    []protocol.Piece // to be sent when there is room; the wire has the uses of the bodies
	later   []protocol.Piece // to be sent with the replies of others, see sends; empty if there is something kept
	copied  []byte           // of later what is no body
	listed  bool             // among those of the loop's sends
	turn    uint64           // of the loop, in which it was woken last
	drained uint64           // bytes that were kept and then sent
	err     error            // of writing, or that it was cut
	eager   bool             // a short read does not mean that the socket is empty
	closed  bool
}

// note takes down what an event of a turn says, and returns whether the session should
// be woken.
func (w *epollWire) note(events uint32, turn uint64) bool {
	const fromClient = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn = turn
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
	if w.mayWait(len(p), 0) {
		w.copied = append(w.copied[:0], p...)
		w.later = append(w.later, protocol.Piece{Bytes: w.copied})
		return len(p), nil
	}
	if w.sendLater(); w.err != nil {
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
	if copied, bodies := sizes(pieces); len(pieces) <= aio.MaxPieces && w.mayWait(copied, bodies) {
		w.wait(pieces)
		return nil
	}
	if w.sendLater(); len(w.kept) == 0 && w.err == nil {
		n, w.err = sendVec(w.fd, pieces)
	}
	if w.err != nil {
		release(pieces)
		return w.err
	}
	w.keep(skip(pieces, n))
	return nil
}

// mayWait returns whether replies may wait to be sent with those of others. The lock is held.
func (w *epollWire) mayWait(copied, bodies int) bool {
	return w.err == nil && copied <= mostCopied && bodies <= mostBodies &&
		len(w.kept)+len(w.later) == 0 && w.loop.sends.take(w)
}

// wait has pieces wait to be sent with the replies of others. The lock is held.
func (w *epollWire) wait(pieces []protocol.Piece) {
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
		w.later = append(w.later, p)
	}
}

// sizes is how many bytes pieces have: those to be copied to keep them, and those of bodies.
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

// keepCopied is the largest memory for copied that a wire keeps for the next time.
const keepCopied = 512

// addLater has to send what waits. The lock is held until that is done.
func (w *epollWire) addLater(to *aio.Sender) {
	if len(w.later) == 1 {
		to.Add(w.fd, w.later[0].Bytes)
		return
	}
	var pieces [aio.MaxPieces][]byte
	for i, p := range w.later {
		pieces[i] = p.Bytes
	}
	to.AddVec(w.fd, pieces[:len(w.later)]...)
}

// sendLater sends now what was to be sent with the replies of others. The lock is held.
func (w *epollWire) sendLater() {
	if len(w.later) > 0 {
		w.sendLaterFrom(0)
	}
}

// sendLaterFrom is sendLater when n bytes are sent already. The lock is held.
func (w *epollWire) sendLaterFrom(n int) {
	rest := skip(w.later, n)
	if len(rest) > 0 {
		n, w.err = sendVec(w.fd, rest)
		rest = skip(rest, n)
	}
	if w.err == nil {
		w.keep(rest)
	} else {
		release(rest)
	}
	w.forgetLater()
}

// forgetLater forgets what was to be sent with the replies of others. It releases no bodies.
// The lock is held.
func (w *epollWire) forgetLater() {
	clear(w.later)
	w.later = w.later[:0]
	if cap(w.copied) > keepCopied {
		w.copied = nil
	}
}

// Kept implements wire.
func (w *epollWire) PendingBytes() int { return int(w.pending.Load()) }

// Push implements wire.
func (w *epollWire) Push() int {
	w.mu.Lock()
	w.sendLater()
	w.mu.Unlock()
	return w.PendingBytes()
}

// Drained implements wire.
func (w *epollWire) Drained() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// Hand implements wire.
func (w *epollWire) Submit(b *storage.Batch) {
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
	w.sendLater()
	return w.err != nil || len(w.kept) == 0 && (unsent(w.fd) == 0 || isReset(w.fd))
}

// Close implements wire.
func (w *epollWire) Close() {
	w.loop.drop(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.sendLater()
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
		release(w.later)
		w.forgetLater()
		w.dropKept()
		syscall.Shutdown(w.fd, syscall.SHUT_RDWR)
	}
	w.mu.Unlock()
	w.wake(w)
}
