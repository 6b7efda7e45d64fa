package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// raw sends bytes to the server, and returns its answer up to the end of the connection. If more is set, raw
// then sends it repeatedly until the server stops reading or 1 GiB was sent.
func (a *harness) raw(send, more string) (got string, sent int) {
	a.t.Helper()
	c, err := net.Dial("tcp", a.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	sent, err = io.WriteString(c, send)
	for n := 0; more != "" && err == nil && sent < 1<<30; sent += n {
		n, err = io.WriteString(c, more)
	}
	if more == "" {
		c.(*net.TCPConn).CloseWrite()
	}
	text, _ := io.ReadAll(c) // the connection can be reset after an answer
	return string(text), sent
}

// TestEndless: a header or a body that never ends is refused when it exceeds the limit. The server reads no more
// than that, apart from what is in socket buffers.
func TestEndless(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	t.Parallel()
	a := start(t, Config{})
	const post = "POST /v1/tubes/t/jobs%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%s\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 8<<10, strings.Repeat(" ", 8<<10))
	piece := strings.Repeat(" ", 8<<10)
	for name, test := range map[string]struct{ send, more, want string }{
		"a header":             {"GET / HTTP/1.1\r\n", "A: b\r\n", " 431 "},
		"a line of a header":   {"GET / HTTP/1.1\r\nA: ", piece, " 431 "},
		"a path":               {"GET /", strings.Repeat("x", 8<<10), " 431 "},
		"JSON in chunks":       {fmt.Sprintf(post, "", jsonType, "Transfer-Encoding: chunked"), chunk, " 413 "},
		"JSON of any length":   {fmt.Sprintf(post, "", jsonType, "Content-Length: 9223372036854775807"), piece, " 413 "},
		"bytes in chunks":      {fmt.Sprintf(post, "", "application/octet-stream", "Transfer-Encoding: chunked"), chunk, " 413 "},
		"a batch in chunks":    {fmt.Sprintf(post, "/batch", jsonType, "Transfer-Encoding: chunked"), chunk, " 413 "},
		"an extension of them": {fmt.Sprintf(post, "", jsonType, "Transfer-Encoding: chunked") + "1;", strings.Repeat("x", 8<<10), " 400 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, sent := a.raw(test.send, test.more)
			if sent > 64<<20 || got != "" && !strings.HasPrefix(got, "HTTP/1.1"+test.want) {
				t.Errorf("after %d bytes the answer is %.300q", sent, got)
			}
		})
	}
	t.Cleanup(a.empty)
}

// empty checks that there is no job and that none was put.
func (a *harness) empty() {
	a.t.Helper()
	if s, err := a.queue.Stats(context.Background()); err != nil || s.Jobs != 0 || s.Ready+s.Delayed+s.Reserved+s.Buried != 0 {
		a.t.Errorf("there are jobs: %+v (%v)", s, err)
	}
}

// TestHalfSent: a request that is truncated at any byte has no effect: no job is put, not even one of a batch.
func TestHalfSent(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	whole := func(path, kind, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, kind, len(body), body)
	}
	for _, request := range []string{
		whole("/v1/tubes/t/jobs", jsonType, `{"body":"one"} `),
		whole("/v1/tubes/t/jobs", "application/octet-stream", "any bytes"),
		whole("/v1/tubes/t/jobs/batch", jsonType, `[{"body":"one"},{"body":"two"}] `),
		"POST /v1/tubes/t/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		for end := 0; end < len(request); end += 1 + end/40 {
			if got, _ := a.raw(request[:end], ""); strings.HasPrefix(got, "HTTP/1.1 20") {
				t.Errorf("the answer to %q is %q", request[:end], got)
			}
		}
		a.empty()
		if got, _ := a.raw(request, ""); !strings.HasPrefix(got, "HTTP/1.1 20") {
			t.Errorf("the answer to the whole %q is %q", request, got)
		}
		a.want(http.StatusOK, "DELETE", "/v1/tubes/t/jobs", "")
		a = start(t, Config{})
	}
}

// TestGoneInTheMiddle: if a client reads only a part of a large answer and then disconnects or stops reading, the
// jobs that were leased for it are ready again, without a failure.
func TestGoneInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(net.Conn){
		"disconnects":   func(c net.Conn) { c.Close() },
		"stops reading": func(net.Conn) { time.Sleep(httpserve.DefaultWriteTimeout + time.Second) },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := embedded.NewMemory()
			q := queue.New(store, queue.Config{})
			server := httpserve.New(New(q, Config{}), httpserve.Config{})
			l := oneConn{make(chan net.Conn)}
			go server.Serve(l)
			ctx := context.Background()
			for range 3 {
				if _, err := q.Put(ctx, queue.NewJob{Tube: "t", TTR: 3600, Body: make([]byte, 50_000)}); err != nil {
					t.Fatal(err)
				}
			}
			clientConn, serverConn := net.Pipe()
			l.conns <- serverConn
			io.WriteString(clientConn, "POST /v1/reserve?tube=t&n=3 HTTP/1.1\r\nHost: x\r\nX-Redstalk: 1\r\nContent-Length: 0\r\n\r\n")
			if n, err := io.ReadFull(clientConn, make([]byte, 70_000)); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			if s, err := q.TubeStats(ctx, "t"); err != nil || s.Reserved != 3 {
				t.Errorf("%s: before that: %+v (%v)", name, s, err)
			}
			leave(clientConn)
			synctest.Wait()
			s, err := q.TubeStats(ctx, "t")
			if err != nil || s.Ready != 3 {
				t.Errorf("%s: after that: %+v (%v)", name, s, err)
			}
			if s, err := q.JobStats(ctx, 1); err != nil || s.Counters.Failures() != 0 {
				t.Errorf("%s: the first job is %+v (%v)", name, s, err)
			}
			clientConn.Close()
			close(l.conns)
			ending, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			server.Shutdown(ending)
			q.Close(ending)
			store.Close()
		})
	}
}

// TestLongBodies: bodies of any length and in any encoding arrive complete.
func TestLongBodies(t *testing.T) {
	t.Parallel()
	const most = 300_000
	a := startWith(t, embedded.NewMemory(), Config{}, queue.Config{MaxJobSize: most})
	for _, n := range []int{initialBuffer - 1, initialBuffer, initialBuffer + 1, 2 * initialBuffer, 2*initialBuffer + 1, most} {
		body := strings.Repeat("0123456789abcde", n/15+1)[:n]
		for name, request := range map[string]string{
			"bytes":           fmt.Sprintf("Content-Type: image/png\r\nContent-Length: %d\r\n\r\n%s", n, body),
			"bytes in chunks": fmt.Sprintf("Content-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", n/3, body[:n/3], n-n/3, body[n/3:]),
			"JSON":            fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"body\":\"%s\"}", n+11, body),
		} {
			if got, _ := a.raw("POST /v1/tubes/t/jobs HTTP/1.1\r\nHost: x\r\n"+request, ""); !strings.HasPrefix(got, "HTTP/1.1 201 ") {
				t.Fatalf("%d bytes as %s: %.200s", n, name, got)
			}
			job, err := a.queue.Reserve(context.Background(), 1, []string{"t"}, 0)
			if err != nil || string(job.Body) != body {
				t.Errorf("%d bytes as %s arrive as %d other bytes (%v)", n, name, len(job.Body), err)
			}
		}
	}
}
