package zywaited_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/server/gateway/zywaited/pb"
)

// target is a callback server that answers with raw text, and then closes the connection.
type target struct {
	address string
	answer  func(r *http.Request) string // "": no answer, until the client leaves

	mu  sync.Mutex
	got []string // received: method, path, body, and headers that identify the caller
}

// newTarget starts a callback server with one answer for all requests.
func newTarget(t *testing.T, text string) *target {
	return newTargetBy(t, func(*http.Request) string { return text })
}

func newTargetBy(t *testing.T, answer func(*http.Request) string) *target {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	s := &target{address: l.Addr().String(), answer: answer}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *target) serve(c net.Conn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.got = append(s.got, strings.TrimSpace(fmt.Sprintf("%s %s %t %s%s", r.Method, r.URL, len(body) > 0, r.Header.Get("Authorization"), r.Header.Get("Referer"))))
	s.mu.Unlock()
	text := s.answer(r)
	io.WriteString(c, text)
	if text == "" {
		c.Read(make([]byte, 1))
	}
}

func (s *target) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, ", ")
}

// redirect returns an answer that redirects to a URL.
func redirect(status int, to string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, to)
}

// outcome adds a task, and returns whether it is gone after its call, or is called again
// later.
func outcome(t *testing.T, client pb.DelayQueueClient, schema, address string) (done bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	added, err := client.Add(ctx, &pb.AddReq{Name: "n", Args: "a", Callback: &pb.CallbackInfo{Schema: schema, Address: address, Path: "p?secret"}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		task, err := client.Get(ctx, &pb.RetrieveReq{Uid: added.Uid})
		switch {
		case isNotFound(err):
			return true
		case err != nil:
			t.Fatal(err)
		case task.Type == pb.TaskType_TaskRetryDelay:
			return false
		}
	}
}

// TestOutcomes: a task is done by the complete header of a 2xx answer, and by nothing else.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	client := startWith(t, nil, 2*time.Second)
	const ok, none = "HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n\r\n"
	for text, done := range map[string]bool{
		ok + none:                              true,
		ok + "\r\n":                            true,
		ok + "Content-Length: 9\r\n\r\nfailed": true, // cut off: the old program did not read bodies
		ok + "Content-Length: 17\r\n\r\n{\"success\":false}\n":        true,
		ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n":               true,
		"HTTP/1.1 100 Continue\r\n\r\n" + ok + none:                   true,
		"HTTP/1.1 103 Hints\r\n\r\n" + ok + none:                      true,
		"HTTP/1.1 204 x\r\n\r\n":                                      true,
		"HTTP/1.1 205 x\r\n" + none:                                   true,
		"HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n": false,
		"HTTP/1.1 100 Continue\r\n\r\n":                               false,
		"HTTP/1.1 300 x\r\nLocation: /\r\n" + none:                    false,
		"HTTP/1.1 304 x\r\n\r\n":                                      false,
		"HTTP/1.1 302 x\r\n" + none:                                   false,
		"HTTP/1.1 307 x\r\n" + none:                                   false,
		redirect(302, "ftp://127.0.0.1/"):                             false,
		redirect(302, "http://[::"):                                   false,
		redirect(302, "http://10.0.0.1/"):                             false, // not allowed
		"HTTP/1.1 399 x\r\n" + none:                                   false,
		"HTTP/1.1 400 x\r\n" + none:                                   false,
		"HTTP/1.1 410 x\r\n" + none:                                   false,
		"HTTP/1.1 429 x\r\nRetry-After: 1\r\n" + none:                 false,
		"HTTP/1.1 500 x\r\n" + none:                                   false,
		"HTTP/1.1 200 OK":                                             false,
		ok + "Content-Le":                                             false,
		ok + "Content-Length: x\r\n\r\n":                              false,
		"SSH-2.0-x\r\n\r\n":                                           false,
		"\r\n":                                                        false,
		"":                                                            false,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if got := outcome(t, client, "http", newTarget(t, text).address); got != done {
				t.Errorf("done: %v, want %v", got, done)
			}
		})
	}
}

// TestOutcomesByGRPC: a task is not done if the connection ends.
func TestOutcomesByGRPC(t *testing.T) {
	t.Parallel()
	client := start(t, nil)
	for name, serve := range map[string]func(net.Conn){
		"closed at once":     func(net.Conn) {},
		"closed in the head": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					serve(c)
					c.Close()
				}
			}()
			if outcome(t, client, "grpc", l.Addr().String()) {
				t.Error("done")
			}
		})
	}
}

// TestRedirects: a redirect is followed as in the old program, and the last answer counts.
func TestRedirects(t *testing.T) {
	t.Parallel()
	client := start(t, nil)
	for status, want := range map[int]string{
		301: "GET /there false", 302: "GET /there false", 303: "GET /there false", 307: "POST /there true", 308: "POST /there true",
	} {
		good, bad := newTarget(t, "HTTP/1.1 204 x\r\n\r\n"), newTarget(t, "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n")
		for to, done := range map[*target]bool{good: true, bad: false} {
			from := newTarget(t, redirect(status, "http://"+to.address+"/there"))
			if got := outcome(t, client, "http", "user:secret@"+from.address); got != done {
				t.Errorf("%d: done: %v, want %v", status, got, done)
			}
			if calls := from.calls(); !strings.HasPrefix(calls, "POST /p?secret true Basic dXNlcjpzZWNyZXQ=") {
				t.Errorf("%d: the first call was %s", status, calls)
			}
			if calls, _, _ := strings.Cut(to.calls(), ", "); calls != want { // without the credentials and the URL of the first
				t.Errorf("%d: the second call was %q, want %q", status, calls, want)
			}
		}
	}
}

// TestRedirectsWithoutEnd: the number of hops is limited.
func TestRedirectsWithoutEnd(t *testing.T) {
	t.Parallel()
	client := start(t, nil)
	for hops, done := range map[int]bool{9: true, 10: false} {
		s := newTargetBy(t, func(r *http.Request) string {
			if n := len(r.URL.Query().Get("n")); n < hops {
				return redirect(307, "/p?n="+strings.Repeat("x", n+1))
			}
			return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		})
		if got := outcome(t, client, "http", s.address); got != done {
			t.Errorf("%d redirects: done: %v; the calls were %s", hops, got, s.calls())
		}
	}
}
