package server

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// backoff spaces out tries of something that fails for lack of resources, so
// that neither the processor nor the log is flooded.
type backoff struct {
	delay time.Duration
	flood flood
}

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// wait sleeps, longer each time since reset. It returns whether the failures
// have only just begun; a success now and then does not end them.
func (b *backoff) wait() (first bool) {
	first = b.flood.begins(time.Now())
	b.delay = min(max(2*b.delay, backoffMin), backoffMax)
	time.Sleep(b.delay)
	return first
}

func (b *backoff) reset() { b.delay = 0 }

// flood is many events of a kind, of which the first is worth a line in the
// log. It is over when there was none for floodPause.
type flood struct {
	mu   sync.Mutex
	last time.Time
}

// floodPause is much longer than backoffMax.
const floodPause = 10 * time.Second

// begins tells whether the event of now is the first of a flood.
func (f *flood) begins(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.last.IsZero() || now.Sub(f.last) > floodPause
	f.last = now
	return first
}

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
	if s.refused.begins(time.Now()) {
		s.log.Warn("too many connections; further ones are closed at once", "limit", s.config.MaxConnections)
	}
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
