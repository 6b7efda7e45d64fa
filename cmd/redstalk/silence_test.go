package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"redstalk/tools/conformance/child"
	"redstalk/tools/redistest"
)

// TestSilence: while the store does not answer, redstalk says so, before and after it has given up.
func TestSilence(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	_, addr := child.Serve(t, exec.Command(redstalkd, "--store", redis.URL()))
	redis.Stop()
	defer redis.Continue()
	got := runIn(t.Context(), "", "stats", "--server", addr, "--timeout", "2500ms")
	said := strings.Split(strings.TrimSpace(got.err), "\n")
	if got.code != exitServer || len(said) != 2 || !strings.HasPrefix(said[0], "redstalk: connected to "+addr+", but no reply for 2s: its store") ||
		!strings.HasPrefix(said[1], "redstalk: asking for stats: no reply within 2.5s: its store") {
		t.Errorf("%d %q", got.code, said)
	}
	if got = runIn(t.Context(), "", "stats", "--server", addr, "--timeout", "2500ms", "--quiet"); strings.Count(got.err, "\n") != 1 {
		t.Errorf("with --quiet: %q", got.err)
	}
}

// TestProgress: a command whose work grows with the jobs says how far it is, also if that takes longer than --timeout.
func TestProgress(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	left.Store(1000)
	release := make(chan struct{})
	addr := fakeServer(t, func(line string) string {
		switch {
		case strings.HasPrefix(line, "stats-tube"):
			page := fmt.Sprintf("---\ncurrent-jobs-ready: %d\n", left.Load())
			if left.Add(-300) == 400 {
				close(release)
			}
			return fmt.Sprintf("OK %d\r\n%s\r\n", len(page), page)
		case strings.HasPrefix(line, "flush-tube"):
			<-release
			return "FLUSHED 1000\r\n"
		}
		return "OK 12\r\n---\n- flush\n\r\n"
	})
	got := runIn(t.Context(), "", "flush", "-t", "a", "--yes", "--server", addr, "--timeout", "1s")
	if got.code != 0 || got.out != "1,000 jobs deleted\n" || !strings.HasPrefix(got.err, "redstalk: flushing tube a: 30%, 300 of 1,000\n") || strings.Contains(got.err, "away") {
		t.Errorf("%+v", got)
	}
}

// TestHTTPPort: an HTTP port as --server is recognized, also while it waits for more of a request.
func TestHTTPPort(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	waits := fakeServer(t, func(line string) string { // for what a preface of HTTP/2 is long
		if len(line) < 24 {
			return ""
		}
		return "HTTP/1.1 400 Bad Request\r\n\r\n"
	})
	for _, addr := range []string{server.Listener.Addr().String(), waits} {
		for _, args := range []string{"status", "put x", "reserve --exec true --wait forever"} {
			got := runIn(t.Context(), "", append(strings.Fields(args), "--server", addr)...)
			if got.code != exitServer || !strings.Contains(got.err, addr+" is an HTTP port") || strings.Contains(got.err, "no reply") {
				t.Errorf("%s: %+v", args, got)
			}
		}
	}
}

// TestTooBig: a body that is too long is refused with the limit.
func TestTooBig(t *testing.T) {
	t.Parallel()
	addr := startServer(t, redstalkd, "--store", "memory:", "-z", "1000")
	if got := runIn(t.Context(), strings.Repeat("x", 1001), "put", "--server", addr); got.code != exitFailed || !strings.Contains(got.err, "longer than 1,000 bytes") {
		t.Errorf("%+v", got)
	}
}

// fakeServer answers each line as a function says.
func fakeServer(t *testing.T, answer func(line string) string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					io.WriteString(conn, answer(in.Text()))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestSilentOldServer: move-from says that the server from which it moves, or that to which it does, does not answer.
func TestSilentOldServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.Addr().String()
	for _, args := range [][]string{{addr}, {startServer(t, redstalkd, "--store", "memory:"), "--to", addr}} {
		got := runIn(t.Context(), "", append([]string{"move-from", "--timeout", "2500ms"}, args...)...)
		if want := "redstalk: connected to " + addr + ", but no reply for 2s"; got.code != exitServer || !strings.HasPrefix(got.err, want) {
			t.Errorf("%q: %d %q", args, got.code, got.err)
		}
	}
}
