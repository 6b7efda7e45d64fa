package aio

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	// MaxWrites is to how many sockets one system call sends.
	MaxWrites = 256
	// MaxPieces is of how many pieces of memory that may be which one of them gets.
	MaxPieces = 3
)

// A Sender collects writes and carries them out with one system call. It belongs to one goroutine
// at a time.
type Sender struct {
	context  uintptr // of the kernel
	n        int     // writes that were added
	controls [MaxWrites]control
	pointers [MaxWrites]*control
	vectors  [MaxWrites][MaxPieces]syscall.Iovec // empty between Write and Add
	results  [MaxWrites]result
	written  [MaxWrites]int
}

// control is struct iocb of linux/aio_abi.h. The kernel's two halves of the second field are 0,
// so their order does not matter.
type control struct {
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

// result is struct io_event.
type result struct {
	data   uint64
	_      uint64 // the address of the iocb
	result int64  // bytes, or -errno
	_      int64
}

// IOCB_CMD_PWRITE and IOCB_CMD_PWRITEV; to a socket, they are a write and a writev.
const (
	write  = 1
	writev = 8
)

// NewSender fails where the kernel, a filter of system calls or fs.aio-max-nr forbids it.
func NewSender() (*Sender, error) {
	s := &Sender{}
	if _, _, errno := syscall.Syscall(syscall.SYS_IO_SETUP, MaxWrites, uintptr(unsafe.Pointer(&s.context)), 0); errno != 0 {
		return nil, fmt.Errorf("io_setup: %w", errno)
	}
	for i := range s.controls {
		s.controls[i].data = uint64(i)
		s.pointers[i] = &s.controls[i]
	}
	return s, nil
}

// Close gives up what the kernel keeps for the Sender. What is added later is not written.
func (s *Sender) Close() { syscall.Syscall(syscall.SYS_IO_DESTROY, s.context, 0, 0) }

// Full returns whether Write has to come before the next Add.
func (s *Sender) Full() bool { return s.n == MaxWrites }

// Add adds a write of p, one byte at least, to a socket that does not block. p must not change
// until Write has returned.
func (s *Sender) Add(fd int, p []byte) {
	s.vectors[s.n][0].Base = &p[0] // so that p is kept
	c := s.next(fd)
	c.opcode, c.buf, c.size = write, address(&p[0]), uint64(len(p))
}

// AddVec is Add of up to MaxPieces pieces.
func (s *Sender) AddVec(fd int, pieces ...[]byte) {
	vector := &s.vectors[s.n]
	for i, p := range pieces {
		vector[i].Base = unsafe.SliceData(p)
		vector[i].SetLen(len(p))
	}
	c := s.next(fd)
	c.opcode, c.buf, c.size = writev, address(vector), uint64(len(pieces))
}

func (s *Sender) next(fd int) *control {
	c := &s.controls[s.n]
	c.fd = uint32(fd)
	s.n++
	return c
}

// address is for the kernel: what p points to has to be kept by other means.
func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// Write carries out what was added, and returns how many bytes each has written. That is 0 also
// if it failed, or if the kernel did not take it: another write of the rest tells. What is
// returned is overwritten by the next call.
func (s *Sender) Write() []int {
	written := s.written[:s.n]
	clear(written)
	taken, _, errno := syscall.Syscall(syscall.SYS_IO_SUBMIT, s.context, uintptr(s.n), uintptr(unsafe.Pointer(&s.pointers)))
	if errno != 0 {
		taken = 0
	}
	for _, r := range s.await(int(taken)) {
		written[r.data] = int(max(r.result, 0))
	}
	clear(s.vectors[:s.n])
	s.n = 0
	return written
}

// await returns what came of the writes that the kernel has taken. They are over.
func (s *Sender) await(taken int) []result {
	got := 0
	for got < taken {
		rest := uintptr(taken - got)
		n, _, errno := syscall.Syscall6(syscall.SYS_IO_GETEVENTS, s.context, rest, rest, uintptr(unsafe.Pointer(&s.results[got])), 0, 0)
		if errno != 0 && errno != syscall.EINTR {
			panic("io_getevents: " + errno.Error()) // the context is ours alone
		}
		if errno == 0 {
			got += int(n)
		}
	}
	return s.results[:got]
}
