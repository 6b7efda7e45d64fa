package server

import (
	"syscall"
	"unsafe"

	"redstalk/protocol"
)

const (
	// maxTogether is to how many sockets one system call sends.
	maxTogether = 256
	// maxPieces is in how many pieces of memory that may be which one of them gets.
	maxPieces = 3
)

// aio sends to many sockets with one system call, by the asynchronous I/O of Linux
// (io_submit(2)): on a socket that does not block, that is not asynchronous, but a write at
// once. It is older than io_uring and as quick for this, and containers allow it.
//
// It belongs to one goroutine at a time.
type aio struct {
	context  uintptr // of the kernel
	n        int     // writes that were added
	controls [maxTogether]aioControl
	pointers [maxTogether]*aioControl
	vectors  [maxTogether][maxPieces]syscall.Iovec
	results  [maxTogether]aioResult
	written  [maxTogether]int
}

// aioControl is struct iocb of linux/aio_abi.h. The kernel's two halves of the second field
// are 0, so their order does not matter.
type aioControl struct {
	data   uint64
	_      uint64 // aio_key and aio_rw_flags
	opcode uint16
	_      int16 // aio_reqprio
	fd     uint32
	buf    uint64
	size   uint64 // aio_nbytes: bytes, or how many pieces
	_      int64  // aio_offset
	_      uint64
	_, _   uint32 // aio_flags, aio_resfd
}

// aioResult is struct io_event.
type aioResult struct {
	data   uint64
	_      uint64 // the address of the iocb
	result int64  // bytes, or -errno
	_      int64
}

// IOCB_CMD_PWRITE and IOCB_CMD_PWRITEV; to a socket, they are a write and a writev.
const (
	aioWrite  = 1
	aioWritev = 8
)

// newAIO fails where the kernel, a filter of system calls or fs.aio-max-nr forbids it.
func newAIO() (*aio, error) {
	a := &aio{}
	if _, _, errno := syscall.Syscall(syscall.SYS_IO_SETUP, maxTogether, uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil, errno
	}
	for i := range a.controls {
		a.controls[i].data = uint64(i)
		a.pointers[i] = &a.controls[i]
	}
	return a, nil
}

func (a *aio) close() { syscall.Syscall(syscall.SYS_IO_DESTROY, a.context, 0, 0) }

// add adds a write of at most maxPieces pieces, which the caller keeps until write has
// returned. There must be room.
func (a *aio) add(fd int, pieces []protocol.Piece) {
	c, vector := &a.controls[a.n], &a.vectors[a.n]
	c.fd = uint32(fd)
	if len(pieces) == 1 {
		c.opcode, c.buf, c.size = aioWrite, address(&pieces[0].Bytes[0]), uint64(len(pieces[0].Bytes))
	} else {
		c.opcode, c.buf, c.size = aioWritev, address(vector), uint64(len(pieces))
		for i, p := range pieces {
			vector[i].Base = unsafe.SliceData(p.Bytes)
			vector[i].SetLen(len(p.Bytes))
		}
	}
	a.n++
}

// address is for the kernel: what p points to has to be kept by other means.
func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// write carries out what was added, and returns how many bytes each has written. That is 0
// also if it failed, or if the kernel did not take it. What is returned is overwritten by the
// next call.
func (a *aio) write() []int {
	written := a.written[:a.n]
	clear(written)
	taken, _, errno := syscall.Syscall(syscall.SYS_IO_SUBMIT, a.context, uintptr(a.n), uintptr(unsafe.Pointer(&a.pointers)))
	if errno != 0 {
		taken = 0
	}
	for _, r := range a.await(int(taken)) {
		written[r.data] = int(max(r.result, 0))
	}
	clear(a.vectors[:a.n])
	a.n = 0
	return written
}

// await returns what came of the writes that the kernel has taken. They are over.
func (a *aio) await(taken int) []aioResult {
	got := 0
	for got < taken {
		rest := uintptr(taken - got)
		n, _, errno := syscall.Syscall6(syscall.SYS_IO_GETEVENTS, a.context, rest, rest, uintptr(unsafe.Pointer(&a.results[got])), 0, 0)
		if errno != 0 && errno != syscall.EINTR {
			panic("io_getevents: " + errno.Error()) // the context is ours alone
		}
		if errno == 0 {
			got += int(n)
		}
	}
	return a.results[:got]
}
