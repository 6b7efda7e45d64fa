package httpserve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/httpserve"
)

// pipes is a listener whose connections are in memory, so that time can be virtual.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	mine, theirs := net.Pipe()
	p.dialed <- theirs
	return mine
}

// serveVirtual serves a handler in virtual time while test runs.
func serveVirtual(t *testing.T, h http.HandlerFunc, test func(t *testing.T, p *pipes)) {
	serveVirtualWith(t, h, httpserve.Config{}, test)
}

func serveVirtualWith(t *testing.T, h http.HandlerFunc, config httpserve.Config, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		d := httpserve.New(h, config)
		served := make(chan error, 1)
		go func() { served <- d.Serve(p) }()
		test(t, p)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if n := d.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// answered reads until the server closes the connection, and returns how long that took.
func answered(t *testing.T, c net.Conn) (string, time.Duration) {
	t.Helper()
	began := time.Now()
	text, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("reading: %v", err)
	}
	c.Close()
	return string(text), time.Since(began)
}

// readAll answers with the result of reading the body.
func readAll(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%d %v", n, err)
}

// TestSlowRequests: a request that arrives too slowly is ended at its deadline.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
	for name, test := range map[string]struct {
		send  string
		every time.Duration // between the following bytes; 0: none follow
		after time.Duration // when the connection is closed
		want  string        // expected in what was received before
	}{
		"nothing":                 {"", 0, httpserve.HeaderTimeout, ""},
		"half a header":           {"GET / HTTP/1.1\r\nHost: x\r\n", 0, httpserve.HeaderTimeout, ""},
		"a header without end":    {"GET / HTTP/1.1\r\nA: ", time.Second, httpserve.HeaderTimeout, ""},
		"no body":                 {post, 0, httpserve.BodyTimeout, "0 "},
		"half a body":             {post + "hello", 0, httpserve.BodyTimeout, "5 "},
		"a body in drops":         {post, 10 * time.Second, httpserve.BodyTimeout, " "},
		"a chunk without end":     {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 0, httpserve.BodyTimeout, "3 "},
		"a body nobody reads":     {strings.Replace(post, "/", "/unread", 1), 0, 0, "unread"},
		"nothing after a request": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0, httpserve.DefaultIdleTimeout, "0 <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serveVirtual(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/unread" {
					io.WriteString(w, "unread")
					return
				}
				readAll(w, r)
			}, func(t *testing.T, p *pipes) {
				c := p.dial()
				dripped := make(chan bool)
				go func() {
					drip(c, test.send, test.every)
					close(dripped)
				}()
				text, after := answered(t, c)
				<-dripped
				// net/http gives a client half a second more to read the last answer.
				if after < test.after || after > test.after+time.Second || !strings.Contains(text, test.want) {
					t.Errorf("%q after %v", text, after)
				}
			})
		})
	}
}

// drip sends text, and then one byte at a time until that fails.
func drip(c net.Conn, text string, every time.Duration) {
	_, err := io.WriteString(c, text)
	for every > 0 && err == nil {
		time.Sleep(every)
		_, err = io.WriteString(c, "x")
	}
}

// TestSlowBodyWithinRate: a large body can take long, at a sufficient rate.
func TestSlowBodyWithinRate(t *testing.T) {
	t.Parallel()
	serveVirtual(t, readAll, func(t *testing.T, p *pipes) {
		c := p.dial()
		go func() {
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", 100<<16)
			for range 100 {
				time.Sleep(time.Second)
				c.Write(make([]byte, 1<<16))
			}
		}()
		if text, after := answered(t, c); !strings.HasSuffix(text, fmt.Sprintf("%d <nil>", 100<<16)) || after < 100*time.Second {
			t.Errorf("%q after %v", text, after)
		}
	})
}

// TestHandlerMayWait: the time limits are for clients. A handler can wait for hours, also
// after it has read a body, and is notified when its client leaves.
func TestHandlerMayWait(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	serveVirtual(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(5 * time.Hour):
			io.WriteString(w, "at last")
		case <-r.Context().Done():
			gone.Store(errors.Is(r.Context().Err(), context.Canceled))
		}
	}, func(t *testing.T, p *pipes) {
		const request = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
		c := p.dial()
		go io.WriteString(c, request)
		if text, after := answered(t, c); !strings.HasSuffix(text, "at last") || after < 5*time.Hour {
			t.Errorf("%q after %v", text, after)
		}
		c = p.dial()
		io.WriteString(c, request)
		synctest.Wait()
		c.Close()
		synctest.Wait()
		if !gone.Load() {
			t.Error("the handler was not notified that its client has left")
		}
	})
}

// TestSlowReaders: a client that reads nothing is cut off; one that reads a little at a time
// is not.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 1<<20)
	var failed atomic.Int64 // how long a failed write took; not a channel, which would be outside of virtual time
	serveVirtual(t, func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		if _, err := w.Write(large); err != nil {
			failed.Store(int64(time.Since(began)))
		}
	}, func(t *testing.T, p *pipes) {
		c := p.dial()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(2 * httpserve.DefaultWriteTimeout)
		if after := time.Duration(failed.Load()); after != httpserve.DefaultWriteTimeout {
			t.Errorf("cut off after %v", after)
		}
		c = p.dial()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		n, some := 0, make([]byte, 1<<16)
		for {
			time.Sleep(httpserve.DefaultWriteTimeout / 2)
			m, err := c.Read(some)
			if n += m; err != nil {
				break
			}
		}
		if n < len(large) {
			t.Errorf("%d bytes came", n)
		}
	})
}
