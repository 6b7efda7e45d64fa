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

// listener counts the connections of a Door, which are bounded with all others.
type listener struct {
	net.Listener
	door  *Door
	hosts *hostCheck
}

// Accept returns the next connection for which there is room.
func (l *listener) Accept() (net.Conn, error) {
	d := l.door
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !d.config.Bounds.Enter() {
			c.Close()
			d.refused.Warn(d.log, "too many connections; further ones are closed at once", "limit", d.config.Bounds.MaxConnections())
			continue
		}
		d.connections.Add(1)
		mine := &conn{Conn: c, door: d, hosts: l.hosts}
		d.fresh.add(mine)
		return mine, nil
	}
}

// conn is a connection whose client has to read what is written, a part at a time within
// the WriteTimeout. An answer as a whole may take longer.
type conn struct {
	net.Conn
	door  *Door
	hosts *hostCheck
	sent  atomic.Bool  // a request, or the beginning of one
	stop  atomic.Int64 // the write deadline that a handler has set, in Unix nanoseconds; 0: none
	once  sync.Once

	mu    sync.Mutex
	ahead lookahead
	gone  atomic.Bool // the client has closed it while a request waited
}

// writePart is what a client has to read of an answer within the WriteTimeout, in bytes.
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

// limitWrite sets how long the next part may take.
func (c *conn) limitWrite() {
	var stop time.Time
	if limit := c.door.config.WriteTimeout; limit > 0 {
		stop = time.Now().Add(limit)
	}
	if set := c.stop.Load(); set != 0 && (stop.IsZero() || set < stop.UnixNano()) {
		stop = time.Unix(0, set)
	}
	c.Conn.SetWriteDeadline(stop)
}

// SetWriteDeadline holds for the writes to come, beside the WriteTimeout.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.stop.Store(0)
	} else {
		c.stop.Store(t.UnixNano())
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is for both directions.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.door.connections.Add(-1)
		c.door.config.Bounds.Leave()
		c.door.fresh.remove(c)
	})
	return c.Conn.Close()
}

// noteState takes connections out of those that have sent nothing.
func (d *Door) noteState(c net.Conn, state http.ConnState) {
	if mine := connOf(c); mine != nil && state == http.StateActive && mine.sent.CompareAndSwap(false, true) {
		d.fresh.remove(mine)
	}
}

// connOf returns the connection below TLS; nil if it is none of ours.
func connOf(c net.Conn) *conn {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	mine, _ := c.(*conn)
	return mine
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
