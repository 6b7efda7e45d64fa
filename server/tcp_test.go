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

// onTCP runs a server on a loopback address, with loops where there are any.
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

// openFiles is how many descriptors this process has; 0 where that cannot be
// seen.
func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// TestShutdownOnTCP ends a server with a holder, one who waits, one in the
// middle of a command, one that has half closed, and one that does nothing.
// Nothing is left of it.
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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
	limit := time.Now().Add(10 * time.Second)
	for openFiles() > files || runtime.NumGoroutine() > goroutines {
		if time.Now().After(limit) {
			t.Fatalf("%d files, at first %d; %d goroutines, at first %d", openFiles(), files, runtime.NumGoroutine(), goroutines)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestShutdownCutsOffOnTCP: a client that does not read holds Shutdown up only
// until its context ends.
func TestShutdownAbortsOnTCP(t *testing.T) {
	s, dial := onTCP(t, Config{WriteTimeout: -1})
	conn, _ := dial()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go io.WriteString(conn, strings.Repeat("stats\r\n", 100_000))
	awaitBuffered(t, s)
	wantShutdownAborts(t, s)
}

// TestWriteTimeoutOnTCP: as with the pump.
func TestWriteTimeoutOnTCP(t *testing.T) {
	s, dial := onTCP(t, Config{WriteTimeout: 200 * time.Millisecond})
	conn, _ := dial()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go io.WriteString(conn, strings.Repeat("stats\r\n", 100_000))
	begun := awaitBuffered(t, s)
	for s.queue.Counters.Connections.Load() > 0 {
		if time.Since(begun) > 10*time.Second {
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

// awaitKept waits until replies are kept back from the one client, and returns
// when that began.
func awaitBuffered(t *testing.T, s *Server) time.Time {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		for _, ss := range s.allSessions() {
			if ss.signals.Load()&running == 0 && ss.wire.PendingBytes() > 0 {
				return time.Now()
			}
		}
	}
	t.Fatal("nothing is kept back")
	panic("unreachable")
}

// TestShutdownCutsNoReplyShort: a client that reads late, and goes on sending,
// gets whole replies up to the end. The kernel answers what comes to a closed
// connection with a reset, for which it throws away what it has not yet sent.
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

// TestShutdownWaitsForNoReader: a client that does not take its last replies
// holds Shutdown up until its context ends, and no longer.
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

// wantCutOff shuts down a server whose client holds it up.
func wantShutdownAborts(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	if took := time.Since(begun); took > storeGrace {
		t.Errorf("shutdown took %v, as if the connection had not been cut", took)
	}
}

// watchManyOnTCP has a connection watch n tubes.
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

// listLength is how long the answer to list-tubes-watched is for default and n tubes
// of watchManyOnTCP.
func listLength(n int) int {
	var p protocol.Page
	p.Item("default")
	for i := range n {
		p.Item("t" + strconv.Itoa(i))
	}
	size := len(p.Bytes())
	return len("OK \r\n\r\n") + len(strconv.Itoa(size)) + size
}

// TestOthersHaveTheirTurn: a connection that watches very many tubes holds up nobody
// while it looks for jobs in all of them, lists them, or ends. It took seconds.
func TestManyTubesDelayNobody(t *testing.T) {
	const tubes, most = 20_000, 500 * time.Millisecond // on a machine with nothing else to do
	s, dial := onTCP(t, Config{})
	many, in := dial()
	watchManyOnTCP(t, many, in, tubes)
	other, replies := dial()
	busy := func(what string, done func() bool) {
		for id := 1; !done(); id++ {
			begun := time.Now()
			io.WriteString(other, "put 0 0 60 1\r\nx\r\npeek-buried\r\n")
			if _, err := replies.Line(); err != nil {
				t.Fatal(err)
			}
			wantLine(t, replies, "NOT_FOUND")
			if took := time.Since(begun); took > most && took > busy.Times(most) {
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
		busy(command, func() bool {
			select {
			case <-answered:
				return true
			default:
				return false
			}
		})
	}

	many.Close()
	busy("the end", func() bool { return len(s.allSessions()) == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWaitersOnTCP: connections that wait get jobs that others put, that a delay
// ends for while nobody says anything, and that come while they begin to wait.
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
