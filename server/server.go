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
	"redstalk/server/jobbatch"
	"redstalk/server/limits"
	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/server/schedule"
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

	// Schedules has the calls about schedules; nil means a new Service, whose Run nobody calls.
	Schedules *schedule.Service

	// Batches has the calls about batches; nil means a new Service, whose Run nobody calls.
	Batches *jobbatch.Service

	// Audit gets a line for each command that [protocol.Verb.Administers], with who has sent it and what came of
	// it. The word of the command is the message. It must not block; nil means that nobody wants to know.
	Audit *slog.Logger

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
	quotaLog        telemetry.Throttle // puts that a quota has refused
	httpLog         telemetry.Throttle // connections on which HTTP was spoken
	acceptLog       telemetry.Throttle // failed attempts to accept

	inquiries sync.Mutex // held while sessions are asked about themselves

	mu            sync.Mutex // guards listeners and sessions
	listeners     map[net.Listener]struct{}
	sessions      map[*session]struct{}
	sessionsAlive sync.WaitGroup
}

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("server closed")

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

func (s *Server) exit(ss *session) {
	s.queue.Counters.Connections.Add(-1)
	s.mu.Lock()
	delete(s.sessions, ss)
	s.mu.Unlock()
	s.config.Limits.Leave()
	close(ss.done)
	s.sessionsAlive.Done()
}

// tooManyUnauthenticated reports whether one more unauthenticated connection would exceed the limit.
func (s *Server) tooManyUnauthenticated() bool {
	a := s.config.Access
	return a != nil && a.Anonymous().Anywhere() == access.Nothing && s.unauthenticated.Load() >= int64(s.config.MaxUnauthenticated)
}
