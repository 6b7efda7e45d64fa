package testserver

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Proxy forwards connections to a server, and breaks them when it is told to.
type Proxy struct {
	Addr string

	listener net.Listener

	mu     sync.Mutex
	target string // of new connections
	conns  map[net.Conn]struct{}
	mute   bool // replies are dropped
	cut    bool // the next reply is dropped, and all connections are broken then
	shut   bool // new connections are closed at once

	late sync.RWMutex // locked while replies are delayed
}

// NewProxy starts a proxy in front of the server at target.
func NewProxy(t testing.TB, target string) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		p.Shut(true)
		l.Close()
		p.Cut()
		running.Wait()
	})
	return p
}

func (p *Proxy) accept(running *sync.WaitGroup) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		far, err := net.Dial("tcp", target)
		if err != nil || !p.keep(near, far) {
			near.Close()
			continue
		}
		running.Go(func() { p.forward(far, near, false) })
		running.Go(func() { p.forward(near, far, true) })
	}
}

func (p *Proxy) keep(near, far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		far.Close()
		return false
	}
	p.conns[near], p.conns[far] = struct{}{}, struct{}{}
	return true
}

// forward copies from one connection to the other, and an end of the stream as well.
func (p *Proxy) forward(to, from net.Conn, replies bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		drop, cut := replies && p.mute, replies && p.cut && n > 0
		p.cut = p.cut && !cut
		p.mu.Unlock()
		if cut {
			p.Cut()
			return
		}
		if n > 0 && !drop {
			if replies {
				p.late.RLock()
			}
			to.Write(buf[:n])
			if replies {
				p.late.RUnlock()
			}
		}
		if err == io.EOF {
			to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

// Cut breaks all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	clear(p.conns)
}

// CutOnReply breaks all connections instead of forwarding the next reply.
func (p *Proxy) CutOnReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
}

// Mute drops all replies from now on, or no longer.
func (p *Proxy) Mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// Delay keeps back all replies until the returned function is called, which the caller must do once.
func (p *Proxy) Delay() (end func()) {
	p.late.Lock()
	return p.late.Unlock
}

// Lead forwards new connections to another server.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Shut closes new connections at once, or no longer.
func (p *Proxy) Shut(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = on
}
