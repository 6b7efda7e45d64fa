package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"
)

// A Conn is a connection to a server. Its methods block, up to the deadlines
// that are set on it.
type Conn struct {
	net.Conn

	// Timeout limits the duration of each Ask. 0: the deadlines stay as they are.
	Timeout time.Duration

	in    Decoder
	reply Reply
}

// Dial connects to "host:port", "unix:PATH" or a path that has a slash, within the
// limit.
func Dial(addr string, limit time.Duration) (*Conn, error) { return DialTLS(addr, nil, limit) }

// DialTLS connects as Dial does, and uses TLS if config is not nil. If the config has no
// server name, it is the host of addr.
func DialTLS(addr string, config *tls.Config, limit time.Duration) (*Conn, error) {
	network, at := split(addr)
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	var conn net.Conn
	var err error
	if config == nil {
		conn, err = new(net.Dialer).DialContext(ctx, network, at)
	} else {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, network, at)
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	return New(conn), nil
}

// split returns the network of an address, and the address within it.
func split(addr string) (network, at string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	if strings.Contains(addr, "/") {
		return "unix", addr
	}
	return "tcp", addr
}

// New makes a Conn of a connection from which nothing has been read yet.
func New(conn net.Conn) *Conn { return &Conn{Conn: conn} }

// Read reads raw bytes, beginning with those that Receive or Line has read ahead.
func (c *Conn) Read(p []byte) (int, error) {
	if n := copy(p, c.in.take(len(p))); n > 0 {
		return n, nil
	}
	return c.Conn.Read(p)
}

// Send writes commands and does not wait for their replies.
func (c *Conn) Send(commands []byte) error {
	if _, err := c.Conn.Write(commands); err != nil {
		return fmt.Errorf("sending commands: %w", err)
	}
	return nil
}

// Receive waits for one reply. It is valid until the next call.
func (c *Conn) Receive() (*Reply, error) {
	for {
		ok, err := c.in.Next(&c.reply)
		if err != nil {
			return nil, fmt.Errorf("reading a reply: %w", err)
		}
		if ok {
			return &c.reply, nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// Line waits for one line, which can be of a reply, a body or a page, and returns it
// without CR LF. A lone LF at its end stays. With an error it returns what has arrived
// of the line.
func (c *Conn) Line() (string, error) {
	for {
		if line := c.in.NextLine(); line != nil {
			return strings.TrimSuffix(string(line), "\r\n"), nil
		}
		if err := c.fill(); err != nil {
			return string(c.in.take(len(c.in.buf))), err
		}
	}
}

// fill reads what has arrived on the connection, at least one byte.
func (c *Conn) fill() error {
	n, err := c.Conn.Read(c.in.Space())
	c.in.Filled(n)
	if n == 0 && err != nil {
		return fmt.Errorf("awaiting a reply: %w", err)
	}
	return nil
}

// Ask sends commands in one write, and calls take with each of n replies, until
// take returns an error.
func (c *Conn) Ask(commands []byte, n int, take func(*Reply) error) error {
	if c.Timeout > 0 {
		c.SetDeadline(time.Now().Add(c.Timeout))
		defer c.SetDeadline(time.Time{})
	}
	if err := c.Send(commands); err != nil {
		return err
	}
	for range n {
		r, err := c.Receive()
		if err != nil {
			return err
		}
		if err := take(r); err != nil {
			return err
		}
	}
	return nil
}

// Window is the number of commands that Pipeline sends before it reads their replies, and WindowBytes
// about the number of their bytes.
const (
	Window      = 500
	WindowBytes = 1 << 20
)

// Pipeline sends n commands in windows with ask, which is Conn.Ask or calls it, and passes their replies
// to take in order. command appends the i-th command to out. It stops at the first error.
func Pipeline(ask func(commands []byte, n int, take func(*Reply) error) error, n int, command func(out []byte, i int) []byte, take func(i int, r *Reply) error) error {
	var out []byte
	for from := 0; from < n; {
		to := from
		for out = out[:0]; to < n && to-from < Window && len(out) < WindowBytes; to++ {
			out = command(out, to)
		}
		at := from
		err := ask(out, to-from, func(r *Reply) error { at++; return take(at-1, r) })
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// Page requests a page: stats, list-tubes and the like. The command has no CR LF.
// If the server answers with an error, the returned error contains its reply.
func (c *Conn) Page(command string) (page Page, err error) {
	err = c.Ask([]byte(command+"\r\n"), 1, func(r *Reply) error {
		if r.Word != OK {
			return r.Unexpected()
		}
		page = Page(r.Body)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return page, nil
}

// UseOnly makes the connection put into, and reserve from, this tube only. Before, it
// must watch default and nothing else.
func (c *Conn) UseOnly(tube string) error {
	if err := c.Ask(fmt.Appendf(nil, "use %s\r\n", tube), 1, Expect(Using)); err != nil {
		return fmt.Errorf("using tube %s: %w", tube, err)
	}
	commands := fmt.Appendf(nil, "watch %s\r\nignore default\r\n", tube)
	if err := c.Ask(commands, 2, Expect(Watching)); err != nil {
		return fmt.Errorf("watching tube %s: %w", tube, err)
	}
	return nil
}

// Expect returns a function for Ask that accepts only replies with one word.
func Expect(w Word) func(*Reply) error {
	return func(r *Reply) error {
		if r.Word != w {
			return r.Unexpected()
		}
		return nil
	}
}
