package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// Config says how a Server behaves. The zero value is useful.
type Config struct {
	// MaxJobSize is the largest body of a job, in bytes. 0 means
	// DefaultMaxJobSize, a negative number that bodies must be empty.
	MaxJobSize int

	// Version is that of the program. It is the last key of the stats page,
	// redstalk-version, unless it is empty.
	Version string

	// QuoteStats puts double quotes around every string of the stats pages,
	// as beanstalkd 1.13 does.
	QuoteStats bool

	// MaxConnections is how many connections are served at a time. One more
	// is accepted and closed at once. 0 means no limit.
	MaxConnections int

	// IdleTimeout is after how long a connection is closed on which nothing
	// comes and nothing happens: it neither waits in a reserve nor holds a
	// job. 0 means never.
	IdleTimeout time.Duration

	// WriteTimeout is after how long a connection is closed whose client
	// reads nothing of the replies that are kept for it. 0 means
	// DefaultWriteTimeout, a negative duration never.
	WriteTimeout time.Duration

	// Log gets what an operator should know; nil means slog.Default. Accepted
	// and closed connections are logged at LevelInfo, each command and reply
	// word at LevelDebug.
	Log *slog.Logger
}

// DefaultMaxJobSize is beanstalkd's default for the largest body, in bytes.
const DefaultMaxJobSize = 65535

// DefaultWriteTimeout is the default of Config.WriteTimeout.
const DefaultWriteTimeout = time.Minute

// Server serves the beanstalk protocol from one store to any number of
// listeners.
type Server struct {
	config Config
	log    *slog.Logger
	store  storage.Store
	hall   *hall
	bell   *bell
	sweeps *sweeper
	loops  loops
	id     string // of the stats page: 16 hexadecimal digits, random
	begun  time.Time

	figures  figures
	lastConn atomic.Uint64
	draining atomic.Bool
	closing  atomic.Bool
	refused  flood // connections
	full     flood // commands, for want of room

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	sessions  map[*session]struct{}
	alive     sync.WaitGroup // sessions
}

// ErrServerClosed is what Serve returns after Shutdown.
var ErrServerClosed = errors.New("server closed")

// New returns a server of the store, whose listener it becomes. The store
// must be fresh: nothing may have been asked of it. It stays the caller's to
// close, after Shutdown.
func New(store storage.Store, config Config) *Server {
	if config.MaxJobSize == 0 {
		config.MaxJobSize = DefaultMaxJobSize
	}
	config.MaxJobSize = max(config.MaxJobSize, 0)
	if config.WriteTimeout == 0 {
		config.WriteTimeout = DefaultWriteTimeout
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	s := &Server{
		config: config, log: config.Log, store: store, id: newID(), begun: time.Now(),
		listeners: make(map[net.Listener]struct{}),
		sessions:  make(map[*session]struct{}),
	}
	s.hall = newHall(store)
	s.loops.store, s.loops.hall, s.loops.log = store, s.hall, s.log
	s.bell = newBell(store, s.hall, s.log)
	store.Listen(listener{s.hall, s.bell})
	// The tube "default" needs no attendance: it always exists.
	s.hall.start()
	s.bell.start()
	s.sweeps = newSweeper(&s.config)
	s.sweeps.start(s)
	return s
}

func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

// listener joins those who listen to the store.
type listener struct {
	*hall
	*bell
}

// Serve accepts connections from l until Shutdown, or until accepting fails
// for good. It always returns an error: ErrServerClosed or the cause.
func (s *Server) Serve(l net.Listener) error {
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer l.Close()
	var pause backoff
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			pause.reset()
			s.admit(conn)
		case s.closing.Load():
			return ErrServerClosed
		case isTemporary(err):
			if first := pause.wait(); first {
				s.log.Error("cannot accept connections; trying again until it works", "err", err)
			}
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
		<-ss.gone
	}
}

// admit begins a session for conn, or closes conn and returns nil when the
// server is closing or full.
func (s *Server) admit(conn net.Conn) *session {
	s.mu.Lock()
	switch {
	case s.closing.Load():
		s.mu.Unlock()
		conn.Close()
		return nil
	case s.isFull():
		s.mu.Unlock()
		s.refuse(conn)
		return nil
	}
	ss := newSession(s, tube.Holder(s.lastConn.Add(1)))
	s.sessions[ss] = struct{}{}
	s.alive.Add(1)
	s.figures.connections.Add(1)
	s.mu.Unlock()
	ss.begin(conn)
	return ss
}

func (s *Server) exit(ss *session) {
	s.figures.connections.Add(-1)
	s.mu.Lock()
	delete(s.sessions, ss)
	s.mu.Unlock()
	close(ss.gone)
	s.alive.Done()
}

// all returns the sessions there are.
func (s *Server) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// Drain makes every later put be answered DRAINING, for good.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops accepting, lets every connection finish the commands it has
// sent, gives back what they hold, and closes them. Connections waiting in a
// reserve are closed without an answer. When ctx ends first the rest is cut
// off, and ctx's error is returned. It is called once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	for _, ss := range s.all() {
		ss.signal(halted, nil)
	}

	done := make(chan struct{})
	go func() {
		s.sweeps.stop()
		s.alive.Wait()
		s.loops.stop()
		s.hall.stop()
		s.bell.stop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, ss := range s.all() {
		ss.signal(doomed, nil)
	}
	select {
	case <-done:
	case <-time.After(lastGrace): // the store does not answer
	}
	return ctx.Err()
}

// lastGrace is how long Shutdown waits for the store after its context has
// ended and all connections were cut off.
const lastGrace = time.Second

// figures are the server's own counts on the stats page.
type figures struct {
	commands    [protocol.NumVerbs]atomic.Uint64
	connections atomic.Int64
	producers   atomic.Int64
	workers     atomic.Int64
}
