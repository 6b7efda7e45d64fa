package redis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// transport is how a partition sends its calls. One call is under way at a time. It
// belongs to the caller of the partition.
type transport interface {
	// send sends commands to a server. For each of them there is to be one receive,
	// unless an error is returned.
	send(node *goredis.Client, commands ...[]any) error

	// receive waits for the answer to the next command: nil, a string, an int64, or
	// an []any of these. An error with a code (codeOf) is that answer, too; after
	// any other one nothing is left to be received.
	receive() (any, error)
}

// sockets opens the connections of one partition to one server by which calls are sent.
// There is one at a time. go-redis dials it, says hello, authenticates, chooses the
// database, and closes it when sentinels name another primary: its pool believes that it
// is in use. What is sent and received is up to the partition.
//
// It belongs to the caller of the partition, but for fresh.
type sockets struct {
	client *goredis.Client
	direct bool // see link
	fresh  freshConns
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
	sent int64 // bytes that had been written when it was dialed
}

func newSockets(client *goredis.Client, direct bool) *sockets {
	s := &sockets{client: client, direct: direct}
	client.AddHook(dialed{s})
	return s
}

// dialed is told of the connections of sockets.
type dialed struct{ sockets *sockets }

// DialHook implements goredis.Hook.
func (d dialed) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.sockets.add(c)
		return c, nil
	}
}

// ProcessHook implements goredis.Hook.
func (dialed) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook implements goredis.Hook.
func (dialed) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// add takes down a connection that was dialed.
func (s *sockets) add(c net.Conn) {
	wire, is := c.(*conn)
	if encrypted, may := c.(interface{ NetConn() net.Conn }); may {
		wire, is = encrypted.NetConn().(*conn)
	}
	if !is {
		return
	}
	if s.direct {
		wire.Conn = takeOut(wire.Conn)
	}
	s.fresh.mu.Lock()
	defer s.fresh.mu.Unlock()
	s.fresh.conns = append(s.fresh.conns, freshConn{c, wire, wire.sent.Load()})
}

// take returns the connection by which something was sent since it was dialed.
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

// errClosedAtOnce: a connection was closed as soon as it was there.
var errClosedAtOnce = &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}

// open opens a connection.
func (s *sockets) open(ctx context.Context) (*socket, error) {
	held := s.client.Conn()
	if err := held.Time(ctx).Err(); err != nil {
		held.Close()
		return nil, err
	}
	c, err := s.fresh.take()
	if err != nil {
		held.Close()
		return nil, err
	}
	o := s.client.Options()
	return &socket{
		conn: c.Conn, wire: c.wire, held: held, readLimit: o.ReadTimeout, writeLimit: o.WriteTimeout,
		in: bufio.NewReaderSize(c.Conn, bufferSize), out: bufio.NewWriterSize(c.Conn, bufferSize),
	}, nil
}

// bufferSize is of what is sent and received, in bytes. Larger bodies are not copied
// to a buffer.
const bufferSize = 32 << 10

// socket is one connection to a server. It belongs to one partition.
type socket struct {
	conn net.Conn
	wire *conn
	held *goredis.Conn // the same, as go-redis sees it

	readLimit, writeLimit time.Duration // for progress, see conn

	in  *bufio.Reader
	out *bufio.Writer
	num [24]byte // for numbers on their way out
}

// isGood returns whether the connection can be used, as far as that can be known
// without asking Redis.
func (s *socket) isGood() bool {
	if s.wire.closed.Load() || s.in.Buffered() > 0 {
		return false
	}
	return s.conn != net.Conn(s.wire) || isQuiet(s.wire) // of TLS it is not known
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

// connection is the transport of a partition: a socket to the server that has it.
type connection struct {
	link    *link
	addr    string   // of the server
	sockets *sockets // to that; nil if nothing was sent yet
	socket  *socket  // nil if there is none
}

// send implements transport.
func (n *connection) send(node *goredis.Client, commands ...[]any) error {
	if err := n.connect(node); err != nil {
		return err
	}
	err := n.socket.send(commands)
	if err != nil {
		n.drop()
	}
	return err
}

// connect sees to it that there is a socket to a server that can be used.
func (n *connection) connect(node *goredis.Client) error {
	addr := node.Options().Addr
	if n.socket != nil && (addr != n.addr || !n.socket.isGood()) {
		n.drop()
	}
	if n.socket != nil {
		return nil
	}
	if n.sockets != nil && addr != n.addr {
		n.link.endSockets(n.sockets)
		n.sockets = nil
	}
	if n.sockets == nil {
		n.sockets, n.addr = n.link.newSockets(node), addr
	}
	var err error
	n.socket, err = n.sockets.open(context.Background())
	return err
}

// receive implements transport. A server that is no primary any more is left.
func (n *connection) receive() (any, error) {
	if n.socket == nil {
		return nil, net.ErrClosed
	}
	answer, err := n.socket.receive()
	if err != nil && (codeOf(err) == "" || codeOf(err) == "READONLY") {
		n.drop()
	}
	return answer, err
}

func (n *connection) drop() {
	n.socket.close()
	n.socket = nil
}

var errProtocol = errors.New("Redis has answered something that is not its protocol")
