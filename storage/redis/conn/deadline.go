package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a connection to Redis with deadlines for progress. go-redis and socket.go set one
// deadline for a whole reply or request. Here it starts again with every piece, so that a large
// body can take its time on a slow line, while a dead line is noticed as soon. What was written
// can still be in transit when the reply is awaited, which is invisible here: after a large
// request the first deadline is later by its transfer time at slowestLine.
type conn struct {
	net.Conn

	reads, writes atomic.Int64 // time limit of a piece, as a time.Duration; 0: none
	sent          atomic.Int64 // bytes
	awaited       int64        // how many of these had been sent at the last read
	arrival       time.Time    // when these have certainly arrived, see slowestLine
	closed        atomic.Bool

	dialed  time.Time
	retirer *retirer // of the pool; nil if there is none
}

// slowestLine is the assumed minimum rate of a large request, in bytes per second.
const slowestLine = 1 << 20

// maxPiece is how many bytes are written before the deadline starts again.
const maxPiece = 64 << 10

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.retirer.retired(c) {
		return 0, c.retirer.retiredError()
	}
	sent := 0
	for {
		n, err := c.Conn.Write(p[sent:min(len(p), sent+maxPiece)])
		sent += n
		c.sent.Add(int64(n))
		if err != nil || sent == len(p) {
			return sent, err
		}
		c.prolongWrites()
	}
}

// someWriter writes as much of some pieces as possible at once, at least one byte.
type someWriter interface {
	writeSome(pieces [][]byte) (int, error)
}

// WriteVec implements vecWriter.
func (c *conn) WriteVec(pieces [][]byte) (sent int, err error) {
	to, ok := c.Conn.(someWriter)
	for len(pieces) > 0 && err == nil {
		n := 0
		if ok {
			n, err = to.writeSome(pieces)
			c.sent.Add(int64(n))
		} else {
			n, err = c.Write(pieces[0])
		}
		sent += n
		if pieces = unwritten(pieces, n); len(pieces) > 0 {
			c.prolongWrites()
		}
	}
	return sent, err
}

// prolongWrites starts the deadline for writing again.
func (c *conn) prolongWrites() {
	if limit := time.Duration(c.writes.Load()); limit > 0 {
		c.Conn.SetWriteDeadline(time.Now().Add(limit))
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	limit := time.Duration(c.reads.Load())
	if c.noteSent(); limit > 0 && !c.arrival.IsZero() {
		if now := time.Now(); now.Before(c.arrival) {
			c.Conn.SetReadDeadline(c.arrival.Add(limit))
		} else {
			c.arrival = time.Time{}
		}
	}
	n, err := c.Conn.Read(p)
	if n > 0 && limit > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(limit))
	}
	return n, err
}

// noteSent computes when what was written since the last read has certainly arrived, if that is
// much. Several replies can be read until then.
func (c *conn) noteSent() {
	sent := c.sent.Load()
	if written := sent - c.awaited; written > maxPiece {
		begun := time.Now()
		if c.arrival.After(begun) {
			begun = c.arrival
		}
		c.arrival = begun.Add(time.Duration(written) * time.Second / slowestLine)
	}
	c.awaited = sent
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn, see conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.reads.Store(int64(limitUntil(t)))
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn, see conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writes.Store(int64(limitUntil(t)))
	return c.Conn.SetWriteDeadline(t)
}

// limitUntil returns how long it is until a deadline, 0 if there is none.
func limitUntil(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(time.Until(t), 1)
}

// SyscallConn lets go-redis find out whether Redis has closed the connection. A retired
// connection counts as closed.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.retirer.retired(c) {
		return nil, c.retirer.retiredError()
	}
	return c.Conn.(syscall.Conn).SyscallConn()
}

// dialer returns the function that dials connections to an address.
func dialer(a *Address) func(context.Context, string, string) (net.Conn, error) {
	plain := net.Dialer{Timeout: a.options.DialTimeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw}
		if a.certificates == nil {
			return c, nil
		}
		return encrypt(ctx, c, addr, a.certificates.current())
	}
}

// encrypt does the TLS handshake of a connection to a server. Its certificate must have the
// name of the host, unless the configuration names another one.
func encrypt(ctx context.Context, c net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	encrypted := tls.Client(c, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return encrypted, nil
}
