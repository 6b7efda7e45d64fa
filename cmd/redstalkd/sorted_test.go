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

	"redstalk/server/differ"
)

// withSortedLists returns a server whose lists of tubes are sorted: with
// partitions their order is not beanstalkd's.
func withSortedLists(s differ.Server) differ.Server {
	dial := s.Dial
	s.Dial = func() (net.Conn, error) {
		conn, err := dial()
		if err != nil {
			return nil, err
		}
		return &sortedConn{Conn: conn, in: bufio.NewReader(conn)}, nil
	}
	return s
}

// sortedConn is a connection on which lists in replies come sorted.
type sortedConn struct {
	net.Conn
	in   *bufio.Reader
	next bytes.Buffer // read and not handed out
}

// CloseWrite ends what is sent.
func (c *sortedConn) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

func (c *sortedConn) Read(p []byte) (int, error) {
	if c.next.Len() == 0 {
		if err := c.reply(); err != nil && c.next.Len() == 0 {
			return 0, err
		}
	}
	return c.next.Read(p)
}

// reply reads one reply.
func (c *sortedConn) reply() error {
	line, err := c.in.ReadString('\n')
	c.next.WriteString(line)
	words := strings.Fields(line)
	if err != nil || len(words) == 0 {
		return err
	}
	switch words[0] {
	case "OK", "FOUND", "RESERVED":
	default:
		return nil
	}
	n, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return fmt.Errorf("reading %q: %w", line, err)
	}
	body := make([]byte, n+2)
	read, err := io.ReadFull(c.in, body)
	if body = body[:read]; words[0] == "OK" && bytes.HasPrefix(body, []byte("---\n- ")) {
		lines := strings.SplitAfter(string(body[:n]), "\n")
		slices.Sort(lines[1 : len(lines)-1])
		body = append([]byte(strings.Join(lines, "")), body[n:]...)
	}
	c.next.Write(body)
	return err
}
