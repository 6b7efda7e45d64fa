package server

import (
	"runtime"
	"syscall"
	"unsafe"

	"redstalk/protocol"
)

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

// maxVec is how many pieces go into one system call; the kernel takes 1024.
const maxVec = 64

// sendVec writes pieces until nothing is left or there is no room, and returns how many
// bytes went out.
func sendVec(fd int, pieces []protocol.Piece) (sent int, err error) {
	for {
		vec, n := vectorOf(pieces, sent)
		if n == 0 {
			return sent, nil
		}
		now, _, errno := syscall.Syscall(syscall.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vec[0])), uintptr(n))
		runtime.KeepAlive(pieces)
		switch errno {
		case 0:
			sent += int(now)
		case syscall.EAGAIN:
			return sent, nil
		case syscall.EINTR:
		default:
			return sent, errno
		}
	}
}

// vectorOf returns the first n pieces that are not empty, without the bytes that were
// sent already.
func vectorOf(pieces []protocol.Piece, sent int) (vec [maxVec]syscall.Iovec, n int) {
	for i := range pieces {
		p := pieces[i].Bytes
		if len(p) <= sent {
			sent -= len(p)
			continue
		}
		if n == maxVec {
			break
		}
		vec[n].Base = &p[sent]
		vec[n].SetLen(len(p) - sent)
		sent = 0
		n++
	}
	return vec, n
}

// receiveVec reads once into pieces, two at most, and returns whether it has filled
// them.
func receiveVec(fd int, pieces [][]byte) (n int, full bool, err error) {
	var vec [2]syscall.Iovec
	count, room := 0, 0
	for _, p := range pieces {
		if len(p) > 0 {
			vec[count].Base = &p[0]
			vec[count].SetLen(len(p))
			room += len(p)
			count++
		}
	}
	r, _, errno := syscall.Syscall(syscall.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&vec[0])), uintptr(count))
	runtime.KeepAlive(pieces)
	if errno != 0 {
		return 0, false, errno
	}
	return int(r), int(r) == room, nil
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
