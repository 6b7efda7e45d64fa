package netpoll

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// TLSConn is a server's connection with TLS whose handshake is complete. NewWire can watch
// it with epoll.
type TLSConn struct {
	*tls.Conn
	records *records // what is below TLS
}

// Handshake performs the server's TLS handshake on conn, in the caller's goroutine. If it
// fails, conn stays open.
func Handshake(ctx context.Context, conn net.Conn, config *tls.Config) (*TLSConn, error) {
	records := &records{Conn: conn}
	sc := &TLSConn{tls.Server(records, config), records}
	if err := sc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return sc, nil
}

// records is the connection below TLS. It returns the bytes that it reads record by record,
// and keeps the rest itself. So package tls never holds a record of which its caller does
// not know, and a caller that has read all of one record knows whether there is more without
// a system call.
//
// It blocks until the handshake is complete. Then a wire replaces the connection, and it does
// not block any more.
type records struct {
	net.Conn               // used during the handshake, and always on systems without epoll
	wire     io.ReadWriter // does not block; nil: Conn is used

	// unreadEvent says that the wire has woken its session and was not read since. A Read
	// that is served from buf makes no system call: bytes that came in the meantime raise
	// no further event.
	unreadEvent atomic.Bool

	buf    *[recordBuffer]byte // from recordBuffers while it holds bytes, else nil
	lo, hi int                 // buf[lo:hi] was read and not returned

	header      [5]byte
	headerRead  int // bytes of the header that were returned
	payloadLeft int // bytes of the record that were not returned
}

// recordBuffer is how many bytes are read at a time: a record of the largest size fits.
const recordBuffer = 17 << 10

var recordBuffers = sync.Pool{New: func() any { return new([recordBuffer]byte) }}

// wouldBlock is ErrNoData in the form that package tls needs: an error after which reading
// can continue.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return ErrNoData.Error() }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

// Read implements net.Conn. It reads up to the end of a header or of a record at most.
func (r *records) Read(p []byte) (int, error) {
	if r.hi == r.lo {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	b := r.buf[r.lo:r.hi]
	var n int
	if r.payloadLeft > 0 {
		n = copy(p, b[:min(len(b), r.payloadLeft)])
		r.payloadLeft -= n
	} else {
		n = copy(p, b[:min(len(b), len(r.header)-r.headerRead)])
		r.headerRead += copy(r.header[r.headerRead:], b[:n])
		if r.headerRead == len(r.header) {
			r.payloadLeft, r.headerRead = int(r.header[3])<<8|int(r.header[4]), 0
		}
	}
	if r.lo += n; r.lo == r.hi {
		r.releaseBuffer()
	}
	return n, nil
}

// fill reads once.
func (r *records) fill() error {
	r.buf, r.lo, r.hi = recordBuffers.Get().(*[recordBuffer]byte), 0, 0
	n, err := 0, error(nil)
	if r.wire == nil {
		n, err = r.Conn.Read(r.buf[:])
	} else {
		r.unreadEvent.Store(false)
		if n, err = r.wire.Read(r.buf[:]); err == ErrNoData {
			err = wouldBlock{}
		}
	}
	if r.hi = n; n == 0 {
		r.releaseBuffer()
		if err == nil {
			err = io.ErrNoProgress
		}
		return err
	}
	return nil // the next read returns again an error that came with bytes
}

func (r *records) releaseBuffer() {
	recordBuffers.Put(r.buf)
	r.buf, r.lo, r.hi = nil, 0, 0
}

// Write implements net.Conn.
func (r *records) Write(p []byte) (int, error) {
	if r.wire == nil {
		return r.Conn.Write(p)
	}
	return r.wire.Write(p)
}

// SetDeadline has no effect once nothing blocks. The same is true of SetReadDeadline and
// SetWriteDeadline.
func (r *records) SetDeadline(t time.Time) error {
	if r.wire == nil {
		return r.Conn.SetDeadline(t)
	}
	return nil
}

func (r *records) SetReadDeadline(t time.Time) error {
	if r.wire == nil {
		return r.Conn.SetReadDeadline(t)
	}
	return nil
}

func (r *records) SetWriteDeadline(t time.Time) error {
	if r.wire == nil {
		return r.Conn.SetWriteDeadline(t)
	}
	return nil
}
