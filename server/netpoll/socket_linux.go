package netpoll

import (
	"syscall"
	"unsafe"

	"redstalk/protocol"
)

// duplicate returns a second descriptor of a connection, which the runtime's own poller does
// not watch.
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

// send writes until nothing is left or the socket has no room.
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

// maxVec is how many pieces one system call gets; the kernel accepts 1024.
const maxVec = 64

// vector is the pieces of memory of one system call.
type vector struct {
	pieces [maxVec]syscall.Iovec
	n      int // how many pieces are set
	size   int // their bytes
}

// transfer reads or writes the pieces once.
func (v *vector) transfer(trap uintptr, fd int) (int, error) {
	n, _, errno := syscall.Syscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&v.pieces)), uintptr(v.n))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// add adds a piece, unless it is empty.
func (v *vector) add(p []byte) {
	if len(p) > 0 {
		v.pieces[v.n].Base = &p[0]
		v.pieces[v.n].SetLen(len(p))
		v.n++
		v.size += len(p)
	}
}

// sendVec writes pieces until nothing is left or the socket has no room. It returns how many
// bytes it has written.
func sendVec(fd int, pieces []protocol.Piece) (sent int, err error) {
	for {
		var v vector
		v.addUnsent(pieces, sent)
		if v.n == 0 {
			return sent, nil
		}
		n, err := v.transfer(syscall.SYS_WRITEV, fd)
		switch {
		case n > 0:
			sent += n
		case err == syscall.EAGAIN:
			return sent, nil
		case err != nil && err != syscall.EINTR:
			return sent, err
		}
	}
}

// addUnsent adds up to maxVec pieces, without the bytes that have been sent already.
func (v *vector) addUnsent(pieces []protocol.Piece, sent int) {
	for i := 0; i < len(pieces) && v.n < maxVec; i++ {
		p := pieces[i].Bytes
		skip := min(sent, len(p))
		v.add(p[skip:])
		sent -= skip
	}
}

// receiveVec reads once into pieces. It reports whether it has filled them.
func receiveVec(fd int, pieces [][]byte) (n int, full bool, err error) {
	var v vector
	for _, p := range pieces {
		v.add(p)
	}
	n, err = v.transfer(syscall.SYS_READV, fd)
	return n, n == v.size, err
}

// isReset reports whether the peer has refused what was sent to it, as it does after it has
// closed the connection. A read does not show that, since it sees the end of the stream first,
// and the kernel continues to count the bytes that were never acknowledged.
func isReset(fd int) bool {
	cause, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	return err != nil || cause != 0
}

// unsent returns how many written bytes the peer has not acknowledged. It is 0 where the
// kernel cannot tell, and for a Unix socket, where written bytes are with the peer at once.
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
