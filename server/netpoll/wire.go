package netpoll

import (
	"errors"
	"io"
	"net"

	"redstalk/storage"
)

// Wire is the bytes of one connection as its session sees them. No method blocks.
// The wire wakes its session whenever something may have changed: bytes or the end of
// the stream have come, or buffered bytes were sent.
//
// Only the goroutine that runs the session calls the methods, except Drained and WakeLater.
type Wire interface {
	// Reader reads bytes that have come. Read returns ErrNoData if there are none.
	io.Reader

	// Writer accepts all of p. It buffers what cannot be sent at once.
	io.Writer

	// Submitter submits a batch to the store soon, and not within the call.
	Submitter

	// Readable reports whether another Read may find something before the session
	// is woken again.
	Readable() bool

	// PendingBytes returns how many bytes are buffered because the client does not
	// read. It is 0 after an error, which the next Write returns.
	PendingBytes() int

	// Flush sends at once the replies that were deferred to the end of the loop
	// iteration, and then returns PendingBytes.
	Flush() int

	// Drained returns how many buffered bytes have been sent since the connection began.
	Drained() uint64

	// WakeLater wakes the session again after other sessions have had a chance to run.
	WakeLater()

	// Delivered discards the bytes that have come. It reports whether the client has
	// received everything that was written, or never will. A change of that wakes
	// nobody.
	Delivered() bool

	// Close ends the connection. Buffered bytes are lost, and bytes that were sent but
	// not received can be lost too.
	Close()

	// Abort makes every later Read and Write fail, and wakes the session. Unlike Close
	// it leaves it to the session to end the connection.
	Abort()
}

// Submitter passes a batch to the store soon, and not within the call. It is a loop
// iteration or a Wire.
type Submitter interface {
	Submit(*storage.Batch)
}

// ErrNoData is returned by Read when no bytes have come.
var ErrNoData = errors.New("no data has come")

// errAborted is returned by Read and Write after Abort.
var errAborted = errors.New("the connection was aborted")

// NewWire makes a wire of a connection. A loop watches it if conn has a file descriptor that
// epoll can watch; otherwise it is a pump, with goroutines of its own. The caller must not use
// conn any more. The wire calls wake with the Submitter that the session has to use: the
// current loop iteration, an iteration of the pump, or the wire itself.
func (p *Poller) NewWire(conn net.Conn, wake func(Submitter)) Wire {
	if sc, ok := conn.(*TLSConn); ok {
		if w := p.adoptTLS(sc, wake); w != nil {
			return w
		}
	} else if w := p.adopt(conn, wake); w != nil {
		return w
	}
	return newPump(conn, p.queue, wake)
}
