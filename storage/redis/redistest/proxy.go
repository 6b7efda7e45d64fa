package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and lets connections break at a
// chosen moment.
type Proxy struct {
	Addr string // host:port

	to       string
	listener net.Listener
	wait     sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	request  func([]byte) Fate
	answer   func([]byte) Fate
	instead  func([]byte) string
	refusing bool
}

// Fate is what becomes of a piece of the traffic.
type Fate int

// The fates.
const (
	Pass Fate = iota // goes through
	Cut              // is lost, and the connection with it
	Last             // goes through, and then the connection breaks
	Drop             // is lost, as on a line that is dead
)

// NewProxy returns a proxy before the server. It ends with the test.
func NewProxy(tb testing.TB, s *Server) *Proxy {
	tb.Helper()
	return NewProxyTo(tb, s.Addr)
}

// NewProxyTo returns a proxy before whoever listens at an address, host:port. It
// ends with the test.
func NewProxyTo(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: addr, listener: l, conns: make(map[net.Conn]bool)}
	p.wait.Add(1)
	go p.accept()
	tb.Cleanup(func() {
		l.Close()
		p.Break()
		p.wait.Wait()
	})
	return p
}

// URL is how an engine reaches the server through the proxy.
func (p *Proxy) URL() string { return "redis://" + p.Addr + "/0" }

// Judge has every piece of a request and of an answer judged; nil lets all
// pass. A piece is what comes in one read.
func (p *Proxy) Judge(request, answer func([]byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request, p.answer = request, answer
}

// Answer has requests answered by the proxy, unless they are to get "", and never
// reach the server; nil lets all pass. Each must come in one read.
func (p *Proxy) Answer(instead func(request []byte) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = instead
}

// Swallow has connections accepted, and nothing pass, as on a line that is dead;
// or not any more. What was swallowed is lost, so then all connections break.
func (p *Proxy) Swallow(is bool) {
	all := func([]byte) Fate { return Drop }
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.request, p.answer = all, all; !is {
		p.breakAll() // first: no connection may go on with a part missing
		p.request, p.answer = nil, nil
	}
}

// Refuse has new connections closed at once, and breaks all there are; or not
// any more.
func (p *Proxy) Refuse(is bool) {
	p.mu.Lock()
	p.refusing = is
	p.mu.Unlock()
	if is {
		p.Break()
	}
}

// Break breaks all connections.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breakAll()
}

// breakAll closes all connections. The lock is held.
func (p *Proxy) breakAll() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept() {
	defer p.wait.Done()
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refusing := p.refusing
		p.mu.Unlock()
		server, err := net.DialTimeout("tcp", p.to, time.Second)
		if refusing || err != nil {
			c.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[server] = true, true
		p.mu.Unlock()
		p.wait.Add(2)
		go p.copy(server, c, func() func([]byte) Fate { return p.answering(c) })
		go p.copy(c, server, func() func([]byte) Fate { return p.answer })
	}
}

// answering returns the judge of requests, which answers some to the client. The
// lock is held.
func (p *Proxy) answering(client net.Conn) func([]byte) Fate {
	instead, judge := p.instead, p.request
	if instead == nil {
		return judge
	}
	return func(piece []byte) Fate {
		if text := instead(piece); text != "" {
			client.Write([]byte(text)) // if that fails the client is gone
			return Drop
		}
		if judge == nil {
			return Pass
		}
		return judge(piece)
	}
}

// copy passes on what one side says, as its judge decides.
func (p *Proxy) copy(to, from net.Conn, judge func() func([]byte) Fate) {
	defer p.wait.Done()
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		decide, fate := judge(), Pass
		p.mu.Unlock()
		if decide != nil {
			fate = decide(buf[:n])
		}
		if fate == Pass || fate == Last {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if fate == Cut || fate == Last {
			return
		}
	}
}
