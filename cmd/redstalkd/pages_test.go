package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"redstalk/tools/conformance/differ"
)

// withPages returns a server whose pages (the bodies of OK) are changed on their
// way to the client. Pages of one connection are changed in their order.
func withPages(s differ.Server, change func(page string) (string, error)) differ.Server {
	dial := s.Dial
	s.Dial = func() (net.Conn, error) {
		conn, err := dial()
		if err != nil {
			return nil, err
		}
		return &pagesConn{Conn: conn, in: bufio.NewReader(conn), change: change}, nil
	}
	return s
}

// withSortedLists returns a server whose lists of tubes are sorted: with
// partitions their order is not beanstalkd's.
func withSortedLists(s differ.Server) differ.Server {
	return withPages(s, func(page string) (string, error) {
		if !strings.HasPrefix(page, "---\n- ") {
			return page, nil
		}
		lines := strings.SplitAfter(page, "\n")
		slices.Sort(lines[1 : len(lines)-1])
		return strings.Join(lines, ""), nil
	})
}

// pagesConn is a connection on which pages are changed.
type pagesConn struct {
	net.Conn
	in     *bufio.Reader
	change func(string) (string, error)
	next   bytes.Buffer // read and not delivered
}

// CloseWrite shuts down the sending side.
func (c *pagesConn) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

func (c *pagesConn) Read(p []byte) (int, error) {
	if c.next.Len() == 0 {
		if err := c.reply(); err != nil && c.next.Len() == 0 {
			return 0, err
		}
	}
	return c.next.Read(p)
}

// reply reads one reply.
func (c *pagesConn) reply() error {
	line, err := c.in.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 2 || words[0] != "OK" && words[0] != "FOUND" && words[0] != "RESERVED" && words[0] != "LEASED" {
		c.next.WriteString(line)
		return err
	}
	n, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return fmt.Errorf("reading %q: %w", line, err)
	}
	body := make([]byte, n+2)
	read, err := io.ReadFull(c.in, body)
	if err != nil || words[0] != "OK" {
		c.next.WriteString(line)
		c.next.Write(body[:read])
		return err
	}
	page, err := c.change(string(body[:n]))
	fmt.Fprintf(&c.next, "OK %d\r\n%s%s", len(page), page, body[n:])
	return err
}
