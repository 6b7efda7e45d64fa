package conn

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

// socketDialer opens the connections to one server by which a single partition sends its calls.
// There is one at a time. go-redis dials it, sends HELLO, authenticates, selects the database,
// and closes it when sentinels name another primary; its pool considers it in use. The
// partition does the sending and receiving itself.
//
// A goroutine that waits for a reply there blocks in the kernel (blockingconn_linux.go), so
// that no other thread has to be woken. The Go runtime notices a blocked thread only after
// milliseconds, and until then has one thread less to run goroutines: so at most one may block
// at a time.
//
// It belongs to the caller of the partition, except for fresh and authenticated.
type socketDialer struct {
	client        *goredis.Client
	servers       *servers
	fresh         freshConns
	authenticated atomic.Bool // the last connection has the right user and database
}

// freshConns are the connections that were dialed and are not in use yet. There is more than
// one only if go-redis has given up on one that was established after all.
type freshConns struct {
	mu    sync.Mutex
	conns []freshConn
}

// freshConn is a connection, and the connection below TLS.
type freshConn struct {
	net.Conn
	wire *conn
	sent int64 // bytes written when it was dialed, or at mark
}

// noteAuthenticated is called by go-redis when a connection has the right user and database.
// open identifies its process.
func (s *socketDialer) noteAuthenticated(context.Context, *goredis.Conn) error {
	s.authenticated.Store(true)
	return nil
}

// dialHook adds the connections that are dialed to a socketDialer.
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

// add adds a connection that was dialed.
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

// rawConnOf returns the conn that dialer has made, without TLS; nil if there is none.
func rawConnOf(c net.Conn) *conn {
	if encrypted, may := c.(interface{ NetConn() net.Conn }); may {
		c = encrypted.NetConn()
	}
	wire, _ := c.(*conn)
	return wire
}

// mark records what has been written to each connection.
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

// close closes the connection by which something was sent since mark.
func (f *freshConns) close() {
	if c, err := f.take(); err == nil {
		c.Close()
	}
}

// errClosedAtOnce: a connection was closed as soon as it was established.
var errClosedAtOnce = &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}

// open opens a connection, and identifies the process to which it leads. If INFO is forbidden
// the connection is still usable. After a failed authentication go-redis leaves the connection
// open: it would have the user default and database 0, so it is closed here.
func (s *socketDialer) open(ctx context.Context) (*socket, error) {
	s.fresh.mark()
	s.authenticated.Store(false)
	held := s.client.Conn()
	answered := s.servers.identify(ctx, held)
	if answered != nil && !(s.authenticated.Load() && IsForbidden(answered)) {
		s.fresh.close()
		held.Close()
		return nil, answered
	}
	c, err := s.fresh.take()
	if err != nil { // Redis has refused the greeting
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
	held *goredis.Conn // the same, as go-redis has it

	readLimit, writeLimit time.Duration // for progress, see conn

	in  *bufio.Reader
	out outgoing
	num [24]byte // buffer for numbers
}

// isGood returns whether the connection can be used, as far as that is known without asking
// Redis.
func (s *socket) isGood() bool {
	if s.wire.closed.Load() || s.in.Buffered() > 0 {
		return false
	}
	return s.conn != net.Conn(s.wire) || isIdle(s.wire) // for TLS it is unknown
}

// close gives up the connection.
func (s *socket) close() {
	s.conn.Close()
	s.held.Time(context.Background()) // fails, so that the pool discards the connection
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

// refusalTimeout is how long refusal waits.
const refusalTimeout = 50 * time.Millisecond

// refusal returns the error that Redis has answered before it closed the connection, after the
// sending of commands has failed; or the error of the sending if there is none.
func (s *socket) refusal(unsent error, commands int) error {
	if s.conn.SetReadDeadline(time.Now().Add(refusalTimeout)) != nil {
		return unsent
	}
	for range commands {
		if _, err := s.read(); CodeOf(err) == InvalidLength {
			return err
		} else if err != nil && CodeOf(err) == "" {
			break
		}
	}
	return unsent
}

// errProtocol: what was received is not RESP.
var errProtocol = errors.New("the answer of Redis is not of its protocol")
