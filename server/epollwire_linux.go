package server

import (
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"redstalk/storage"
)

// epollWire is a wire on a descriptor that a loop watches.
type epollWire struct {
	loop *loop
	fd   int
	wake func(outbox)
	full bool // the last read filled the buffer; belongs to the session

	pending atomic.Int64 // len(kept), to be read without the lock

	mu      sync.Mutex // guards what follows; loop.mu may be held when it is taken
	kept    []byte     // to be sent when there is room; changed by keep
	drained uint64     // bytes that were kept and then sent
	err     error      // of writing, or that it was cut
	eager   bool       // a short read does not mean that the socket is empty
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
		w.keep(nil)
		return
	}
	n, err := send(w.fd, w.kept)
	w.drained += uint64(n)
	w.keep(w.kept[n:])
	if err != nil {
		w.err = err
		w.keep(nil)
	}
}

// keep keeps p to be sent later, instead of what was kept so far. The lock is
// held.
func (w *epollWire) keep(p []byte) {
	if len(p) == 0 {
		p = nil
	}
	w.kept = p
	w.pending.Store(int64(len(p)))
}

// Read implements wire. A read that does not fill the buffer has emptied the
// socket: what comes later is a new edge. That is not so for the end of the
// stream, nor does a read go past a byte of urgent data: after either reading
// goes on until nothing is left.
func (w *epollWire) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(w.fd, p)
		w.full = n == len(p)
		switch {
		case n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case err == syscall.EAGAIN:
			return 0, w.whyNothing()
		case err != syscall.EINTR:
			return 0, err
		}
	}
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
		w.keep(append(w.kept, p[n:]...))
	}
	return len(p), nil
}

// WriteVec is Write of several pieces with one system call, which
// protocol.Writer prefers for large bodies.
func (w *epollWire) WriteVec(pieces [][]byte) error {
	w.mu.Lock()
	n := 0
	if len(w.kept) == 0 && w.err == nil {
		n, w.err = sendVec(w.fd, pieces)
	}
	w.mu.Unlock()
	for _, p := range pieces {
		skip := min(n, len(p))
		n -= skip
		if skip == len(p) {
			continue
		}
		if _, err := w.Write(p[skip:]); err != nil {
			return err
		}
	}
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
		w.keep(nil)
		syscall.Close(w.fd)
	}
}

// Cut implements wire.
func (w *epollWire) Cut() {
	w.mu.Lock()
	if !w.closed {
		w.err = errCut
		w.keep(nil)
		syscall.Shutdown(w.fd, syscall.SHUT_RDWR)
	}
	w.mu.Unlock()
	w.wake(w)
}
