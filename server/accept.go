package server

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// backoff spaces out tries of something that fails for lack of resources, so
// that the processor is not kept busy by it.
type backoff struct {
	delay time.Duration
}

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// wait sleeps, longer each time since reset.
func (b *backoff) wait() {
	b.delay = min(max(2*b.delay, backoffMin), backoffMax)
	time.Sleep(b.delay)
}

func (b *backoff) reset() { b.delay = 0 }

// isFull tells whether one connection more would be too many. The lock is
// held.
func (s *Server) isFull() bool {
	limit := s.config.MaxConnections
	return limit > 0 && len(s.sessions) >= limit
}

// refuse closes a connection that is one too many. The client sees the end
// instead of waiting for an answer.
func (s *Server) refuse(conn net.Conn) {
	conn.Close()
	s.refused.Warn(s.log, "too many connections; further ones are closed at once", "limit", s.config.MaxConnections)
}

// isTemporary tells whether accepting may work again later: descriptors or
// memory have run out, or the connection was gone before it was accepted.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EPROTO, syscall.EINTR,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
