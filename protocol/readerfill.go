package protocol

import "io"

// Fill reads from the source once, and blocks as long as the source does. It
// returns the source's error unchanged (io.EOF at the end of the stream). If
// bytes arrive together with an error, the bytes are delivered first, and the next
// Fill returns the error. No error is final: Fill can be called again, for example
// after a read deadline.
func (r *Reader) Fill() error {
	if err := r.err; err != nil {
		r.err = nil
		return err
	}
	if missing := r.missing(); missing > 0 {
		if r.vecs != nil {
			return r.fillBoth()
		}
		if missing >= len(r.buf) {
			return r.fillBody()
		}
	}
	if r.Full() {
		return ErrFull
	}
	r.makeRoom()
	n, err := r.read(r.buf[r.hi:])
	r.hi += n
	r.trackFill(n)
	return err
}

// trackFill records for makeRoom how much of the buffer a read into it has used.
func (r *Reader) trackFill(n int) {
	r.filled = r.hi == len(r.buf)
	if len(r.buf) > minBuffer && n < len(r.buf)/8 {
		r.smallReads++
	} else {
		r.smallReads = 0
	}
}

// missing returns how many bytes of a body can be read directly into r.body, because
// the buffer is empty.
func (r *Reader) missing() int {
	if r.state != inBody || r.body == nil || r.Buffered() > 0 {
		return 0
	}
	return int(r.pending.size) - r.got
}

// fillBody reads into the body only. The last part of a body goes through the buffer,
// so that one read can return the end of the body and the commands after it.
func (r *Reader) fillBody() error {
	n, err := r.read(r.bodySpace())
	r.got += n
	return err
}

// fillBoth reads into the body, and what follows the body into the buffer.
func (r *Reader) fillBoth() error {
	r.lo, r.hi = 0, 0
	space := r.bodySpace()
	r.vec[0] = space
	if r.got+len(space) == int(r.pending.size) {
		r.vec[1] = r.buf
	}
	n, err := r.read(nil)
	r.vec = [2][]byte{}
	inBody := min(n, len(space))
	r.got += inBody
	if r.hi = n - inBody; r.hi > 0 {
		r.filled = r.hi == len(r.buf) && r.pending.size <= largeBody
	}
	return err
}

// makeRoom moves the unconsumed bytes to the front of the buffer. It grows or shrinks
// the buffer if recent reads require it.
func (r *Reader) makeRoom() {
	old := r.buf
	switch {
	case r.filled && len(r.buf) < maxBuffer:
		r.buf = make([]byte, 2*len(r.buf))
		r.smallReads = 0
	case r.smallReads >= shrinkAfter && r.Buffered() < minBuffer/2:
		r.buf = make([]byte, minBuffer)
		r.smallReads = 0
	}
	r.hi = copy(r.buf, old[r.lo:r.hi])
	r.lo = 0
}

// read calls Read once, or ReadVec for r.vec if that is set. An error that arrives
// with bytes is kept for the next Fill. If the source returns nothing at all for 100
// calls in a row, the error is io.ErrNoProgress.
func (r *Reader) read(p []byte) (n int, err error) {
	for range 100 {
		if r.vec[0] != nil {
			n, err = r.vecs.ReadVec(r.vec[:])
		} else {
			n, err = r.src.Read(p)
		}
		if n > 0 {
			r.err = err
			r.received += uint64(n)
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
