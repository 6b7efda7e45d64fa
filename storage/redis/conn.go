package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// conn is a connection to Redis by which something else is done while the
// answer to a call of the script is awaited. The client knows nothing of that:
// to it a read just takes its time.
//
// With the first call the connection of a direct link is taken out of the
// runtime's poller, where there is a way: the goroutine that makes a call has its
// thread wait in the kernel, and no other thread is woken to find out what has
// happened.
//
// The client sets a deadline for a whole answer, and for a whole request. Here it is
// one for progress: it begins anew with every piece. So a large body may take its
// time on a slow line, and a line that is dead is noticed as soon. What was written may
// still be on its way when the answer is awaited, which nobody sees: for a large
// request the first deadline is later by what it takes at slowestLine.
type conn struct {
	net.Conn
	link    *link
	direct  bool // taken out of the poller, if possible
	calling bool // a call was written, and its answer not asked for

	reads, writes atomic.Int64 // how long a piece may take, as a time.Duration; 0: for ever
	written       int          // bytes, since the last read
}

// slowestLine is at what rate a large request is sure to arrive, in bytes a second.
const slowestLine = 1 << 20

// maxPiece is how many bytes are written before the deadline begins anew.
const maxPiece = 64 << 10

// callBegins is how a call of the script begins, behind the number of its
// words.
var callBegins = []byte("\r\n$7\r\nevalsha\r\n")

func callsScript(request []byte) bool {
	return bytes.Contains(request[:min(len(request), 32)], callBegins)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if !c.calling && callsScript(p) {
		c.calling = true
		if c.link.direct && !c.direct {
			c.direct, c.Conn = true, takeOut(c.Conn)
		}
	}
	sent := 0
	for {
		n, err := c.Conn.Write(p[sent:min(len(p), sent+maxPiece)])
		sent += n
		c.written += n
		if err != nil || sent == len(p) {
			return sent, err
		}
		if limit := time.Duration(c.writes.Load()); limit > 0 {
			c.Conn.SetWriteDeadline(time.Now().Add(limit))
		}
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.calling {
		c.calling = false
		if meanwhile := c.link.meanwhile; meanwhile != nil {
			meanwhile()
		}
	}
	limit := time.Duration(c.reads.Load())
	if c.written > maxPiece && limit > 0 {
		onItsWay := time.Duration(c.written) * time.Second / slowestLine
		c.Conn.SetReadDeadline(time.Now().Add(limit + onItsWay))
	}
	c.written = 0
	n, err := c.Conn.Read(p)
	if n > 0 && limit > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(limit))
	}
	return n, err
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

// limitUntil is how long it is until a deadline, 0 if there is none.
func limitUntil(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(time.Until(t), 1)
}

// SyscallConn lets the client's pool find out whether Redis has closed the
// connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }

// dialer returns what makes the connections of o.
func (l *link) dialer(o *goredis.Options) func(context.Context, string, string) (net.Conn, error) {
	plain := net.Dialer{Timeout: o.DialTimeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, link: l}
		if o.TLSConfig == nil {
			return c, nil
		}
		return encrypt(ctx, c, addr, o.TLSConfig)
	}
}

// encrypt makes a connection to a server a TLS one. The name that its
// certificate is to have is that of the host, unless the configuration says
// another one.
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
