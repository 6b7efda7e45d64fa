package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"redstalk/storage"
)

// maxEvents is how many ready connections one turn takes.
const maxEvents = 256

// loops are the loops of a server, which share its connections. They begin
// with the first connection.
type loops struct {
	store storage.Store
	hall  *hall
	log   *slog.Logger

	mu     sync.Mutex
	all    []*loop
	next   int  // gets the next connection
	failed bool // to make a loop, which is said once
}

// Loops returns how many goroutines of a server watch all its connections, and so
// wait in the kernel much of the time. They leave processors to the store: half
// of what goes through a loop is waiting for the kernel to move bytes, and the
// other half is the store's.
func Loops() int { return max(1, runtime.NumCPU()/2) }

// adopt makes a wire of conn if it has a descriptor to watch; nil if not.
func (ls *loops) adopt(conn net.Conn, wake func(*turn)) wire {
	sc, is := conn.(syscall.Conn)
	if !is {
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
	if err := l.add(w); err != nil {
		ls.log.Error("a connection cannot be watched by epoll", "err", err)
		syscall.Close(fd)
		return nil
	}
	conn.Close() // the duplicate stays
	return w
}

// duplicate gives a connection's descriptor a second number, which the
// runtime's own poller does not watch.
func duplicate(sc syscall.Conn) (fd int, err error) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	var errno syscall.Errno
	err = raw.Control(func(original uintptr) {
		var r uintptr
		r, _, errno = syscall.Syscall(syscall.SYS_FCNTL, original, syscall.F_DUPFD_CLOEXEC, 0)
		fd = int(r)
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return fd, err
}

// pick chooses the loop of a new connection, and starts the loops first.
func (ls *loops) pick() *loop {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for len(ls.all) < Loops() {
		l, err := newLoop(ls.store, ls.hall)
		if err != nil {
			if !ls.failed {
				ls.log.Error("no epoll now; connections get goroutines of their own", "err", err)
			}
			ls.failed = true
			break
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

// loop watches many connections with one epoll descriptor, edge-triggered, on a
// goroutine of its own: a turn is one wait, the sessions of all connections on
// which something happened, and one call of the store.
type loop struct {
	store   storage.Store
	hall    *hall
	shares  storage.Gatherer // the store, if it is one
	epoll   int
	waker   [2]int // a pipe: a byte in it ends the wait
	done    chan struct{}
	events  []syscall.EpollEvent
	turn    turn
	within  turn         // of more
	awoken  []*epollWire // of the look
	yielded time.Time    // when it last let others run
	resting bool         // it does not count as awake in the hall

	mu       sync.Mutex
	wires    map[int32]*epollWire // by descriptor
	batches  []*storage.Batch     // to be handed over with the next turn
	again    []*epollWire         // to be woken in the next turn
	asleep   bool                 // it waits, or is about to, for events only
	stopping bool
}

func newLoop(store storage.Store, h *hall) (*loop, error) {
	l := &loop{store: store, hall: h, done: make(chan struct{}), wires: make(map[int32]*epollWire)}
	l.shares, _ = store.(storage.Gatherer)
	l.events = make([]syscall.EpollEvent, maxEvents)
	var err error
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err = syscall.Pipe2(l.waker[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		syscall.Close(l.epoll)
		return nil, err
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(l.waker[0])}
	if err = syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, l.waker[0], &event); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *loop) stop() {
	l.ask(func() { l.stopping = true })
	<-l.done
}

func (l *loop) close() {
	syscall.Close(l.waker[1])
	syscall.Close(l.waker[0])
	syscall.Close(l.epoll)
}

// ask changes what the next turn does, and sees to it that there is one.
func (l *loop) ask(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	if l.asleep {
		l.asleep = false
		syscall.Write(l.waker[1], []byte{0})
	}
}

// patience is how long the next wait may take: no time if something was asked
// for, or somebody is to be served who waits in the hall, else for ever.
func (l *loop) patience() (ms int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping || len(l.batches) > 0 || len(l.again) > 0 {
		return 0
	}
	if round := l.hall.rest(); round != nil {
		l.batches = append(l.batches, round)
		return 0
	}
	l.resting, l.asleep = true, true
	return -1
}

// edges is what a connection is watched for. EPOLLET is negative in package
// syscall.
const edges = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | syscall.EPOLLPRI | 1<<31

// add begins to watch w. Its session may be woken before add returns.
func (l *loop) add(w *epollWire) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wires[int32(w.fd)] = w
	event := syscall.EpollEvent{Events: edges, Fd: int32(w.fd)}
	err := syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, w.fd, &event)
	if err != nil {
		delete(l.wires, int32(w.fd))
	}
	return err
}

func (l *loop) run() {
	defer close(l.done)
	defer l.close()
	l.hall.rise()
	defer l.leaveHall()
	more := l.more // once, as it is allocated
	for l.look(&l.turn, l.patience()) {
		switch {
		case len(l.turn.batches) < 2 && l.hall.size.Load() == 0:
			l.turn.end(l.store) // as nobody seems to be there to share with
		case l.shares != nil:
			l.shares.DoGathering(more, l.turn.batches...)
			l.turn.clear()
		default:
			l.look(&l.turn, 0) // what has come meanwhile can join this turn
			l.turn.end(l.store)
		}
	}
}

// leaveHall is for a loop that ends, and leaves to the usher who waits.
func (l *loop) leaveHall() {
	for !l.resting {
		round := l.hall.rest()
		if l.resting = round == nil; !l.resting {
			storage.DoBatch(l.store, round)
		}
	}
}

// look waits for events and has the sessions that they concern add to a turn;
// false if the loop is to stop.
func (l *loop) look(t *turn, ms int) bool {
	l.yield(time.Now())
	n, err := syscall.EpollWait(l.epoll, l.events, ms)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		panic("epoll_wait: " + err.Error()) // the descriptor is ours alone
	}
	if !l.find(t, l.events[:max(n, 0)]) {
		return false
	}
	for _, w := range l.awoken {
		w.wake(t)
	}
	clear(l.awoken)
	l.awoken = l.awoken[:0]
	return true
}

// yieldEvery is how often a loop goes through the runtime's scheduler.
const yieldEvery = 2 * time.Millisecond

// yield goes through the scheduler now and then, which a loop under load never
// does by itself. A goroutine that has not for 10 ms is taken for one that runs
// too long: the runtime's monitor takes the processor away from it whenever it
// is in a system call, and is awake itself every 20 µs, which costs a tenth of
// the throughput.
func (l *loop) yield(now time.Time) {
	if now.Sub(l.yielded) >= yieldEvery {
		l.yielded = now
		runtime.Gosched()
	}
}

// more is what a turn within a turn comes to, for storage.Gatherer.
func (l *loop) more() int {
	l.look(&l.within, 0)
	defer l.within.end(l.store)
	return len(l.within.batches)
}

// find collects whom the events concern, and what was asked for, which is t's,
// as is a round for those in the hall; false if the loop is to stop.
func (l *loop) find(t *turn, events []syscall.EpollEvent) bool {
	if l.resting {
		l.resting = false
		l.hall.rise()
	} else if round := l.hall.glance(); round != nil {
		t.batches = append(t.batches, round)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = false
	l.awoken = append(l.awoken, l.again...)
	t.batches = append(t.batches, l.batches...)
	clear(l.again)
	clear(l.batches)
	l.again, l.batches = l.again[:0], l.batches[:0]
	for i := range events {
		if events[i].Fd == int32(l.waker[0]) {
			var spent [8]byte
			syscall.Read(l.waker[0], spent[:])
			continue
		}
		// An event may be for a descriptor that was closed since, or has even
		// been given out again: being woken in vain does no harm.
		if w := l.wires[events[i].Fd]; w != nil && w.note(events[i].Events) {
			l.awoken = append(l.awoken, w)
		}
	}
	return !l.stopping
}

// epollWire is a wire on a descriptor that a loop watches.
type epollWire struct {
	loop *loop
	fd   int
	wake func(*turn)
	full bool // the last read filled the buffer; belongs to the session

	pending atomic.Int64 // len(kept), for whoever does not hold the lock

	mu      sync.Mutex
	kept    []byte // to be sent when there is room; changed by keep
	drained uint64 // bytes that were kept and then sent
	err     error  // of writing, or that it was cut
	eager   bool   // a short read does not mean that the socket is empty
	closed  bool
}

// note takes down what an event says, and returns whether the session should
// be woken.
func (w *epollWire) note(events uint32) bool {
	const fromClient = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	w.mu.Lock()
	defer w.mu.Unlock()
	if events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR|syscall.EPOLLPRI) != 0 {
		w.eager = true
	}
	waiting := len(w.kept) > 0
	if waiting {
		w.drain()
	}
	return events&fromClient != 0 || waiting && len(w.kept) == 0
}

// drain sends what was kept back. The lock is held.
func (w *epollWire) drain() {
	if w.closed || w.err != nil {
		w.keep(nil)
		return
	}
	n, err := send(w.fd, w.kept)
	w.drained += uint64(n)
	w.keep(w.kept[n:])
	if err != nil {
		w.err = err
		w.keep(nil)
	}
}

// keep keeps p to be sent later, instead of what was kept so far. The lock is
// held.
func (w *epollWire) keep(p []byte) {
	if len(p) == 0 {
		p = nil
	}
	w.kept = p
	w.pending.Store(int64(len(p)))
}

// send writes until nothing is left or there is no room.
func send(fd int, p []byte) (sent int, err error) {
	for sent < len(p) {
		n, err := syscall.Write(fd, p[sent:])
		switch {
		case n > 0:
			sent += n
		case err == syscall.EAGAIN:
			return sent, nil
		case err != nil && err != syscall.EINTR:
			return sent, err
		}
	}
	return sent, nil
}

// Read implements wire. A read that does not fill the buffer has emptied the
// socket: what comes later is a new edge. That is not so for the end of the
// stream, nor does a read go past a byte of urgent data: after either reading
// goes on until nothing is left.
func (w *epollWire) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(w.fd, p)
		w.full = n == len(p)
		switch {
		case n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case err == syscall.EAGAIN:
			return 0, w.whyNothing()
		case err != syscall.EINTR:
			return 0, err
		}
	}
}

func (w *epollWire) whyNothing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return errNothing
}

// More implements wire.
func (w *epollWire) More() bool {
	if w.full {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.eager || w.err != nil
}

// Write implements wire.
func (w *epollWire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	n := 0
	if len(w.kept) == 0 {
		if n, w.err = send(w.fd, p); w.err != nil {
			return n, w.err
		}
	}
	if n < len(p) {
		w.keep(append(w.kept, p[n:]...))
	}
	return len(p), nil
}

// WriteVec is Write of several pieces with one system call, which
// protocol.Writer prefers for large bodies.
func (w *epollWire) WriteVec(pieces [][]byte) error {
	w.mu.Lock()
	n := 0
	if len(w.kept) == 0 && w.err == nil {
		n, w.err = sendVec(w.fd, pieces)
	}
	w.mu.Unlock()
	for _, p := range pieces {
		skip := min(n, len(p))
		n -= skip
		if skip == len(p) {
			continue
		}
		if _, err := w.Write(p[skip:]); err != nil {
			return err
		}
	}
	return nil
}

// maxVec is how many pieces go into one system call; the kernel takes 1024.
const maxVec = 64

// sendVec sends the first pieces and returns how many bytes went out.
func sendVec(fd int, pieces [][]byte) (int, error) {
	var vec [maxVec]syscall.Iovec
	n := 0
	for _, p := range pieces {
		if len(p) == 0 {
			continue
		}
		if n == maxVec {
			break
		}
		vec[n].Base = &p[0]
		vec[n].SetLen(len(p))
		n++
	}
	if n == 0 {
		return 0, nil
	}
	sent, _, errno := syscall.Syscall(syscall.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vec[0])), uintptr(n))
	runtime.KeepAlive(pieces)
	switch errno {
	case 0:
		return int(sent), nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, nil
	}
	return 0, errno
}

// Kept implements wire.
func (w *epollWire) Kept() int { return int(w.pending.Load()) }

// Drained implements wire.
func (w *epollWire) Drained() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// Hand implements wire.
func (w *epollWire) Hand(b *storage.Batch) {
	w.loop.ask(func() { w.loop.batches = append(w.loop.batches, b) })
}

// Again implements wire.
func (w *epollWire) Again() {
	w.loop.ask(func() { w.loop.again = append(w.loop.again, w) })
}

// maxDiscard is how much Settled throws away at a time.
const maxDiscard = 16 << 10

// Settled implements wire.
func (w *epollWire) Settled() bool {
	var discarded [maxDiscard]byte
	n, err := syscall.Read(w.fd, discarded[:])
	if n < 0 && err != syscall.EAGAIN && err != syscall.EINTR {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil || len(w.kept) == 0 && (unsent(w.fd) == 0 || isReset(w.fd))
}

// isReset returns whether the other side refuses what was sent to it, as one does
// that closed the connection before. A read does not tell, as it sees the end of
// the stream first, and the kernel goes on counting what was never confirmed.
func isReset(fd int) bool {
	cause, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	return err != nil || cause != 0
}

// unsent is how many bytes the kernel has been given that the other side has
// not confirmed. It is 0 where the kernel cannot tell, and for a socket of the
// file system, where what was written is with the other side already.
func unsent(fd int) int {
	if domain, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_DOMAIN); err != nil || domain == syscall.AF_UNIX {
		return 0
	}
	var n int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Close implements wire.
func (w *epollWire) Close() {
	w.loop.mu.Lock()
	delete(w.loop.wires, int32(w.fd))
	w.loop.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.keep(nil)
		syscall.Close(w.fd)
	}
}

// Cut implements wire.
func (w *epollWire) Cut() {
	w.mu.Lock()
	if !w.closed {
		w.err = errCut
		w.keep(nil)
		syscall.Shutdown(w.fd, syscall.SHUT_RDWR)
	}
	w.mu.Unlock()
	w.wake(nil)
}
