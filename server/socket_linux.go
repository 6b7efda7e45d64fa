package server

import (
	"runtime"
	"syscall"
	"unsafe"
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
