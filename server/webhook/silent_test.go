package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/tube"
)

// pipes are connections in memory. It implements net.Listener.
type pipes struct {
	accepted chan net.Conn
	ended    chan struct{}
	once     sync.Once

	mu       sync.Mutex
	silenced chan struct{} // closed: earlier connections are dead
	dialed   int
}

func newPipes() *pipes {
	return &pipes{accepted: make(chan net.Conn), ended: make(chan struct{}), silenced: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialed++
	p.accepted <- there
	return &pipe{here, p.silenced}, nil
}

// goSilent makes the existing connections dead.
func (p *pipes) goSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.silenced)
	p.silenced = make(chan struct{})
}

// pipe is the client's end of a connection. When it is dead, writes are discarded, and
// nothing can be read.
type pipe struct {
	net.Conn
	silenced <-chan struct{}
}

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case <-p.silenced:
		return len(b), nil
	default:
		return p.Conn.Write(b)
	}
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		n, err := p.Conn.Read(b)
		select {
		case <-p.silenced:
			if err != nil {
				return 0, err
			}
		default:
			return n, err
		}
	}
}

// TestSilentConnection: a dead HTTP/2 connection, on which not even its end arrives, is
// noticed soon, and calls use another one.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		between := newPipes()
		s := &httptest.Server{Listener: between, EnableHTTP2: true, Config: &http.Server{
			Handler:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			ErrorLog: log.New(io.Discard, "", 0),
		}}
		s.TLS = &tls.Config{MaxVersion: tls.VersionTLS12} // with 1.3 both ends write at the same time, which blocks a pipe
		s.StartTLS()
		defer s.Close()
		cas := x509.NewCertPool()
		cas.AddCert(s.Certificate())
		transport := newTransport(cas, DefaultTargetConcurrency)
		transport.DialContext = between.dial
		w := newHarness(t, Config{transport: transport, Allow: allow(t, "*")})
		w.push("t", tube.Policy{Push: tube.Push{URL: "https://example.com/"}})
		first := w.put("t", "x")
		advance(time.Second)
		if s := w.job(first); s.State != tube.Gone {
			t.Fatalf("the first job: %+v, %q", s, w.log.all())
		}
		between.goSilent()
		second := w.put("t", "x")
		advance(30 * time.Second)
		if s := w.job(second); s.State != tube.Gone || between.dialed != 2 {
			t.Errorf("after %d connections: %+v, %q", between.dialed, s, w.log.all())
		}
		w.end()
		transport.CloseIdleConnections()
	})
}
