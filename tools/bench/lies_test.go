package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tools/conformance/busy"
)

// scripted serves one connection: for each step it expects the first
// text and writes the second.
func scripted(t *testing.T, conn net.Conn, steps [][2]string) {
	t.Helper()
	for _, s := range steps {
		got := make([]byte, len(s[0]))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != s[0] {
			t.Errorf("server reads %q, %v, want %q", got, err, s[0])
			return
		}
		if _, err := io.WriteString(conn, s[1]); err != nil {
			t.Errorf("server writing: %v", err)
			return
		}
	}
}

func TestDelete(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go scripted(t, far, [][2]string{
		{"delete 9\r\ndelete 8\r\n", "DELETED\r\nNOT_FOUND\r\n"},
		{"delete 7\r\n", "INTERNAL_ERROR\r\n"},
	})
	c := client.New(near)
	if n, err := deleteOn(c, []uint64{9, 8}); n != 1 || err != nil {
		t.Errorf("deleted %d, %v, want 1", n, err)
	}
	if _, err := deleteOn(c, []uint64{7}); err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") {
		t.Errorf("a wrong reply gives %v", err)
	}
}

// liar is a beanstalk server with one fault: every reply to
// the command is lie. It stores no jobs.
func liar(t *testing.T, command, lie string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	truth := map[string]string{
		"use": "USING x\r\n", "watch": "WATCHING 2\r\n", "ignore": "WATCHING 1\r\n",
		"reserve": "RESERVED 5 8\r\nabcdefgh\r\n", "delete": "DELETED\r\n",
		"kick": "KICKED 0\r\n", "reserve-with-timeout": "TIMED_OUT\r\n",
	}
	truth[command] = lie
	serve := func(conn net.Conn) {
		defer conn.Close()
		for id, lines := 1, bufio.NewScanner(conn); lines.Scan(); {
			name, _, _ := strings.Cut(lines.Text(), " ")
			reply := truth[name]
			if name == "put" {
				lines.Scan() // the body
				if reply == "" {
					reply, id = fmt.Sprintf("INSERTED %d\r\n", id), id+1
				}
			}
			if _, err := io.WriteString(conn, reply); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return ln.Addr().String()
}

func TestLiesAreCounted(t *testing.T) {
	for _, c := range []struct{ command, lie, sample string }{
		{"put", "BURIED 4\r\n", `put answered "BURIED 4"`},
		{"put", "INSERTED 0\r\n", "put answered with an id that is zero or was the last job's"},
		{"put", "INSERTED 4\r\n", "put answered with an id that is zero or was the last job's"},
		{"reserve", "DEADLINE_SOON\r\n", `reserve answered "DEADLINE_SOON"`},
		{"reserve", "RESERVED 5 8\r\nabcdefgX\r\n", "reserve answered with a body that was not put"},
		{"delete", "NOT_FOUND\r\n", `delete answered "NOT_FOUND"`},
		{"delete", "DELETED\n", client.ErrNoCRLF.Error()},
	} {
		for _, blocking := range []bool{false, true} {
			l := baseLoad()
			l.Conns, l.Body, l.Duration, l.Blocking = 2, 8, busy.Times(50*time.Millisecond), blocking
			res, err := runLoad(context.Background(), target{addr: liar(t, c.command, c.lie)}, l, nil)
			if err != nil {
				t.Errorf("%s answering %q: %v", c.command, c.lie, err)
				continue
			}
			found := false
			for what := range res.Samples {
				found = found || strings.Contains(what, c.sample)
			}
			if !found || res.verdict() == nil {
				t.Errorf("%s answering %q: samples %v", c.command, c.lie, res.Samples)
			}
		}
	}
}

func TestTruthIsNoError(t *testing.T) {
	l := baseLoad()
	l.Conns, l.Body, l.Duration = 2, 8, busy.Times(50*time.Millisecond)
	res, err := runLoad(context.Background(), target{addr: liar(t, "", "")}, l, nil)
	if err != nil || res.verdict() != nil || res.Ops == 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestServerGoesAway(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		scripted(t, conn, [][2]string{
			{"use ", "USING x\r\n"},
		})
		buf := make([]byte, 512)
		conn.Read(buf)
		io.WriteString(conn, "WATCHING 2\r\nWATCHING 1\r\n")
		conn.Read(buf)
		ln.Close()
		conn.Close()
	}()
	l := baseLoad()
	l.Conns, l.Duration, l.Keep = 1, time.Minute, true
	start := time.Now()
	res, err := runLoad(context.Background(), target{addr: ln.Addr().String()}, l, nil)
	if err != nil || res.Errors == 0 || time.Since(start) > busy.Times(10*time.Second) {
		t.Errorf("%+v, %v after %v", res, err, time.Since(start))
	}
}
