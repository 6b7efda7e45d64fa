package httpserve_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/limits"
)

// start serves a handler on a free port, and returns the server and its address.
func start(t *testing.T, h http.Handler, c httpserve.Config) (*httpserve.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := httpserve.New(h, c)
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return d, l.Addr().String()
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		httpserve.NewProblem(http.StatusRequestEntityTooLarge, "JOB_TOO_BIG", err.Error()).Write(w)
		return
	}
	fmt.Fprintf(w, "%s %s %s", r.Proto, r.Method, body)
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	_, addr := start(t, http.HandlerFunc(echo), httpserve.Config{HTTP2: true})
	for version, set := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		protocols := new(http.Protocols)
		set(protocols)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		reply, err := (&http.Client{Transport: transport}).Post("http://"+addr, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		if want := version + " POST hello"; string(got) != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}

// TestConnContext: all requests of a connection have what ConnContext has put into its
// context.
func TestConnContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	config := httpserve.Config{HTTP2: true, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, key{}, c.RemoteAddr().String())
	}}
	_, addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Context().Value(key{}) == r.RemoteAddr)
	}), config)
	for _, set := range []func(*http.Protocols){func(p *http.Protocols) { p.SetHTTP1(true) }, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }} {
		protocols := new(http.Protocols)
		set(protocols)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		for range 2 {
			reply, err := (&http.Client{Transport: transport}).Get("http://" + addr)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(reply.Body)
			reply.Body.Close()
			if string(got) != "true" {
				t.Errorf("a request of %v has not the context of its connection", protocols)
			}
		}
	}
}

// TestRawRequests sends requests that package http's client does not send.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	_, addr := start(t, http.HandlerFunc(echo), httpserve.Config{MaxBody: 100})
	tests := map[string]struct {
		send string
		want []string // expected in the answer, in this order
	}{
		"HTTP/1.0":        {"GET / HTTP/1.0\r\n\r\n", []string{"200 OK", "HTTP/1.0 GET"}},
		"pipelined":       {"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"200 OK", "200 OK"}},
		"continue":        {"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", []string{"100 Continue", "200 OK", "hi"}},
		"header too long": {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", httpserve.MaxHeader+1) + "\r\n\r\n", []string{"431 "}},
		"body too long":   {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n" + strings.Repeat("x", 101), []string{"413 ", "Connection: close", httpserve.ProblemType, `"code":"JOB_TOO_BIG"`}},
		"no request":      {"this is no request at all\r\n\r\n", []string{"400 "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			io.WriteString(c, test.send) // may fail when the server has read enough
			got, _ := io.ReadAll(c)
			rest, found := string(got), true
			for _, want := range test.want {
				if _, rest, found = strings.Cut(rest, want); !found {
					t.Fatalf("%q is not in its place in %q", want, got)
				}
			}
		})
	}
}

// TestRefusedUnread: a client that asks before it sends a body, and is refused, gets the
// answer without having sent the body. The answer says that the connection ends, because the
// body could arrive all the same.
func TestRefusedUnread(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnsupportedMediaType) }
	_, addr := start(t, http.HandlerFunc(refuse), httpserve.Config{MaxBody: 100})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(httpserve.BodyTimeout * 2 / 3)) // before the server gives up the body
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != http.StatusUnsupportedMediaType || !got.Close {
		t.Errorf("%d, the connection ends: %v", got.StatusCode, got.Close)
	}
}

// TestShutdown: handlers that wait are notified, and connections that have sent nothing are
// not waited for.
func TestShutdown(t *testing.T) {
	t.Parallel()
	waits := make(chan bool)
	d, addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waits <- true
		<-httpserve.Ending(r.Context())
		if r.Context().Err() == nil {
			io.WriteString(w, "ended")
		}
	}), httpserve.Config{})
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	waiting, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	io.WriteString(waiting, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-waits
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(waiting), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(reply.Body); string(got) != "ended" {
		t.Errorf("the request that waited was answered %q", got)
	}
	if n := d.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// TestMaxConnections: HTTP has 32 connections beyond the limit, and no more.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	_, addr := start(t, http.HandlerFunc(echo), httpserve.Config{Limits: limits.New(1, 0, 0)})
	request := func() (*http.Response, net.Conn, error) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		return reply, c, err
	}
	_, first, err := request()
	for range 32 {
		if _, c, err := request(); err != nil {
			t.Fatal(err)
		} else {
			defer c.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, c, err := request(); err == nil {
		t.Error("one more connection was served")
	} else {
		c.Close()
	}
	first.Close()
	for { // until the server has noticed that the first one is closed
		if _, c, err := request(); err == nil {
			c.Close()
			return
		}
	}
}

// TestHandshakeTimeout: a TLS handshake that stands still is ended.
func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	serveVirtualWith(t, echo, httpserve.Config{TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}, HandshakeTimeout: 2 * time.Second}, func(t *testing.T, p *pipes) {
		if text, after := answered(t, p.dial()); text != "" || after != 2*time.Second {
			t.Errorf("%q after %v", text, after)
		}
	})
}
