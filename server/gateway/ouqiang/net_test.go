package ouqiang_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"redstalk/server/gateway/ouqiang"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// waitTimeout limits every wait of these tests; none is expected to come near.
const waitTimeout = time.Minute

// serve serves the gateway on a free port until the end of the test. It returns its queue,
// its address, and a function that shuts the server down.
func serve(t *testing.T) (q *queue.Queue, addr string, shutdown func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log, store := slog.New(slog.DiscardHandler), embedded.NewMemory()
	q = queue.New(store, queue.Config{Log: log})
	server := httpserve.New(ouqiang.New(q, ouqiang.Config{Log: log}), httpserve.Config{Log: log})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	shutdown = func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	}
	t.Cleanup(func() {
		shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
		q.Close(context.Background())
		store.Close()
	})
	return q, l.Addr().String(), shutdown
}

func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitTimeout))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

const pop = "POST /pop HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n{\"topic\":\"t\"}"

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for limit := time.Now().Add(waitTimeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not in %v: %s", waitTimeout, what)
		}
	}
}

// TestConnectionGone: when a waiting client closes its connection, nobody waits any more,
// and the next job stays ready.
func TestConnectionGone(t *testing.T) {
	t.Parallel()
	q, addr, _ := serve(t)
	c := dial(t, addr, pop)
	await(t, "the pop waits", func() bool { return q.Waiters() == 1 })
	c.Close()
	await(t, "nobody waits", func() bool { return q.Waiters() == 0 })
	id, err := q.Put(context.Background(), queue.NewJob{Tube: "t", TTR: 60})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := q.JobStats(context.Background(), id); err != nil || s.Counters != (tube.Counters{}) {
		t.Errorf("the job is %+v (%v)", s, err)
	}
}

// TestEnding: a waiting pop is answered without a job when the server shuts down.
func TestEnding(t *testing.T) {
	t.Parallel()
	q, addr, shutdown := serve(t)
	c := dial(t, addr, pop)
	await(t, "the pop waits", func() bool { return q.Waiters() == 1 })
	shutdown()
	wantAnswer(t, c, done)
}

func wantAnswer(t *testing.T, c net.Conn, want string) *http.Response {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || string(text) != want || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the answer is %s %v %s (%v), want %s", r.Status, r.Header, text, err, want)
	}
	return r
}

// TestBadBodies: an endless request is cut off with an answer; all other HTTP is handled as
// by the old program.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	_, addr, _ := serve(t)
	get := `{"id":"x"}`
	for name, request := range map[string]string{
		"HTTP/1.0":      "POST /get HTTP/1.0\r\nContent-Length: 10\r\n\r\n" + get,
		"content type":  "POST /get HTTP/1.1\r\nHost: h\r\nContent-Type: image/png\r\nContent-Length: 10\r\n\r\n" + get,
		"in chunks":     "POST /get HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"i\r\n7\r\nd\":\"x\"}\r\n0\r\n\r\n",
		"space behind":  "POST /get HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n" + get + " \n",
		"with a query":  "POST /get?id=y HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n" + get,
		"two at a time": "POST /get HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n" + get + "POST /get HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n" + get,
	} {
		t.Run(name, func(t *testing.T) { wantAnswer(t, dial(t, addr, request), done) })
	}
	const unread = `{"code":1,"message":"读取request body失败","data":null}`
	endless := dial(t, addr, "POST /push HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() {
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<16, strings.Repeat(" ", 1<<16))
		for {
			if _, err := io.WriteString(endless, chunk); err != nil {
				return
			}
		}
	}()
	if r := wantAnswer(t, endless, unread); !r.Close {
		t.Error("the connection is kept")
	}
	long := dial(t, addr, "POST /push HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n"+strings.Repeat(" ", 1<<20))
	wantAnswer(t, long, unread)
}
