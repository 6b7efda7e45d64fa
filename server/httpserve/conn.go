package httpserve

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// listener counts the connections of a Server, which are limited together with all others.
type listener struct {
	net.Listener
	srv   *Server
	hosts *hostCheck
}

// Accept returns the next connection that is within the limit.
func (l *listener) Accept() (net.Conn, error) {
	d := l.srv
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !d.config.Limits.EnterHTTP() {
			c.Close()
			d.refused.Warn(d.log, "too many connections; further ones are closed at once", "limit", d.config.Limits.MaxConnections())
			continue
		}
		d.connections.Add(1)
		counted := &conn{Conn: c, srv: d, hosts: l.hosts}
		d.fresh.add(counted)
		return counted, nil
	}
}

// conn is a connection whose client must read what is written, part by part, each within the
// WriteTimeout. A whole answer can take longer.
type conn struct {
	net.Conn
	srv   *Server
	hosts *hostCheck
	sent  atomic.Bool  // the client has sent a request, or the beginning of one
	stop  atomic.Int64 // the write deadline that a handler has set, in Unix nanoseconds; 0: none
	once  sync.Once

	mu    sync.Mutex
	ahead readAheadState
	gone  atomic.Bool // the client has closed it while a request waited

	streams streams // only with HTTP/2
}

// writePart is how much of an answer a client must read within the WriteTimeout, in bytes.
const writePart = 64 << 10

func (c *conn) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+writePart)]
		c.limitWrite()
		m, err := c.Conn.Write(part)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// limitWrite sets the deadline of the next part.
func (c *conn) limitWrite() {
	var stop time.Time
	if limit := c.srv.config.WriteTimeout; limit > 0 {
		stop = time.Now().Add(limit)
	}
	if set := c.stop.Load(); set != 0 && (stop.IsZero() || set < stop.UnixNano()) {
		stop = time.Unix(0, set)
	}
	c.Conn.SetWriteDeadline(stop)
}

// SetWriteDeadline applies to later writes, in addition to the WriteTimeout.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.stop.Store(0)
	} else {
		c.stop.Store(t.UnixNano())
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.srv.connections.Add(-1)
		c.srv.config.Limits.Leave()
		c.srv.fresh.remove(c)
		c.closeStreams()
	})
	return c.Conn.Close()
}

// stateChanged removes connections that have sent something from the fresh ones.
func (d *Server) stateChanged(c net.Conn, state http.ConnState) {
	if counted := connOf(c); counted != nil && state == http.StateActive && counted.sent.CompareAndSwap(false, true) {
		d.fresh.remove(counted)
	}
}

// connOf returns the connection below TLS; nil if it is not one of this package.
func connOf(c net.Conn) *conn {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	counted, _ := c.(*conn)
	return counted
}

// conns is a set of connections.
type conns struct {
	mu  sync.Mutex
	all map[*conn]struct{}
}

func (s *conns) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*conn]struct{})
	}
	s.all[c] = struct{}{}
}

func (s *conns) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

// closeAll closes the connections: net/http would wait for the first request of each.
func (s *conns) closeAll() {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for c := range all {
		c.Close()
	}
}
