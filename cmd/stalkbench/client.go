package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// dialTimeout bounds the making of a connection.
const dialTimeout = 5 * time.Second

// dial connects to "host:port" or "unix:PATH".
func dial(addr string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	conn, err := net.DialTimeout(network, addr, dialTimeout)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	return conn, nil
}

// A client asks a server and awaits the answers, blocking. It serves one
// goroutine.
type client struct {
	conn net.Conn
	in   inbox
	a    answer
}

func newClient(addr string) (*client, error) {
	conn, err := dial(addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn}, nil
}

func (c *client) close() { c.conn.Close() }

// send writes commands without awaiting their answers.
func (c *client) send(commands []byte) error {
	if _, err := c.conn.Write(commands); err != nil {
		return fmt.Errorf("sending commands: %w", err)
	}
	return nil
}

// receive awaits one answer. It is good until the next call.
func (c *client) receive() (*answer, error) {
	for {
		ok, err := c.in.next(&c.a)
		if err != nil {
			return nil, fmt.Errorf("reading an answer: %w", err)
		}
		if ok {
			return &c.a, nil
		}
		n, err := c.conn.Read(c.in.space())
		if err != nil {
			return nil, fmt.Errorf("awaiting an answer: %w", err)
		}
		c.in.took(n)
	}
}

// askTimeout bounds one ask. A server that needs longer for a batch of commands
// that never block is taken for dead.
const askTimeout = 30 * time.Second

// ask sends commands in one write and hands each of n answers to take.
func (c *client) ask(commands []byte, n int, take func(*answer) error) error {
	c.conn.SetDeadline(time.Now().Add(askTimeout))
	defer c.conn.SetDeadline(time.Time{})
	if err := c.send(commands); err != nil {
		return err
	}
	for range n {
		a, err := c.receive()
		if err != nil {
			return err
		}
		if err := take(a); err != nil {
			return err
		}
	}
	return nil
}

// expect gives a taker that insists on one word.
func expect(w word) func(*answer) error {
	return func(a *answer) error {
		if a.word != w {
			return fmt.Errorf("unexpected answer %q", a.line)
		}
		return nil
	}
}

// settle makes the connection put into, and reserve from, one tube alone.
func (c *client) settle(tube string) error {
	if err := c.ask(fmt.Appendf(nil, "use %s\r\n", tube), 1, expect(wordUsing)); err != nil {
		return fmt.Errorf("using tube %s: %w", tube, err)
	}
	commands := fmt.Appendf(nil, "watch %s\r\nignore default\r\n", tube)
	if err := c.ask(commands, 2, expect(wordWatching)); err != nil {
		return fmt.Errorf("watching tube %s: %w", tube, err)
	}
	return nil
}
