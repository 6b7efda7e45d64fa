package httpserve_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"redstalk/server/httpserve"
)

// waiter is a handler whose requests wait until they may proceed, or must end.
type waiter struct {
	arrived chan struct{}
	proceed chan struct{}
	causes  chan error // why the others ended
}

func newWaiter() *waiter {
	return &waiter{make(chan struct{}, 10), make(chan struct{}), make(chan error, 10)}
}

func (h *waiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/wait" {
		io.WriteString(w, "other")
		return
	}
	ctx, cancel := httpserve.UntilEnding(r)
	defer cancel()
	h.arrived <- struct{}{}
	select {
	case <-h.proceed:
		io.WriteString(w, "let go")
	case <-ctx.Done():
		h.causes <- context.Cause(ctx)
		if _, err := io.WriteString(w, "late"); err == nil && errors.Is(context.Cause(ctx), context.Canceled) && r.Context().Err() == nil {
			h.causes <- errors.New("a client that has left could be written to")
		}
	}
}

// What clients send with a request that waits: at once, and while it waits.
var sentByWaiting = map[string][2]string{
	"nothing":             {"\r\n", ""},
	"body":                {"Content-Length: 2\r\n\r\n{}", ""},
	"chunks":              {"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", ""},
	"continue":            {"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", ""},
	"pipelined":           {"\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n", ""},
	"pipelined later":     {"\r\n", "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"},
	"pipelined in halves": {"\r\nGET /2 HTTP/1.1\r\nHo", "st: x\r\n\r\n"},
	"pipelined much":      {"\r\nGET /2 HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 6000) + "\r\n\r\n", ""},
	"behind a body":       {"Content-Length: 2\r\n\r\n{}", "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"},
	"line end":            {"\r\n", "\r\n"},
}

// dialWaiting sends a request and waits until it waits.
func dialWaiting(t *testing.T, h *waiter, dial func() (net.Conn, error), sent [2]string) net.Conn {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "POST /wait HTTP/1.1\r\nHost: x\r\n"+sent[0])
	<-h.arrived
	io.WriteString(c, sent[1])
	return c
}

// TestGoneWhileWaiting: a client that leaves is noticed, whatever it has sent, and nothing
// can be written to it.
func TestGoneWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, sent := range sentByWaiting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withAndWithoutTLS(t, func(t *testing.T, h *waiter, dial func() (net.Conn, error)) {
				dialWaiting(t, h, dial, sent).Close()
				if err := <-h.causes; !errors.Is(err, context.Canceled) {
					t.Errorf("the wait has ended: %v", err)
				}
				select {
				case err := <-h.causes:
					t.Error(err)
				default:
				}
			})
		})
	}
}

// TestPipelinedDuringWait: what was sent behind a waiting request is answered after that
// request.
func TestPipelinedDuringWait(t *testing.T) {
	t.Parallel()
	for name, sent := range sentByWaiting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withAndWithoutTLS(t, func(t *testing.T, h *waiter, dial func() (net.Conn, error)) {
				c := dialWaiting(t, h, dial, sent)
				h.proceed <- struct{}{}
				from := bufio.NewReader(c)
				want := []string{"let go", "other", "other"}
				if !strings.Contains(sent[0]+sent[1], "GET") {
					want = want[:2]
				}
				for i, text := range want {
					if i == len(want)-1 {
						io.WriteString(c, "GET /3 HTTP/1.1\r\nHost: x\r\n\r\n")
					}
					if got := readAnswer(t, from); got != text {
						t.Errorf("answer %d: %q", i, got)
					}
				}
			})
		})
	}
}

// readAnswer returns the body of the next final answer.
func readAnswer(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	for {
		reply, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		if reply.StatusCode != http.StatusContinue {
			return string(text)
		}
	}
}

// withAndWithoutTLS runs a test twice.
func withAndWithoutTLS(t *testing.T, test func(t *testing.T, h *waiter, dial func() (net.Conn, error))) {
	h := newWaiter()
	_, addr := start(t, h, httpserve.Config{})
	test(t, h, func() (net.Conn, error) { return net.Dial("tcp", addr) })
	// A server of net/http/httptest has a certificate.
	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	defer other.Close()
	h = newWaiter()
	_, addr = start(t, h, httpserve.Config{TLS: &tls.Config{Certificates: other.TLS.Certificates}})
	test(t, h, func() (net.Conn, error) {
		return tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	})
}

// TestGoneWhileWaitingHTTP2: the same with HTTP/2.
func TestGoneWhileWaitingHTTP2(t *testing.T) {
	t.Parallel()
	h := newWaiter()
	_, addr := start(t, h, httpserve.Config{HTTP2: true})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/wait", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-h.arrived
		leave()
	}()
	if _, err := transport.RoundTrip(r); err == nil {
		t.Error("it was answered")
	}
	if err := <-h.causes; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait has ended: %v", err)
	}
}

// TestTooMuchDuringWait: a client that keeps sending ends the wait, and is then served.
func TestTooMuchDuringWait(t *testing.T) {
	t.Parallel()
	h := newWaiter()
	_, addr := start(t, h, httpserve.Config{})
	more := strings.Repeat("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n", 1000)
	c := dialWaiting(t, h, func() (net.Conn, error) { return net.Dial("tcp", addr) }, [2]string{"\r\n", more})
	if err := <-h.causes; !errors.Is(err, httpserve.ErrEnding) {
		t.Errorf("the wait has ended: %v", err)
	}
	from := bufio.NewReader(c)
	for i := range 1001 {
		want := "other"
		if i == 0 {
			want = "late"
		}
		if got := readAnswer(t, from); got != want {
			t.Fatalf("answer %d: %q", i, got)
		}
	}
}

// TestUnreadBodies: a body that does not arrive, or is too large, ends the wait before it
// begins.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	tooLong := func(err error) bool { _, ok := errors.AsType[*http.MaxBytesError](err); return ok }
	for sent, wrong := range map[string]func(error) bool{
		"Content-Length: 2\r\n\r\n{":                                 func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) },
		"Content-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000): tooLong,
		"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n\r\n\r\n":     func(err error) bool { return err != nil },
	} {
		ended := false
		serveVirtual(t, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := httpserve.UntilEnding(r)
			defer cancel()
			<-ctx.Done()
			if err := context.Cause(ctx); !wrong(err) {
				t.Errorf("%.40q: %v", sent, err)
			}
			ended = true
		}, func(t *testing.T, p *pipes) {
			c := p.dial()
			go io.WriteString(c, "POST /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+sent)
			answered(t, c)
		})
		if !ended {
			t.Errorf("%.40q: the handler has not run", sent)
		}
	}
}
