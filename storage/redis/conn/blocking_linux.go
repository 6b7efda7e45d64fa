package conn

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// blockingConn is a connection that the runtime's poller does not watch: a thread blocks while
// it waits.
type blockingConn struct {
	net.Conn // the original, closed; it knows the addresses
	fd       int

	reads, writes atomic.Int64 // deadlines, ns since the epoch; 0 if none

	mu     sync.Mutex
	users  int // how many calls are reading or writing
	closed bool
}

// unpoll returns a blocking connection on the same socket; c itself if that is not possible.
func unpoll(c net.Conn) net.Conn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return c
	}
	d := &blockingConn{Conn: c, fd: -1}
	raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			d.fd = n
		}
	})
	if d.fd < 0 {
		return c
	}
	c.Close()
	return d
}

// isIdle returns whether a connection is open and has nothing to read.
func isIdle(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var came error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, came = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	})
	return err == nil && came == unix.EAGAIN
}

// acquire keeps the descriptor from being closed until releaseUse.
func (d *blockingConn) acquire() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.users++
	return true
}

func (d *blockingConn) releaseUse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.closed && d.users == 0 {
		unix.Close(d.fd)
	}
}

// Close implements net.Conn. Blocked reads and writes return.
func (d *blockingConn) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	d.closed = true
	if d.users == 0 {
		return unix.Close(d.fd)
	}
	return unix.Shutdown(d.fd, unix.SHUT_RDWR)
}

// Read implements net.Conn.
func (d *blockingConn) Read(p []byte) (int, error) {
	n, err := d.try("read", unix.POLLIN, &d.reads, func() (int, error) { return unix.Read(d.fd, p) })
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (d *blockingConn) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := d.try("write", unix.POLLOUT, &d.writes, func() (int, error) { return unix.Write(d.fd, p[sent:]) })
		if err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// writeSome implements someWriter.
func (d *blockingConn) writeSome(pieces [][]byte) (int, error) {
	return d.try("write", unix.POLLOUT, &d.writes, func() (int, error) { return unix.Writev(d.fd, pieces) })
}

// try calls do until it succeeds, or the deadline passes.
func (d *blockingConn) try(what string, event int16, deadline *atomic.Int64, do func() (int, error)) (int, error) {
	if !d.acquire() {
		return 0, d.failed(what, net.ErrClosed)
	}
	defer d.releaseUse()
	for {
		n, err := do()
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			err = d.await(event, deadline.Load())
		}
		if err != nil {
			return 0, d.failed(what, err)
		}
	}
}

func (d *blockingConn) failed(what string, err error) error {
	if err == io.EOF {
		return err
	}
	return &net.OpError{Op: what, Net: d.RemoteAddr().Network(), Source: d.LocalAddr(), Addr: d.RemoteAddr(), Err: err}
}

// await blocks the thread until the event or the deadline.
func (d *blockingConn) await(event int16, deadline int64) error {
	timeout := -1
	if deadline != 0 {
		left := time.Until(time.Unix(0, deadline))
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		timeout = int((left + time.Millisecond - 1) / time.Millisecond)
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(d.fd), Events: event}}, timeout)
	if err == unix.EINTR {
		return nil
	}
	return err
}

// SetDeadline implements net.Conn. A deadline applies to reads and writes that begin later.
func (d *blockingConn) SetDeadline(t time.Time) error {
	d.SetReadDeadline(t)
	return d.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn, see SetDeadline.
func (d *blockingConn) SetReadDeadline(t time.Time) error { return setDeadline(&d.reads, t) }

// SetWriteDeadline implements net.Conn, see SetDeadline.
func (d *blockingConn) SetWriteDeadline(t time.Time) error { return setDeadline(&d.writes, t) }

func setDeadline(of *atomic.Int64, t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = t.UnixNano()
	}
	of.Store(ns)
	return nil
}

// SyscallConn implements syscall.Conn.
func (d *blockingConn) SyscallConn() (syscall.RawConn, error) { return rawBlockingConn{d}, nil }

// rawBlockingConn is the descriptor of a blockingConn. It does not wait for readiness.
type rawBlockingConn struct{ d *blockingConn }

func (r rawBlockingConn) Control(do func(uintptr)) error {
	if !r.d.acquire() {
		return net.ErrClosed
	}
	defer r.d.releaseUse()
	do(uintptr(r.d.fd))
	return nil
}

func (r rawBlockingConn) Read(do func(uintptr) bool) error {
	return r.Control(func(fd uintptr) { do(fd) })
}
func (r rawBlockingConn) Write(do func(uintptr) bool) error {
	return r.Control(func(fd uintptr) { do(fd) })
}
