package main

import (
	"io"
	"syscall"
)

// A cipher is a TLS connection of the loop. TLS reads from its descriptor only after the poll
// has reported it. So bytes that TLS has read ahead are
// never forgotten, and the descriptor is read once for each event.
type cipher struct {
	*secureConn
	link     *epollConn
	readable bool // the poll has reported it, and nothing was read since

	in     []byte
	lo, hi int // in[lo:hi] was read and is not yet with TLS
}

// cipherBuffer is the size of one read, in bytes.
const cipherBuffer = 64 << 10

// newCipher puts the descriptor of a connection below TLS.
func newCipher(c *secureConn, l *epollConn) *cipher {
	sc := &cipher{secureConn: c, link: l, in: make([]byte, cipherBuffer)}
	c.raw.nonBlocking = (*descriptor)(sc)
	return sc
}

// A descriptor is the lower side of a cipher. It returns EAGAIN, after which TLS can continue.
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

// Write implements io.Writer. Bytes that the socket does not accept stay in unsent.
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
