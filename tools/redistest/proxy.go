package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Proxy is a proxy between clients and a server that breaks connections at chosen moments: all
// of them, or by Of those of some clients.
type Proxy struct {
	Addr string // host:port

	to   string
	all  *Part
	wait sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while nobody would accept connections
	links    map[*link]bool
	parts    []*Part // that are being judged, besides all
	instead  func([]byte) string
	refusing bool
}

// Fate is what happens to a piece of the traffic.
type Fate int

// The fates.
const (
	Pass Fate = iota // goes through
	Cut              // is lost, and the connection with it
	Last             // goes through, and then the connection breaks
	Drop             // is lost with everything after it, as on a dead line

	answered // is not passed on, as the proxy itself has answered it
)

// Judge decides about a piece, that is, the bytes of one read. Nil lets everything pass.
type Interceptor func(piece []byte) Fate

// link is a connection of a client, and the corresponding one to the server.
type link struct{ client, server net.Conn }

// sever closes both. With reset the client gets a TCP reset; otherwise the server seems to have
// closed the connection normally.
func (l *link) sever(reset bool) {
	for _, c := range []net.Conn{l.client, l.server} {
		if conn, tcp := c.(*net.TCPConn); tcp && reset {
			conn.SetLinger(0)
		}
		c.Close()
	}
}

// NewProxy returns a proxy before the server. It ends with the test.
func NewProxy(tb testing.TB, s *Server) *Proxy {
	tb.Helper()
	return NewProxyTo(tb, s.Addr)
}

// NewProxyTo returns a proxy before the listener at an address, host:port. It ends with the
// test.
func NewProxyTo(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	p := &Proxy{Addr: "127.0.0.1:0", to: addr, links: make(map[*link]bool)}
	p.all = &Part{p: p}
	if err := p.open(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.shut()
		p.wait.Wait()
	})
	return p
}

// open accepts connections, always at the same address. It can be called twice.
func (p *Proxy) open() error {
	p.mu.Lock()
	ok := p.listener != nil
	p.mu.Unlock()
	if ok {
		return nil
	}
	var l net.Listener
	var err error
	for limit := time.Now().Add(startLimit); ; time.Sleep(10 * time.Millisecond) {
		l, err = net.Listen("tcp", p.Addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(limit) {
			break // somebody's connection may have the port for a while
		}
	}
	if err != nil {
		return fmt.Errorf("opening a proxy: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.Addr = l, l.Addr().String()
	p.wait.Add(1)
	go p.accept(l)
	return nil
}

// shut refuses connections as if nothing listened, and breaks all existing ones, until open is
// called. It can be called twice.
func (p *Proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.breakThose(nil, false)
}

// URL is how an engine reaches the server through the proxy.
func (p *Proxy) URL() string { return "redis://" + p.Addr + "/0" }

// Intercept decides about every piece of a request and of a reply.
func (p *Proxy) Intercept(request, answer Interceptor) { p.all.Intercept(request, answer) }

// Answer makes the proxy answer requests, which then never reach the server, unless the answer
// is ""; nil lets everything pass. Each request must come in one read.
func (p *Proxy) Answer(instead func(request []byte) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = instead
}

// Swallow is that of Part, for all connections.
func (p *Proxy) Swallow(ok bool) { p.all.Swallow(ok) }

// Refuse closes new connections at once, and breaks all existing ones; or ends that.
func (p *Proxy) Refuse(ok bool) {
	p.mu.Lock()
	p.refusing = ok
	p.mu.Unlock()
	if ok {
		p.Break()
	}
}

// Break breaks all connections.
func (p *Proxy) Break() { p.all.Break() }

// breakThose breaks the connections of a part; nil: all. The lock is held.
func (p *Proxy) breakThose(of *Part, reset bool) {
	for l := range p.links {
		if of == nil || of.has(l) {
			l.sever(reset)
		}
	}
}

func (p *Proxy) accept(from net.Listener) {
	defer p.wait.Done()
	for {
		c, err := from.Accept()
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
		l := &link{c, server}
		p.mu.Lock()
		p.links[l] = true
		if p.listener != from { // it was shut meanwhile
			l.sever(false)
		}
		p.mu.Unlock()
		p.wait.Add(2)
		go p.copy(l, server, c, p.request, p.isWhole)
		go p.copy(l, c, server, p.answer, func([]byte) bool { return true })
	}
}

// request decides about a piece of a request.
func (p *Proxy) request(l *link, piece []byte) Fate {
	p.mu.Lock()
	instead := p.instead
	p.mu.Unlock()
	if instead != nil {
		if text := instead(piece); text != "" {
			l.client.Write([]byte(text)) // if that fails the client is gone
			return answered
		}
	}
	return p.judge(l, piece, func(of *Part) Interceptor { return of.request })
}

// answer decides about a piece of an answer.
func (p *Proxy) answer(l *link, piece []byte) Fate {
	return p.judge(l, piece, func(of *Part) Interceptor { return of.answer })
}

// judge returns the first fate that any part to which the connection belongs has
// for the piece.
func (p *Proxy) judge(l *link, piece []byte, judgeOf func(*Part) Interceptor) Fate {
	var judges []Interceptor
	p.mu.Lock()
	for _, of := range append([]*Part{p.all}, p.parts...) {
		if decide := judgeOf(of); decide != nil && of.has(l) {
			judges = append(judges, decide)
		}
	}
	p.mu.Unlock()
	for _, decide := range judges {
		if fate := decide(piece); fate != Pass {
			return fate
		}
	}
	return Pass
}

// pieces are buffers of copy. They are reused, because tests open very many connections.
var pieces = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// isWhole returns whether a piece of a request can be decided about. It always can unless the
// proxy answers requests itself: then the piece must end where a request ends, because the
// server would take the rest of an answered request for a new one.
func (p *Proxy) isWhole(piece []byte) bool {
	p.mu.Lock()
	answers := p.instead != nil
	p.mu.Unlock()
	return !answers || endsWithRequest(piece)
}

// endsWithRequest returns whether text consists of whole requests, or of something else than
// requests.
func endsWithRequest(text []byte) bool {
	for len(text) > 0 && text[0] == '*' {
		line, rest, found := bytes.Cut(text[1:], []byte("\r\n"))
		parts, err := strconv.Atoi(string(line))
		for ; found && err == nil && parts > 0; parts-- {
			var size int
			if line, rest, found = bytes.Cut(rest, []byte("\r\n")); !found || !bytes.HasPrefix(line, []byte("$")) {
				break
			}
			if size, err = strconv.Atoi(string(line[1:])); err == nil {
				found = len(rest) >= size+2
				rest = rest[min(len(rest), size+2):]
			}
		}
		if !found {
			return false
		}
		if err != nil || parts > 0 {
			return true
		}
		text = rest
	}
	return true
}

// copy passes on the bytes of one side as decided, once they are whole.
func (p *Proxy) copy(l *link, to, from net.Conn, decide func(*link, []byte) Fate, whole func([]byte) bool) {
	defer p.wait.Done()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.sever(false)
		delete(p.links, l)
	}()
	piece, dead := pieces.Get().(*[1 << 20]byte), false
	defer pieces.Put(piece)
	buf := piece[:]
	for {
		n, err := from.Read(buf)
		for err == nil && n < len(buf) && !whole(buf[:n]) {
			var more int
			more, err = from.Read(buf[n:])
			n += more
		}
		if err != nil {
			return
		}
		fate := Drop
		if !dead {
			fate = decide(l, buf[:n])
		}
		dead = fate == Drop
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
