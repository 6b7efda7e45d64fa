package server

import (
	"log/slog"
	"net"
	"runtime"
	"sync"
	"syscall"

	"redstalk/server/queue"
)

// loops are the loops of a server, which share its connections. They begin
// with the first connection.
type loops struct {
	queue *queue.Queue
	log   *slog.Logger

	mu      sync.Mutex // guards all and next
	all     []*loop
	next    int       // gets the next connection
	noEpoll sync.Once // the line in the log about it
	noAIO   sync.Once // likewise
}

// Loops returns how many goroutines of a server watch all its connections, and so
// wait in the kernel much of the time. They leave processors to the store: half
// of what goes through a loop is waiting for the kernel to move bytes, and the
// other half is the store's.
func Loops() int { return max(1, runtime.NumCPU()/2) }

// adopt makes a wire of conn if it has a descriptor to watch; nil if not.
func (ls *loops) adopt(conn net.Conn, wake func(submitter)) wire {
	if w := ls.watch(conn, wake, func(*epollWire) {}); w != nil {
		return w
	}
	return nil // a nil pointer in an interface is not nil
}

// adoptSecure is adopt for a connection with TLS, whose handshake is over.
func (ls *loops) adoptSecure(sc *secureConn, wake func(submitter)) wire {
	t := &tlsWire{conn: sc.Conn, records: sc.records}
	noting := func(to submitter) {
		sc.records.news.Store(true)
		wake(to)
	}
	t.epollWire = ls.watch(sc.records.Conn, noting, func(w *epollWire) { sc.records.wire = w })
	if t.epollWire == nil {
		sc.records.wire = nil
		return nil
	}
	return t
}

// watch makes a wire of conn, and tells use before the wire can wake anybody; nil if conn
// cannot be watched.
func (ls *loops) watch(conn net.Conn, wake func(submitter), use func(*epollWire)) *epollWire {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	l := ls.pick()
	if l == nil {
		return nil
	}
	fd, err := duplicate(sc)
	if err != nil {
		return nil
	}
	w := &epollWire{loop: l, fd: fd, wake: wake}
	use(w)
	if err := l.add(w); err != nil {
		ls.log.Error("a connection cannot be watched by epoll", "err", err)
		syscall.Close(fd)
		return nil
	}
	conn.Close() // the duplicate stays
	return w
}

// pick chooses the loop of a new connection, and starts the loops first.
func (ls *loops) pick() *loop {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for len(ls.all) < Loops() {
		l, err := newLoop(ls.queue)
		if err != nil {
			ls.noEpoll.Do(func() {
				ls.log.Error("no epoll now; connections get goroutines of their own", "err", err)
			})
			break
		}
		if err := l.sendTogether(); err != nil {
			ls.noAIO.Do(func() {
				ls.log.Info("no asynchronous I/O here; replies are sent one by one", "err", err)
			})
		}
		ls.all = append(ls.all, l)
		go l.run()
	}
	if len(ls.all) == 0 {
		return nil
	}
	ls.next = (ls.next + 1) % len(ls.all)
	return ls.all[ls.next]
}

// stop ends the loops. Their connections must have ended.
func (ls *loops) stop() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.all {
		l.stop()
	}
	ls.all = nil
}
