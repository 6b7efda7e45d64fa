package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/protocol"
	protoclient "redstalk/protocol/client"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/conformance/busy"
)

// onTCP runs a server on a loopback address, with epoll loops on Linux.
func onTCP(t *testing.T, c Config) (s *Server, dial func() (net.Conn, *protoclient.Conn)) {
	t.Helper()
	return onTCPWith(t, c, embedded.NewMemory(), 0)
}

// onTCPWith is onTCP on a store, with bodies up to maxBody bytes; 0 is the default.
func onTCPWith(t *testing.T, c Config, store storage.Store, maxBody int) (s *Server, dial func() (net.Conn, *protoclient.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Log = slog.New(slog.DiscardHandler)
	s = New(queue.New(store, queue.Config{Log: c.Log, MaxJobSize: maxBody}), c)
	go s.Serve(l)
	return s, func() (net.Conn, *protoclient.Conn) {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(3 * time.Minute))
		t.Cleanup(func() { conn.Close() })
		return conn, protoclient.New(conn)
	}
}

func wantLine(t *testing.T, r *protoclient.Conn, want string) {
	t.Helper()
	if got, err := r.Line(); got != want || err != nil {
		t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

// openFiles returns how many descriptors this process has; 0 where that is unknown.
func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// TestShutdownOnTCP shuts down a server with a holder, a waiter, a client in the middle of a command, one
// that has closed its half of the connection, and an idle one. No descriptor and no goroutine is left.
func TestShutdownOnTCP(t *testing.T) {
	files, goroutines := openFiles(), runtime.NumGoroutine()
	s, dial := onTCP(t, Config{})
	var all []net.Conn
	for _, test := range []struct{ send, first string }{
		{"put 0 0 60 1\r\nx\r\n", "INSERTED 1"},
		{"reserve\r\n", "RESERVED 1 1"},
		{"list-tube-used\r\nreserve\r\n", "USING default"},
		{"list-tube-used\r\nput 0 0 60 5\r\nab", "USING default"},
		{"list-tube-used\r\n", "USING default"},
	} {
		conn, r := dial()
		io.WriteString(conn, test.send)
		wantLine(t, r, test.first)
		all = append(all, conn)
	}
	half, r := dial()
	io.WriteString(half, "reserve-with-timeout 9\r\n")
	half.(*net.TCPConn).CloseWrite()
	wantLine(t, r, "TIMED_OUT")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	s.queue.Close(ctx)
	for _, conn := range append(all, half) {
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("instead of the end: %v", err)
		}
		conn.Close()
	}
	limit := time.Now().Add(time.Minute)
	for openFiles() > files || runtime.NumGoroutine() > goroutines {
		if time.Now().After(limit) {
			t.Fatalf("%d files, at first %d; %d goroutines, at first %d", openFiles(), files, runtime.NumGoroutine(), goroutines)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestShutdownAbortsOnTCP: a client that does not read delays Shutdown only until its context ends.
func TestShutdownAbortsOnTCP(t *testing.T) {
	s, dial := onTCP(t, Config{WriteTimeout: -1})
	conn, _ := dial()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go io.WriteString(conn, strings.Repeat("stats\r\n", 100_000))
	awaitBuffered(t, s)
	wantShutdownAborts(t, s)
}

// TestWriteTimeoutOnTCP is TestWriteTimeout with an epoll loop.
func TestWriteTimeoutOnTCP(t *testing.T) {
	s, dial := onTCP(t, Config{WriteTimeout: 200 * time.Millisecond})
	conn, _ := dial()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go io.WriteString(conn, strings.Repeat("stats\r\n", 100_000))
	begun := awaitBuffered(t, s)
	for s.queue.Counters.Connections.Load() > 0 {
		if time.Since(begun) > time.Minute {
			t.Fatal("the connection is not closed")
		}
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(begun); took < 150*time.Millisecond {
		t.Errorf("closed after %v", took)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// awaitBuffered waits until replies are buffered for a client, and returns the time.
func awaitBuffered(t *testing.T, s *Server) time.Time {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		for _, ss := range s.allSessions() {
			if ss.signals.Load()&running == 0 && ss.wire.PendingBytes() > 0 {
				return time.Now()
			}
		}
	}
	t.Fatal("nothing is buffered")
	panic("unreachable")
}

// TestShutdownCutsNoReplyShort: during Shutdown a client that reads late, and continues to send, gets
// whole replies up to the end. That is not a matter of course: the kernel answers bytes that come to a
// closed connection with a reset, and then discards what it has not sent yet.
func TestShutdownCutsNoReplyShort(t *testing.T) {
	s, dial := onTCP(t, Config{})
	conn, r := dial()
	go io.WriteString(conn, strings.Repeat("list-tube-used\r\n", 1_000_000))
	awaitBuffered(t, s)
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	for !s.closing.Load() {
		time.Sleep(time.Millisecond)
	}
	text, _ := io.ReadAll(r)
	if rest := strings.ReplaceAll(string(text), "USING default\r\n", ""); rest != "" || len(text) == 0 {
		t.Errorf("of %d bytes these are no replies: %q", len(text), rest[max(0, len(rest)-80):])
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownWaitsForNoReader: a client that does not read its last replies delays Shutdown until its
// context ends, and no longer.
func TestShutdownWaitsForNoReader(t *testing.T) {
	s, dial := onTCP(t, Config{})
	conn, _ := dial()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	const commands = 10_000
	io.WriteString(conn, strings.Repeat("list-tube-used\r\n", commands))
	for s.queue.Counters.Commands[protocol.ListTubeUsed].Load() < commands {
		time.Sleep(time.Millisecond)
	}
	wantShutdownAborts(t, s)
}

// wantShutdownAborts shuts down a server whose client does not read its replies.
func wantShutdownAborts(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	if took := time.Since(begun); took > storeGrace {
		t.Errorf("shutdown took %v, as if the connection had not been aborted", took)
	}
}

// watchManyOnTCP makes a connection watch n tubes.
func watchManyOnTCP(t *testing.T, conn net.Conn, in *protoclient.Conn, n int) {
	t.Helper()
	var text strings.Builder
	for i := range n {
		text.WriteString("watch t" + strconv.Itoa(i) + "\r\n")
	}
	go io.WriteString(conn, text.String())
	for i := range n {
		wantLine(t, in, "WATCHING "+strconv.Itoa(i+2))
	}
}

// listLength returns the length of the answer to list-tubes-watched for default and n tubes of
// watchManyOnTCP.
func listLength(n int) int {
	var p protocol.Page
	p.Item("default")
	for i := range n {
		p.Item("t" + strconv.Itoa(i))
	}
	size := len(p.Bytes())
	return len("OK \r\n\r\n") + len(strconv.Itoa(size)) + size
}

// TestManyTubesDelayNobody: a connection that watches very many tubes does not delay others while it looks
// for jobs in all of them, lists them, or ends. That once took seconds.
func TestManyTubesDelayNobody(t *testing.T) {
	const tubes, limit = 20_000, 500 * time.Millisecond // on an idle machine
	s, dial := onTCP(t, Config{})
	many, in := dial()
	watchManyOnTCP(t, many, in, tubes)
	other, replies := dial()
	putUntil := func(what string, done func() bool) {
		for id := 1; !done(); id++ {
			begun := time.Now()
			io.WriteString(other, "put 0 0 60 1\r\nx\r\npeek-buried\r\n")
			if _, err := replies.Line(); err != nil {
				t.Fatal(err)
			}
			wantLine(t, replies, "NOT_FOUND")
			if took := time.Since(begun); took > limit && took > busy.Times(limit) {
				t.Errorf("%s: a put took %v", what, took)
			}
		}
	}
	io.WriteString(other, "use elsewhere\r\n")
	wantLine(t, replies, "USING elsewhere")

	for command, reply := range map[string]int{"reserve-with-timeout 0": len("TIMED_OUT\r\n"), "list-tubes-watched": listLength(tubes)} {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			const n = 30
			io.WriteString(many, strings.Repeat(command+"\r\n", n))
			if _, err := io.CopyN(io.Discard, in, int64(n*reply)); err != nil {
				t.Error(err)
			}
		}()
		putUntil(command, func() bool {
			select {
			case <-answered:
				return true
			default:
				return false
			}
		})
	}

	many.Close()
	putUntil("the end", func() bool { return len(s.allSessions()) == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWaitersOnTCP: waiting connections get jobs that others put, jobs whose delay ends while no command
// comes, and jobs that come while they begin to wait.
func TestWaitersOnTCP(t *testing.T) {
	s, dial := onTCP(t, Config{})
	worker, jobs := dial()
	producer, replies := dial()
	io.WriteString(producer, "put 0 1 60 1\r\nd\r\n")
	wantLine(t, replies, "INSERTED 1")
	io.WriteString(worker, "list-tube-used\r\nreserve\r\n")
	wantLine(t, jobs, "USING default")
	wantLine(t, jobs, "RESERVED 1 1") // a second later
	wantLine(t, jobs, "d")
	for i := range 200 {
		id := strconv.Itoa(i + 2)
		io.WriteString(worker, "reserve\r\n")
		io.WriteString(producer, "put 0 0 60 1\r\nx\r\n")
		wantLine(t, replies, "INSERTED "+id)
		wantLine(t, jobs, "RESERVED "+id+" 1")
		wantLine(t, jobs, "x")
	}
	if awake := s.queue.LoopsAwake(); awake < 0 || awake > Loops() {
		t.Errorf("%d of %d loops are awake", awake, Loops())
	}
}
