package netpoll

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	// MaxWrites is how many sockets one call of Sender.Write can send to.
	MaxWrites = 256
	// MaxPieces is how many pieces of memory Sender.AddVec can send to one socket.
	MaxPieces = 3
)

// A Sender collects writes to many sockets and carries them out with one system call. Only one
// goroutine at a time may use it.
//
// It uses the asynchronous I/O of Linux (io_submit(2)). To a non-blocking socket such a write is
// not asynchronous: it is done within the call. That interface is older than io_uring and as fast
// for this purpose, and system call filters that forbid io_uring, such as those of containers,
// allow it. Only Linux has it.
type Sender struct {
	context  uintptr // the kernel's
	n        int     // writes that were added
	controls [MaxWrites]iocb
	pointers [MaxWrites]*iocb
	vectors  [MaxWrites][MaxPieces]syscall.Iovec // empty between Write and Add
	results  [MaxWrites]ioEvent
	written  [MaxWrites]int
}

// iocb is struct iocb of linux/aio_abi.h. The second field is two fields there. Both are 0, so
// their order does not matter.
type iocb struct {
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

// ioEvent is struct io_event.
type ioEvent struct {
	data   uint64
	_      uint64 // the address of the iocb
	result int64  // bytes, or -errno
	_      int64
}

// IOCB_CMD_PWRITE and IOCB_CMD_PWRITEV. On a socket they are write and writev.
const (
	opWrite  = 1
	opWritev = 8
)

// NewSender returns a Sender. It fails where the kernel, a system call filter or fs.aio-max-nr
// forbids asynchronous I/O.
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

// Close frees the kernel's memory of the Sender. Writes that are added later are not carried out.
func (s *Sender) Close() { syscall.Syscall(syscall.SYS_IO_DESTROY, s.context, 0, 0) }

// Full reports whether Write has to be called before the next Add.
func (s *Sender) Full() bool { return s.n == MaxWrites }

// Add adds a write of p, of at least one byte, to a non-blocking socket. p must not change until
// Write has returned.
func (s *Sender) Add(fd int, p []byte) {
	s.vectors[s.n][0].Base = &p[0] // keeps p from the garbage collector
	c := s.next(fd)
	c.opcode, c.buf, c.size = opWrite, address(&p[0]), uint64(len(p))
}

// AddVec is Add for up to MaxPieces pieces.
func (s *Sender) AddVec(fd int, pieces ...[]byte) {
	vector := &s.vectors[s.n]
	for i, p := range pieces {
		vector[i].Base = unsafe.SliceData(p)
		vector[i].SetLen(len(p))
	}
	c := s.next(fd)
	c.opcode, c.buf, c.size = opWritev, address(vector), uint64(len(pieces))
}

func (s *Sender) next(fd int) *iocb {
	c := &s.controls[s.n]
	c.fd = uint32(fd)
	s.n++
	return c
}

// address returns p as a number for the kernel. It does not keep the memory from the garbage
// collector.
func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// Write carries out the writes that were added, and returns how many bytes each has written. The
// number is 0 also if a write has failed, or if the kernel did not accept it: another write of the
// rest shows the error. The next call overwrites the returned slice.
func (s *Sender) Write() []int {
	written := s.written[:s.n]
	clear(written)
	accepted, _, errno := syscall.Syscall(syscall.SYS_IO_SUBMIT, s.context, uintptr(s.n), uintptr(unsafe.Pointer(&s.pointers)))
	if errno != 0 {
		accepted = 0
	}
	for _, r := range s.await(int(accepted)) {
		written[r.data] = int(max(r.result, 0))
	}
	clear(s.vectors[:s.n])
	s.n = 0
	return written
}

// await returns the results of the writes that the kernel has accepted. They are complete already.
func (s *Sender) await(accepted int) []ioEvent {
	got := 0
	for got < accepted {
		rest := uintptr(accepted - got)
		n, _, errno := syscall.Syscall6(syscall.SYS_IO_GETEVENTS, s.context, rest, rest, uintptr(unsafe.Pointer(&s.results[got])), 0, 0)
		if errno != 0 && errno != syscall.EINTR {
			panic("io_getevents: " + errno.Error()) // nobody else uses the context
		}
		if errno == 0 {
			got += int(n)
		}
	}
	return s.results[:got]
}
