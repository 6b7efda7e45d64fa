package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"

	"redstalk/server/jobbatch"
	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/server/schedule"
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
	case s.tooManyUnauthenticated():
		s.mu.Unlock()
		s.refuse(conn, "too many unauthenticated connections (--max-unauthenticated); further ones are closed at once", s.config.MaxUnauthenticated)
		return nil
	case !s.config.Limits.Enter():
		s.mu.Unlock()
		s.refuse(conn, tooManyConnections, s.config.Limits.MaxConnections())
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

const tooManyConnections = "too many connections (--max-connections); further ones are closed at once"

// refuse closes a connection that exceeds a limit, and logs why. The client sees the end of the stream instead
// of waiting for an answer.
func (s *Server) refuse(conn net.Conn, why string, limit int) {
	conn.Close()
	s.refusedLog.Warn(s.log, why, "limit", limit)
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

// New returns a server of the queue. The caller closes the queue, after Shutdown.
func New(q *queue.Queue, config Config) *Server {
	if config.WriteTimeout == 0 {
		config.WriteTimeout = DefaultWriteTimeout
	}
	if config.AuthTimeout == 0 {
		config.AuthTimeout = DefaultAuthTimeout
	}
	if config.MaxUnauthenticated == 0 {
		config.MaxUnauthenticated = DefaultMaxUnauthenticated
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Schedules == nil {
		config.Schedules = schedule.New(q, config.Log)
	}
	if config.Batches == nil {
		config.Batches = jobbatch.New(q, config.Log)
	}
	s := &Server{
		config: config, log: config.Log, queue: q,
		listeners: make(map[net.Listener]struct{}),
		sessions:  make(map[*session]struct{}),
	}
	s.ctx, s.cancelCtx = context.WithCancel(context.Background())
	s.poller = netpoll.NewPoller(q, s.log)
	if config.Access != nil {
		config.Access.OnChange(s.accessChanged)
	}
	q.ServeClients(s)
	s.sweeper = newSweeper(&s.config)
	s.sweeper.start(s)
	return s
}

// Shutdown stops accepting connections. It lets every connection finish the commands that it has
// sent, releases the jobs that it holds, and closes it. Connections that wait in a reserve are closed
// without an answer. If ctx ends first, Shutdown aborts the remaining connections and returns ctx's
// error. Call it only once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing.Store(true)
	s.cancelCtx()
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	for _, ss := range s.allSessions() {
		ss.signal(shutdown)
	}

	done := make(chan struct{})
	go func() {
		s.sweeper.stop()
		s.sessionsAlive.Wait()
		s.poller.Stop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, ss := range s.allSessions() {
		ss.signal(forceClose)
	}
	select {
	case <-done:
	case <-time.After(storeGrace): // the store does not answer
	}
	return ctx.Err()
}

// storeGrace is how long Shutdown waits for the store after its context has ended and all connections
// were aborted.
const storeGrace = time.Second
