package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/server/access"
)

// ServeTLS is Serve for connections with TLS. A handshake that takes longer than
// Config.AuthTimeout is cut, and so are those of which there are too many at a time.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) error {
	return s.serve(l, func(conn net.Conn) {
		if s.handshakes.Add(1) > int64(s.config.MaxUnauthenticated) {
			s.handshakes.Add(-1)
			s.refuse(conn)
			return
		}
		go func() {
			sc, err := s.shakeHands(conn, config)
			s.handshakes.Add(-1)
			if err != nil {
				conn.Close()
				s.noteBadHandshake(conn, err)
				return
			}
			s.admit(sc)
		}()
	})
}

// shakeHands does the handshake of a connection, on the caller's goroutine.
func (s *Server) shakeHands(conn net.Conn, config *tls.Config) (*secureConn, error) {
	ctx, cancel := context.WithTimeout(s.ending, s.config.AuthTimeout)
	defer cancel()
	records := &records{Conn: conn}
	sc := &secureConn{tls.Server(records, config), records}
	if err := sc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return sc, nil
}

// noteBadHandshake logs a handshake that has failed, unless the client just went away.
func (s *Server) noteBadHandshake(conn net.Conn, err error) {
	if !errors.Is(err, io.EOF) && !s.closing.Load() {
		s.shaken.Warn(s.log, "a handshake of TLS has failed", "from", conn.RemoteAddr(), "err", err)
	}
}

// secureConn is a connection with TLS. records is what is below it.
type secureConn struct {
	*tls.Conn
	records *records
}

// certifiedName is the name in the client's certificate, "" if it has none that was
// verified.
func certifiedName(conn net.Conn) string {
	if sc, ok := conn.(*secureConn); ok {
		state := sc.ConnectionState()
		return access.NameOf(&state)
	}
	return ""
}

// records is the connection below TLS. It hands out what it reads record by record, and
// keeps the rest itself: so package tls has never read a record of which its caller does
// not know, and whoever has read all of one knows whether there is more without asking the
// kernel.
//
// Until the handshake is over it blocks; then a wire takes its place, and it does not.
type records struct {
	net.Conn               // before the handshake, and of systems without epoll
	wire     io.ReadWriter // one that does not block; nil: Conn

	// news says that the wire has woken its session and was not read since. A Read that was
	// served by buf asks no kernel: what came in the meantime raises no event again.
	news atomic.Bool

	buf    *[recordBuffer]byte // from recordBuffers while bytes are in it, else nil
	lo, hi int                 // buf[lo:hi] was read and not handed out

	header  [5]byte
	has     int // bytes of the header that were handed out
	payload int // bytes of the record that were not
}

// recordBuffer is how much is read at a time: a record of the largest size fits.
const recordBuffer = 17 << 10

var recordBuffers = sync.Pool{New: func() any { return new([recordBuffer]byte) }}

// wouldBlock is errNothing as package tls has to see it: an error after which reading can
// go on.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return errNothing.Error() }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

// Read implements net.Conn. It goes up to the end of a header or of a record at most.
func (r *records) Read(p []byte) (int, error) {
	if r.hi == r.lo {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	b := r.buf[r.lo:r.hi]
	var n int
	if r.payload > 0 {
		n = copy(p, b[:min(len(b), r.payload)])
		r.payload -= n
	} else {
		n = copy(p, b[:min(len(b), len(r.header)-r.has)])
		r.has += copy(r.header[r.has:], b[:n])
		if r.has == len(r.header) {
			r.payload, r.has = int(r.header[3])<<8|int(r.header[4]), 0
		}
	}
	if r.lo += n; r.lo == r.hi {
		r.empty()
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
		r.news.Store(false)
		if n, err = r.wire.Read(r.buf[:]); err == errNothing {
			err = wouldBlock{}
		}
	}
	if r.hi = n; n == 0 {
		r.empty()
		if err == nil {
			err = io.ErrNoProgress
		}
		return err
	}
	return nil // an error that came with bytes comes again
}

func (r *records) empty() {
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

// SetDeadline and the like have no effect once nothing blocks.
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
