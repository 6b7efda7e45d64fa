package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

// conn is a connection to Redis by which something else is done while the
// answer to a call of the script is awaited. The client knows nothing of that:
// to it a read just takes its time.
//
// With the first call the connection of a direct link is taken out of the
// runtime's poller, where there is a way: the goroutine that makes a call has its
// thread wait in the kernel, and no other thread is woken to find out what has
// happened.
type conn struct {
	net.Conn
	link    *link
	direct  bool // taken out of the poller, if possible
	calling bool // a call was written, and its answer not asked for
}

// callBegins is how a call of the script begins, behind the number of its
// words.
var callBegins = []byte("\r\n$7\r\nevalsha\r\n")

func callsScript(request []byte) bool {
	return bytes.Contains(request[:min(len(request), 32)], callBegins)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if !c.calling && callsScript(p) {
		c.calling = true
		if c.link.direct && !c.direct {
			c.direct, c.Conn = true, takeOut(c.Conn)
		}
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.calling {
		c.calling = false
		if meanwhile := c.link.meanwhile; meanwhile != nil {
			meanwhile()
		}
	}
	return c.Conn.Read(p)
}

// SyscallConn lets the client's pool find out whether Redis has closed the
// connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }

// dialer returns what makes the connections of o.
func (l *link) dialer(o *goredis.Options) func(context.Context, string, string) (net.Conn, error) {
	plain := net.Dialer{Timeout: o.DialTimeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, link: l}
		if o.TLSConfig == nil {
			return c, nil
		}
		return encrypt(ctx, c, addr, o.TLSConfig)
	}
}

// encrypt makes a connection to a server a TLS one. The name that its
// certificate is to have is that of the host, unless the configuration says
// another one.
func encrypt(ctx context.Context, c net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	encrypted := tls.Client(c, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return encrypted, nil
}
