package server

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// Serve accepts connections from l until Shutdown, or until accepting fails
// for good. It always returns an error: ErrServerClosed or the cause.
func (s *Server) Serve(l net.Listener) error {
	return s.serve(l, func(conn net.Conn) { s.admit(conn) })
}

// serve accepts connections and passes each to handle.
func (s *Server) serve(l net.Listener, handle func(net.Conn)) error {
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer l.Close()
	var delay backoff
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			delay.reset()
			handle(conn)
		case s.closing.Load():
			return ErrServerClosed
		case isTemporary(err):
			s.acceptLog.Error(s.log, "cannot accept connections; trying again until it works", "err", err)
			delay.wait()
		default:
			return err
		}
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

// ServeConn serves one connection and returns when it has ended.
func (s *Server) ServeConn(conn net.Conn) {
	if ss := s.admit(conn); ss != nil {
		<-ss.done
	}
}

// admit begins a session for conn. If the server is closing or full, it closes conn and returns
// nil.
func (s *Server) admit(conn net.Conn) *session {
	s.mu.Lock()
	switch {
	case s.closing.Load():
		s.mu.Unlock()
		conn.Close()
		return nil
	case s.tooManyUnauthenticated(), !s.config.Limits.Enter():
		s.mu.Unlock()
		s.refuse(conn)
		return nil
	}
	ss := newSession(s, s.queue.NewHolder())
	s.sessions[ss] = struct{}{}
	s.sessionsAlive.Add(1)
	s.queue.Counters.Connections.Add(1)
	s.queue.Counters.TotalConnections.Add(1)
	s.mu.Unlock()
	ss.begin(conn)
	return ss
}

func (s *Server) exit(ss *session) {
	s.queue.Counters.Connections.Add(-1)
	s.mu.Lock()
	delete(s.sessions, ss)
	s.mu.Unlock()
	s.config.Limits.Leave()
	close(ss.done)
	s.sessionsAlive.Done()
}

// refuse closes a connection that exceeds a limit. The client sees the end of the stream instead
// of waiting for an answer.
func (s *Server) refuse(conn net.Conn) {
	conn.Close()
	s.refusedLog.Warn(s.log, "too many connections; further ones are closed at once", "limit", s.config.Limits.MaxConnections())
}

// backoff delays retries of something that fails for lack of resources, so that the retries do
// not keep a processor busy.
type backoff struct {
	delay time.Duration
}

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// wait sleeps, longer with each call since reset.
func (b *backoff) wait() {
	b.delay = min(max(2*b.delay, backoffMin), backoffMax)
	time.Sleep(b.delay)
}

func (b *backoff) reset() { b.delay = 0 }

// isTemporary reports whether accepting can work again later: descriptors or memory have run out,
// or the connection was closed before it was accepted.
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
