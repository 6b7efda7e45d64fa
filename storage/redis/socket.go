package redis

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// sockets opens the connections to one server by which a single partition sends its
// calls. There is one at a time. go-redis dials it, says hello, authenticates, chooses
// the database, and closes it when sentinels name another primary: its pool believes
// that it is in use. What is sent and received is up to the partition.
//
// Whoever waits for an answer there waits in the kernel (direct_linux.go), so that no
// other thread is woken to find out what has happened. The runtime knows of a thread
// that does so only after milliseconds, and until then it is one fewer that runs
// goroutines: so there must not be more than one at a time.
//
// It belongs to the caller of the partition, but for fresh and let.
type socketDialer struct {
	client        *goredis.Client
	servers       *servers
	fresh         freshConns
	authenticated atomic.Bool // the last connection was let in: with the user and database that it is to have
}

// freshConns are the connections that were dialed and are not in use yet. There is more
// than one only if go-redis has given up on one that came all the same.
type freshConns struct {
	mu    sync.Mutex
	conns []freshConn
}

// freshConn is a connection, and what of it goes over the wire: the same but for TLS.
type freshConn struct {
	net.Conn
	wire *conn
	sent int64 // bytes that had been written when it was dialed, or by mark
}

// noteLet is called by go-redis when a connection has the user and the database that it is to have.
// Which process it leads to is asked by open.
func (s *socketDialer) noteAuthenticated(context.Context, *goredis.Conn) error {
	s.authenticated.Store(true)
	return nil
}

// dialed is told of the connections of sockets.
type dialHook struct{ dialer *socketDialer }

// DialHook implements goredis.Hook.
func (d dialHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.dialer.add(c)
		return c, nil
	}
}

// ProcessHook implements goredis.Hook.
func (dialHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook implements goredis.Hook.
func (dialHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// add takes down a connection that was dialed.
func (s *socketDialer) add(c net.Conn) {
	wire := rawConnOf(c)
	if wire == nil {
		return
	}
	wire.Conn = unpoll(wire.Conn)
	s.fresh.mu.Lock()
	defer s.fresh.mu.Unlock()
	s.fresh.conns = append(s.fresh.conns, freshConn{c, wire, wire.sent.Load()})
}

// wireOf returns what of a connection that dialer has made goes over the wire; nil if that is not known.
func rawConnOf(c net.Conn) *conn {
	if encrypted, may := c.(interface{ NetConn() net.Conn }); may {
		c = encrypted.NetConn()
	}
	wire, _ := c.(*conn)
	return wire
}

// mark notes what has been written by each connection.
func (f *freshConns) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.conns {
		f.conns[i].sent = f.conns[i].wire.sent.Load()
	}
}

// take returns the connection by which something was sent since mark.
func (f *freshConns) take() (freshConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = slices.DeleteFunc(f.conns, func(c freshConn) bool { return c.wire.closed.Load() })
	at := slices.IndexFunc(f.conns, func(c freshConn) bool { return c.wire.sent.Load() > c.sent })
	if at < 0 {
		return freshConn{}, errClosedAtOnce
	}
	c := f.conns[at]
	f.conns = slices.Delete(f.conns, at, at+1)
	return c, nil
}

// close closes the connections by which something was sent since mark.
func (f *freshConns) close() {
	if c, err := f.take(); err == nil {
		c.Close()
	}
}

// errClosedAtOnce: a connection was closed as soon as it was there.
var errClosedAtOnce = &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}

// open opens a connection, and finds out which process it leads to. If that may not be
// asked the connection is as good. go-redis leaves one open that was not let in: it would
// be one of the user default, to database 0.
func (s *socketDialer) open(ctx context.Context) (*socket, error) {
	s.fresh.mark()
	s.authenticated.Store(false)
	held := s.client.Conn()
	answered := s.servers.identify(ctx, held)
	if answered != nil && !(s.authenticated.Load() && isForbidden(answered)) {
		s.fresh.close()
		held.Close()
		return nil, answered
	}
	c, err := s.fresh.take()
	if err != nil { // Redis has refused to be greeted
		held.Close()
		return nil, cmp.Or(answered, err)
	}
	o := s.client.Options()
	return &socket{
		conn: c.Conn, wire: c.wire, held: held, readLimit: o.ReadTimeout, writeLimit: o.WriteTimeout,
		in: bufio.NewReaderSize(c.Conn, bufferSize), out: outgoing{to: c.Conn},
	}, nil
}

// socket is one connection to a server. It belongs to one partition.
type socket struct {
	conn net.Conn
	wire *conn
	held *goredis.Conn // the same, as go-redis sees it

	readLimit, writeLimit time.Duration // for progress, see conn

	in  *bufio.Reader
	out outgoing
	num [24]byte // for numbers on their way out
}

// isGood returns whether the connection can be used, as far as that can be known
// without asking Redis.
func (s *socket) isGood() bool {
	if s.wire.closed.Load() || s.in.Buffered() > 0 {
		return false
	}
	return s.conn != net.Conn(s.wire) || isIdle(s.wire) // of TLS it is not known
}

// close gives up the connection.
func (s *socket) close() {
	s.conn.Close()
	s.held.Time(context.Background()) // fails, by which the pool learns of it
	s.held.Close()
}

// send writes commands.
func (s *socket) send(commands [][]any) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.writeLimit)); err != nil {
		return err
	}
	for _, words := range commands {
		if err := s.write(words); err != nil {
			return err
		}
	}
	return s.out.Flush()
}

// receive reads the answer to a command.
func (s *socket) receive() (any, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(s.readLimit)); err != nil {
		return nil, err
	}
	return s.read()
}

// lastWordsLimit is how long lastWords waits.
const refusalTimeout = 50 * time.Millisecond

// lastWords returns the error that Redis has answered before it closed the connection, to which
// commands could not be sent for that reason; or the one that there is if it has said nothing.
func (s *socket) refusal(unsent error, commands int) error {
	if s.conn.SetReadDeadline(time.Now().Add(refusalTimeout)) != nil {
		return unsent
	}
	for range commands {
		if _, err := s.read(); codeOf(err) == invalidLength {
			return err
		} else if err != nil && codeOf(err) == "" {
			break
		}
	}
	return unsent
}

// errProtocol: what has come is no answer as they are written.
var errProtocol = errors.New("the answer of Redis is not of its protocol")
