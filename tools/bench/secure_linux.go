package main

import (
	"io"
	"syscall"
)

// A cipher is the connection of a link with TLS: the descriptor below TLS, of which TLS
// reads what the link's poll has notified of, and no more. So bytes that TLS has read ahead are
// never forgotten, and the descriptor is read once for each event.
type cipher struct {
	*secureConn
	link     *epollConn
	readable bool // the poll has notified of something, and nothing was read since

	in     []byte
	lo, hi int // in[lo:hi] was read and is not yet with TLS
}

// cipherBuffer is how much is read at a time, in bytes.
const cipherBuffer = 64 << 10

// newCipher puts the descriptor of a link below TLS.
func newCipher(c *secureConn, l *epollConn) *cipher {
	sc := &cipher{secureConn: c, link: l, in: make([]byte, cipherBuffer)}
	c.raw.nonBlocking = (*descriptor)(sc)
	return sc
}

// A descriptor is a cipher as TLS sees it. It returns EAGAIN, after which TLS continues.
type descriptor cipher

// Read implements io.Reader.
func (d *descriptor) Read(p []byte) (int, error) {
	if d.lo == d.hi {
		if !d.readable {
			return 0, syscall.EAGAIN
		}
		d.readable = false
		n, err := syscall.Read(d.link.fd, d.in)
		if n == 0 && err == nil {
			err = io.EOF
		}
		if n <= 0 {
			return 0, err
		}
		d.lo, d.hi = 0, n
	}
	n := copy(p, d.in[d.lo:d.hi])
	d.lo += n
	return n, nil
}

// Write implements io.Writer. What the socket does not take is left to the link.
func (d *descriptor) Write(p []byte) (int, error) {
	n := 0
	if len(d.link.unsent) == 0 {
		var err error
		if n, err = syscall.Write(d.link.fd, p); err != nil && err != syscall.EAGAIN && err != syscall.EINTR {
			return 0, err
		}
	}
	if n = max(n, 0); n < len(p) {
		d.link.unsent = append(d.link.unsent, p[n:]...)
	}
	return len(p), nil
}
