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

// Config says how a Server behaves. The zero value is useful.
type Config struct {
	// QuoteStats puts double quotes around every string of the stats pages,
	// as beanstalkd 1.13 does.
	QuoteStats bool

	// Bounds are those of the process: how many connections there may be at a time, of
	// which one more is accepted and closed at once, and how much of their replies clients
	// may leave unread. nil means no limit.
	Bounds *limits.Bounds

	// IdleTimeout is after how long a connection is closed on which nothing
	// comes and nothing happens: it neither waits in a reserve nor holds a
	// job. 0 means never.
	IdleTimeout time.Duration

	// WriteTimeout is after how long a connection is closed whose client
	// reads nothing of the replies that are kept for it. 0 means
	// DefaultWriteTimeout, a negative duration never.
	WriteTimeout time.Duration

	// Access says who may do what. If it is nil, everybody may do everything, and auth
	// is an unknown command.
	Access *access.Access

	// AuthTimeout is how long a connection may take to say who it is, and how long a
	// handshake of TLS may take. 0 means DefaultAuthTimeout.
	AuthTimeout time.Duration

	// MaxStrangers is how many connections at a time may not have said who they are; one
	// more is closed at once. 0 means DefaultMaxStrangers. With rights for the user
	// anonymous, neither this nor AuthTimeout applies to connections, only to handshakes.
	MaxUnauthenticated int

	// Log gets what an operator should know; nil means slog.Default. Accepted
	// and closed connections are logged at LevelInfo, each command and reply
	// word at LevelDebug.
	Log *slog.Logger
}

// DefaultWriteTimeout is the default of Config.WriteTimeout.
const DefaultWriteTimeout = time.Minute

// DefaultAuthTimeout is the default of Config.AuthTimeout.
const DefaultAuthTimeout = 10 * time.Second

// DefaultMaxStrangers is the default of Config.MaxStrangers.
const DefaultMaxUnauthenticated = 1000

// Loops returns how many goroutines of a server watch all its connections, and so wait in the
// kernel much of the time. It is 0 where epoll is not available.
func Loops() int { return netpoll.Loops() }

// Server is the beanstalk door of a queue: it serves the protocol to any number of
// listeners.
type Server struct {
	config  Config
	log     *slog.Logger
	queue   *queue.Queue
	sweeper *sweeper
	poller  *netpoll.Poller

	closing   atomic.Bool
	ctx       context.Context // ends with Shutdown
	cancelCtx context.CancelFunc

	unauthenticated atomic.Int64  // connections that have not said who they are
	handshakes      atomic.Int64  // under way
	refusedLog      telemetry.Log // connections
	handshakeLog    telemetry.Log // of TLS
	noSpaceLog      telemetry.Log // commands, for want of room
	httpLog         telemetry.Log // connections on which HTTP was spoken
	acceptLog       telemetry.Log // attempts to accept

	mu            sync.Mutex // guards listeners and sessions
	listeners     map[net.Listener]struct{}
	sessions      map[*session]struct{}
	sessionsAlive sync.WaitGroup // sessions
}

// ErrServerClosed is what Serve returns after Shutdown.
var ErrServerClosed = errors.New("server closed")

// New returns a server of the queue, which stays the caller's to close, after
// Shutdown.
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

// newBuffer returns memory for a body, or nil if a body of that size is to be an
// ordinary slice.
func (s *Server) newBuffer(size int) protocol.Buffer {
	if b := s.queue.Bodies().Get(size); b != nil { // a nil pointer in an interface is not nil
		return b
	}
	return nil
}

// all returns the sessions there are.
func (s *Server) allSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// Shutdown stops accepting, lets every connection finish the commands it has
// sent, gives back what they hold, and closes them. Connections waiting in a
// reserve are closed without an answer. When ctx ends first the rest is cut
// off, and ctx's error is returned. It is called once.
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

// lastGrace is how long Shutdown waits for the store after its context has
// ended and all connections were cut off.
const storeGrace = time.Second
