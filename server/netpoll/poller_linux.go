package netpoll

import (
	"log/slog"
	"net"
	"runtime"
	"sync"
	"syscall"

	"redstalk/server/queue"
)

// Poller distributes the connections of a server over epoll loops. It starts the loops
// with the first connection.
type Poller struct {
	queue *queue.Queue
	log   *slog.Logger

	mu         sync.Mutex // guards all and next
	all        []*loop
	next       int       // index of the loop that got the last connection
	logNoEpoll sync.Once // logs once that epoll does not work
	logNoAIO   sync.Once // logs once that asynchronous I/O does not work
}

// NewPoller returns a Poller for sessions of this queue. Errors go to log.
func NewPoller(q *queue.Queue, log *slog.Logger) *Poller { return &Poller{queue: q, log: log} }

// Loops returns how many loops, each with a goroutine, watch all connections of a server.
// There is one for every two processors: a command costs about as much in the kernel, which
// the loop waits for, as in the store, which needs the other processors.
func Loops() int { return max(1, runtime.NumCPU()/2) }

// adopt makes a wire of conn if it has a descriptor that epoll can watch, else it returns nil.
func (p *Poller) adopt(conn net.Conn, wake func(Submitter)) Wire {
	if w := p.register(conn, wake, func(*epollWire) {}); w != nil {
		return w
	}
	return nil // a nil pointer in an interface is not nil
}

// adoptTLS is adopt for a connection with TLS whose handshake is complete.
func (p *Poller) adoptTLS(conn *TLSConn, wake func(Submitter)) Wire {
	w := &tlsWire{conn: conn.Conn, records: conn.records}
	onEvent := func(to Submitter) {
		conn.records.unreadEvent.Store(true)
		wake(to)
	}
	w.epollWire = p.register(conn.records.Conn, onEvent, func(below *epollWire) { conn.records.wire = below })
	if w.epollWire == nil {
		conn.records.wire = nil
		return nil
	}
	return w
}

// register adds conn to a loop. It passes the new wire to beforeEvents before the wire can
// wake anybody. It returns nil if epoll cannot watch conn.
func (p *Poller) register(conn net.Conn, wake func(Submitter), beforeEvents func(*epollWire)) *epollWire {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	l := p.nextLoop()
	if l == nil {
		return nil
	}
	fd, err := duplicate(sc)
	if err != nil {
		return nil
	}
	w := &epollWire{loop: l, fd: fd, wake: wake}
	beforeEvents(w)
	if err := l.add(w); err != nil {
		p.log.Error("epoll cannot watch a connection", "err", err)
		syscall.Close(fd)
		return nil
	}
	conn.Close() // the duplicate stays open
	return w
}

// nextLoop returns the loop for a new connection. It starts the loops first if there are none.
func (p *Poller) nextLoop() *loop {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.all) < Loops() {
		l, err := newLoop(p.queue)
		if err != nil {
			p.logNoEpoll.Do(func() {
				p.log.Error("epoll does not work; each connection gets goroutines of its own", "err", err)
			})
			break
		}
		if err := l.batchSends(); err != nil {
			p.logNoAIO.Do(func() {
				p.log.Info("asynchronous I/O does not work; replies are sent one by one", "err", err)
			})
		}
		p.all = append(p.all, l)
		go l.run()
	}
	if len(p.all) == 0 {
		return nil
	}
	p.next = (p.next + 1) % len(p.all)
	return p.all[p.next]
}

// Stop ends the loops. Their connections must have ended.
func (p *Poller) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.all {
		l.stop()
	}
	p.all = nil
}
