package main

import (
	"io"
	"strings"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
)

// client is a connection for tests, whose failures end the test.
type client struct {
	t    *testing.T
	conn *protoclient.Conn
}

// dial connects to an address as it is logged: host:port or a path.
func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := protoclient.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{t, conn}
	c.wait()
	return c
}

// wait sets the deadline for the next send or receive to patience.
func (c *client) wait() { c.conn.SetDeadline(time.Now().Add(patience)) }

func (c *client) send(text string) {
	c.t.Helper()
	c.wait()
	if err := c.conn.Send([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// sendAside sends from another goroutine. If that fails, the replies will
// be missing.
func (c *client) sendAside(text string) { io.WriteString(c.conn, text) }

// line awaits a line of a reply, a body or a page.
func (c *client) line() string {
	c.t.Helper()
	c.wait()
	line, err := c.conn.Line()
	if err != nil {
		c.t.Fatalf("after %q: %v", line, err)
	}
	return line
}

// ask sends a command and expects these lines.
func (c *client) ask(text string, want ...string) {
	c.t.Helper()
	c.send(text)
	for _, w := range want {
		if got := c.line(); got != w {
			c.t.Fatalf("%q: %q, want %q", text, got, w)
		}
	}
}

// alive checks that the client is served.
func (c *client) alive() {
	c.t.Helper()
	c.ask("list-tube-used\r\n", "USING default")
}

// awaitFigure asks for a page of statistics until a value on it is as wanted.
func (c *client) awaitFigure(page, key, want string) {
	c.t.Helper()
	limit, got := time.Now().Add(patience), ""
	for ; time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if got = c.figure(page, key); got == want {
			return
		}
	}
	c.t.Fatalf("%s, %s: %s, want %s", page, key, got, want)
}

// figure reads a value from a page of statistics, or returns the reply if that is
// not a page.
func (c *client) figure(page, key string) string {
	c.t.Helper()
	text := c.page(page)
	if !strings.HasPrefix(text, "---\n") {
		return text
	}
	value, ok := protoclient.Page(text).Value(key)
	if !ok {
		return "missing"
	}
	return strings.TrimSpace(value)
}

// page requests a page and returns it, or the reply if that is not a page.
func (c *client) page(command string) string {
	c.t.Helper()
	c.send(command + "\r\n")
	reply, err := c.conn.Receive()
	if err != nil {
		c.t.Fatal(err)
	}
	if reply.Word != protoclient.OK {
		return string(reply.Line)
	}
	return string(reply.Body)
}
