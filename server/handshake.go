package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"redstalk/server/netpoll"
)

// ServeTLS is Serve for connections with TLS. It closes a connection whose handshake takes
// longer than Config.AuthTimeout, and one that would exceed Config.MaxUnauthenticated handshakes
// at a time.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) error {
	return s.serve(l, func(conn net.Conn) {
		if s.handshakes.Add(1) > int64(s.config.MaxUnauthenticated) {
			s.handshakes.Add(-1)
			s.refuse(conn, "too many TLS handshakes at a time (--max-unauthenticated); further connections are closed at once", s.config.MaxUnauthenticated)
			return
		}
		go func() {
			tlsConn, err := s.handshake(conn, config)
			s.handshakes.Add(-1)
			if err != nil {
				conn.Close()
				s.logFailedHandshake(conn, err)
				return
			}
			s.admit(tlsConn)
		}()
	})
}

// handshake performs the TLS handshake of a connection, in the caller's goroutine.
func (s *Server) handshake(conn net.Conn, config *tls.Config) (*netpoll.TLSConn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.config.AuthTimeout)
	defer cancel()
	return netpoll.Handshake(ctx, conn, config)
}

// logFailedHandshake logs a handshake that has failed, unless the client just disconnected.
func (s *Server) logFailedHandshake(conn net.Conn, err error) {
	if !errors.Is(err, io.EOF) && !s.closing.Load() {
		s.handshakeLog.Warn(s.log, "TLS handshake failed", "from", conn.RemoteAddr(), "err", err)
	}
}
