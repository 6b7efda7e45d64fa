package httpserve

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// An HTTP/2 client can begin a request, and take it back, for a few bytes. net/http limits the
// requests of a connection only, and forgets those that were taken back although their
// handlers run. So a connection is read no further while its requests, or those of all
// connections together, are too many. If that lasts, it is closed.

// The limits of HTTP/2.
const (
	MaxStreams    = 100 // concurrent requests of a connection
	MaxAllStreams = 512 // of all connections; an address gets no more than are free then

	maxHeaderH2   = 16 << 10  // header of a request, in bytes
	maxStreamData = 64 << 10  // received and not read yet, of a request, in bytes
	maxConnData   = 256 << 10 // of a connection

	maxStreamsWait  = 5 * time.Second       // how long a connection waits for room, about
	maxStreamsPause = 64 * time.Millisecond // between two looks whether there is room
)

var errStreams = errors.New("too many requests at once")

// enableHTTP2 turns on HTTP/2, within its limits.
func (d *Server) enableHTTP2() {
	d.server.Protocols.SetUnencryptedHTTP2(true)
	d.server.MaxHeaderBytes = maxHeaderH2
	d.server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: MaxStreams, MaxReceiveBufferPerStream: maxStreamData, MaxReceiveBufferPerConnection: maxConnData,
		SendPingTimeout: time.Minute,
	}
}

// streams are the requests of an HTTP/2 connection that have begun and not ended.
type streams struct {
	frames frames // of the goroutine that reads

	mu      sync.Mutex // guards the fields below
	begun   int        // requests that count, running ones included
	running int        // requests whose handler runs
	closed  bool
}

// admitStreams waits until there is room for all requests that begin in p, which was read. It
// returns what Read returns.
func (c *conn) admitStreams(p []byte) (int, error) {
	n, began := c.streams.frames.requestsIn(p), time.Now()
	for pause := time.Millisecond; !c.beginStreams(n); pause = min(2*pause, maxStreamsPause) {
		if time.Since(began) > maxStreamsWait {
			c.srv.refused.Warn(c.srv.log, "connections with too many requests at once over HTTP/2 were closed", "limit", MaxStreams, "all", MaxAllStreams)
			return 0, errStreams
		}
		time.Sleep(pause)
	}
	return len(p), nil
}

// beginStreams counts n requests, if there is room. While a connection waits it has none of them, or others
// that also have a part would wait for it.
func (c *conn) beginStreams(n int) bool {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n == 0 || s.closed:
	case s.begun+n > MaxStreams || !c.srv.streams.AcquireAll(c.address(), n):
		return false
	default:
		s.begun += n
	}
	return true
}

// runStream reports whether the handler of a request is to run. If so, endStream follows.
func (c *conn) runStream() bool {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running++
	}
	return !s.closed
}

func (c *conn) endStream() {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.begun--
	c.srv.streams.Release(c.address())
}

// closeStreams ends the counting of requests that have no handler: the connection is closed.
func (c *conn) closeStreams() {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for ; s.begun > s.running; s.begun-- {
		c.srv.streams.Release(c.address())
	}
}

// address is the client's, without the port.
func (c *conn) address() string { return hostOf(c.RemoteAddr().String()) }
