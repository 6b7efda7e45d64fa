package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/limits"
	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/storage/telemetry"
)

// Config configures a Server. The zero value is useful.
type Config struct {
	// QuoteStats puts double quotes around every string of the stats pages, as beanstalkd 1.13
	// does.
	QuoteStats bool

	// Bounds are the limits of the process: on the number of connections, on the memory of
	// bodies that have come in part, and on the bytes of replies that clients leave unread. A
	// connection beyond the limit is accepted and closed at once. nil means no limit.
	Limits *limits.Limits

	// IdleTimeout is after how long an idle connection is closed: one on which nothing comes,
	// and which neither waits in a reserve nor holds a job. 0 means never.
	IdleTimeout time.Duration

	// WriteTimeout is after how long a stalled connection is closed: one whose client reads
	// nothing of the replies that are buffered for it. 0 means DefaultWriteTimeout, a negative
	// duration never.
	WriteTimeout time.Duration

	// Access has the users and their rights. If it is nil, everybody may do everything, and auth
	// is an unknown command.
	Access *access.Access

	// AuthTimeout is how long a connection may take to authenticate, and how long a TLS handshake
	// may take. 0 means DefaultAuthTimeout.
	AuthTimeout time.Duration

	// MaxUnauthenticated is how many unauthenticated connections there may be at a time. A
	// connection beyond the limit is closed at once. 0 means DefaultMaxUnauthenticated. If the
	// user anonymous has rights, this and AuthTimeout apply only to TLS handshakes.
	MaxUnauthenticated int

	// Log is the logger; nil means slog.Default. Accepted and closed connections are logged at
	// LevelInfo, each command and the first word of its reply at LevelDebug.
	Log *slog.Logger
}

// DefaultWriteTimeout is the default of Config.WriteTimeout.
const DefaultWriteTimeout = time.Minute

// DefaultAuthTimeout is the default of Config.AuthTimeout.
const DefaultAuthTimeout = 10 * time.Second

// DefaultMaxUnauthenticated is the default of Config.MaxUnauthenticated.
const DefaultMaxUnauthenticated = 1000

// Loops returns how many goroutines of a server watch all its connections, and so wait in the
// kernel much of the time. It is 0 where epoll is not available.
func Loops() int { return netpoll.Loops() }

// Server serves the beanstalk protocol for a queue, on any number of listeners.
type Server struct {
	config  Config
	log     *slog.Logger
	queue   *queue.Queue
	sweeper *sweeper
	poller  *netpoll.Poller

	closing   atomic.Bool
	ctx       context.Context // is cancelled by Shutdown
	cancelCtx context.CancelFunc

	unauthenticated atomic.Int64       // connections that have not authenticated
	handshakes      atomic.Int64       // under way
	refusedLog      telemetry.Throttle // refused connections
	handshakeLog    telemetry.Throttle // failed TLS handshakes
	noSpaceLog      telemetry.Throttle // commands that failed for lack of space
	httpLog         telemetry.Throttle // connections on which HTTP was spoken
	acceptLog       telemetry.Throttle // failed attempts to accept

	mu            sync.Mutex // guards listeners and sessions
	listeners     map[net.Listener]struct{}
	sessions      map[*session]struct{}
	sessionsAlive sync.WaitGroup
}

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("server closed")

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
	s.sweeper = newSweeper(&s.config)
	s.sweeper.start(s)
	return s
}

// newBuffer returns memory for a body, or nil if a body of that size should be an ordinary slice.
func (s *Server) newBuffer(size int) protocol.Buffer {
	if b := s.queue.Bodies().Get(size); b != nil { // a nil pointer in an interface is not nil
		return b
	}
	return nil
}

// allSessions returns the sessions of all connections.
func (s *Server) allSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
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
