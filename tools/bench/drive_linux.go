package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"

	"redstalk/protocol/client"
	"redstalk/server/netpoll"
)

// An epollConn is a wire in the epoll loop: a non-blocking descriptor.
type epollConn struct {
	fd       int
	index    int // in its loop's links
	w        *wire
	cipher   *cipher // of a connection with TLS, else nil
	in       decoder
	unsent   []byte // bytes that the socket has not accepted yet
	awaiting int    // replies to come
	timed    bool
	sent     int64 // when the stage was sent
	closed   bool
}

// A loop drives many connections from one thread.
type loop struct {
	r      *run
	epoll  int
	links  []*epollConn
	parked []*epollConn // links whose sessions wait
	spare  []*epollConn // the array the next parked is built in
	live   int          // links not closed
	reply  client.Reply

	// All that the sessions send in one loop iteration goes out with one system call, since
	// the generator shares the machine with the server.
	sender *netpoll.Sender // nil: there is none here, and each stage is sent by itself
	adding []*epollConn    // whose stages the sender has, in its order
}

// drive runs the sessions in one epoll loop. It returns when all are done or
// the run is stopped.
func drive(r *run, wires []*wire) error {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("making an epoll descriptor: %w", err)
	}
	lp := &loop{r: r, epoll: epoll}
	defer lp.close()
	if sender, err := netpoll.NewSender(); err == nil {
		lp.sender = sender
		defer sender.Close()
	}
	for _, w := range wires {
		if err := lp.add(w); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return lp.run()
}

// add adds a wire to the loop. Its descriptor is duplicated and the
// original closed, so that its traffic does not wake Go's own poller.
func (lp *loop) add(w *wire) error {
	secure, isSecure := w.conn.(*secureConn)
	if isSecure {
		w.conn = secure.raw.Conn
	}
	fd, err := duplicate(w.conn)
	if err != nil {
		return fmt.Errorf("taking over a connection: %w", err)
	}
	w.conn.Close()
	l := &epollConn{fd: fd, index: len(lp.links), w: w, in: w.decoder()}
	if isSecure {
		l.cipher = newCipher(secure, l)
	}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(l.index)}
	lp.links = append(lp.links, l)
	lp.live++
	if err := syscall.EpollCtl(lp.epoll, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("watching a connection: %w", err)
	}
	return nil
}

// duplicate returns a descriptor of conn that the caller is to close.
func duplicate(conn net.Conn) (int, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("a %T has no descriptor", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fd int
	var failed error
	err = raw.Control(func(old uintptr) {
		fd, failed = syscall.Dup(int(old))
		if failed == nil {
			syscall.CloseOnExec(fd)
		}
	})
	return fd, errors.Join(err, failed)
}

func (lp *loop) close() {
	for _, l := range lp.links {
		if !l.closed {
			syscall.Close(l.fd)
		}
	}
	syscall.Close(lp.epoll)
}

// pollMillis is how soon an idle loop notices that the run is stopped.
const pollMillis = 20

func (lp *loop) run() error {
	events := make([]syscall.EpollEvent, 256)
	now := lp.r.now()
	for _, l := range lp.links {
		lp.advance(l, now)
	}
	lp.sendAll()
	for lp.live > 0 && !lp.r.stopped() {
		timeout := pollMillis
		if len(lp.parked) > 0 {
			timeout = int(retryInterval.Milliseconds())
		}
		n, err := syscall.EpollWait(lp.epoll, events, timeout)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("awaiting replies: %w", err)
		}
		for _, ev := range events[:max(n, 0)] {
			lp.handle(lp.links[ev.Fd], ev.Events)
		}
		lp.resumeParked()
		lp.sendAll()
	}
	return nil
}

// resumeParked calls next of the waiting sessions again.
func (lp *loop) resumeParked() {
	if len(lp.parked) == 0 {
		return
	}
	waiting := lp.parked
	lp.parked = lp.spare[:0]
	now := lp.r.now()
	for _, l := range waiting {
		lp.advance(l, now)
	}
	lp.spare = waiting
}

// handle handles a readiness event of a connection.
func (lp *loop) handle(l *epollConn, events uint32) {
	if l.closed {
		return
	}
	if events&syscall.EPOLLOUT != 0 {
		lp.flush(l)
	}
	if events&^syscall.EPOLLOUT != 0 && !l.closed {
		lp.read(l)
	}
}

// read reads from the socket once; the poll is level-triggered and reports
// the socket again if there is more. With TLS that can be several records.
func (lp *loop) read(l *epollConn) {
	if l.cipher == nil {
		lp.take(l, func(p []byte) (int, error) { return syscall.Read(l.fd, p) })
		return
	}
	l.cipher.readable = true
	for lp.take(l, l.cipher.Read) {
	}
}

// take passes on the replies from one read. It returns false if nothing was read
// or the connection is closed.
func (lp *loop) take(l *epollConn, read func([]byte) (int, error)) bool {
	n, err := read(l.in.Space())
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return false
	}
	if n <= 0 {
		if err == nil {
			err = io.EOF
		}
		lp.lose(l, quitting(err))
		return false
	}
	l.in.Filled(n)
	now := lp.r.now()
	for !l.closed {
		ok, err := l.in.Next(&lp.reply)
		if err != nil {
			lp.lose(l, err)
			return false
		}
		if !ok {
			return true
		}
		lp.deliver(l, now)
	}
	return false
}

// deliver passes the parsed reply to the session, and starts the next stage if it was
// the last of this one.
func (lp *loop) deliver(l *epollConn, now int64) {
	if l.awaiting == 0 {
		lp.lose(l, fmt.Errorf("a reply nobody awaits: %.60q", lp.reply.Line))
		return
	}
	l.w.s.replied(&lp.reply, now)
	if l.awaiting--; l.awaiting > 0 {
		return
	}
	if l.timed {
		l.w.t.latency.add(now - l.sent)
	}
	lp.advance(l, now)
}

// advance sends the session's next stage, parks the link or closes it.
func (lp *loop) advance(l *epollConn, now int64) {
	if l.closed {
		return
	}
	st, state := l.w.s.next(now)
	switch state {
	case done:
		lp.drop(l)
	case waits:
		lp.parked = append(lp.parked, l)
	default:
		l.awaiting, l.timed, l.sent = st.replies, st.timed, now
		lp.send(l, st.out)
	}
}

// send sends a stage, with those of other links if that is possible.
func (lp *loop) send(l *epollConn, out []byte) {
	if l.cipher != nil {
		if _, err := l.cipher.Write(out); err != nil {
			lp.lose(l, fmt.Errorf("sending commands: %w", err))
		} else if len(l.unsent) > 0 {
			lp.await(l, syscall.EPOLLIN|syscall.EPOLLOUT)
		}
		return
	}
	if l.unsent = out; lp.sender == nil {
		lp.sendOne(l)
		return
	}
	if lp.sender.Full() {
		lp.sendAll()
	}
	lp.sender.Add(l.fd, out)
	lp.adding = append(lp.adding, l)
}

// sendAll sends what the sender has.
func (lp *loop) sendAll() {
	if len(lp.adding) == 0 {
		return
	}
	for i, n := range lp.sender.Write() {
		if l := lp.adding[i]; !l.closed {
			if lp.wrote(l, n, nil); len(l.unsent) > 0 {
				lp.sendOne(l)
			}
		}
	}
	clear(lp.adding)
	lp.adding = lp.adding[:0]
}

// sendOne sends what the socket takes of a stage, and leaves the rest in unsent until there is room.
func (lp *loop) sendOne(l *epollConn) {
	n, err := syscall.Write(l.fd, l.unsent)
	if lp.wrote(l, n, err); len(l.unsent) > 0 {
		lp.await(l, syscall.EPOLLIN|syscall.EPOLLOUT)
	}
}

// flush continues a write that the socket accepted only in part.
func (lp *loop) flush(l *epollConn) {
	n, err := syscall.Write(l.fd, l.unsent)
	lp.wrote(l, n, err)
	if len(l.unsent) == 0 {
		lp.await(l, syscall.EPOLLIN)
	}
}

// wrote handles the result of a write.
func (lp *loop) wrote(l *epollConn, n int, err error) {
	if n > 0 {
		l.unsent = l.unsent[n:]
	}
	if err != nil && err != syscall.EAGAIN && err != syscall.EINTR {
		lp.lose(l, fmt.Errorf("sending commands: %w", err))
	}
}

// await sets the events for which the loop polls the connection.
func (lp *loop) await(l *epollConn, events uint32) {
	if l.closed {
		return
	}
	ev := syscall.EpollEvent{Events: events, Fd: int32(l.index)}
	if err := syscall.EpollCtl(lp.epoll, syscall.EPOLL_CTL_MOD, l.fd, &ev); err != nil {
		lp.lose(l, fmt.Errorf("watching a connection: %w", err))
	}
}

// lose counts err and closes the connection.
func (lp *loop) lose(l *epollConn, err error) {
	if err != nil {
		l.w.t.fail(err.Error())
	}
	lp.drop(l)
}

// drop closes the connection; the kernel removes it from the epoll set.
func (lp *loop) drop(l *epollConn) {
	if l.closed {
		return
	}
	l.closed = true
	lp.live--
	syscall.Close(l.fd)
}
