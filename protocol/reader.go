package protocol

import (
	"bytes"
	"errors"
	"io"
)

const (
	minBuffer = 4 << 10  // a Reader's buffer to begin with
	maxBuffer = 64 << 10 // and at most; also the most that is allocated on the word of a put line

	// quietReads is how many reads in a row must leave a grown buffer mostly
	// empty before it is given back.
	quietReads = 32
)

// ErrFull is returned by Fill when the buffer holds 64 KiB that nobody has
// taken with Next.
var ErrFull = errors.New("protocol: read buffer full")

// state says what the next byte of the stream belongs to.
type state uint8

const (
	inLine     state = iota // a command line
	inLongLine              // a line known to be too long, being thrown away up to its CRLF
	inBody                  // the body of r.put and its CRLF
	inBigBody               // a body above the limit, being thrown away
)

// Reader cuts a stream into commands. Next parses what has arrived and never
// blocks; Fill waits for more:
//
//	for {
//		for r.Next(&c) {
//			handle(&c)
//		}
//		if err := r.Fill(); err != nil {
//			return err
//		}
//	}
//
// A Reader belongs to one goroutine.
type Reader struct {
	src     io.Reader
	maxBody uint64 // bytes, without the CRLF

	buf    []byte // buf[lo:hi] has arrived and is not yet read
	lo, hi int
	filled bool  // the last read into buf left no room: grow before the next
	quiet  uint8 // reads in a row that used little of a grown buf
	err    error // came together with bytes; the next Fill reports it

	state state
	put   Command // inBody, inBigBody: what the put line said
	body  []byte  // inBody: the part that has arrived of a body too large to wait for in buf
	left  uint64  // inBigBody: bytes still to be thrown away
}

// NewReader reads commands from src. A put of more than maxBody bytes is
// answered with JobTooBig; exactly maxBody is fine. maxBody is cut to the range
// from 0 to [MaxBody].
func NewReader(src io.Reader, maxBody int) *Reader {
	maxBody = min(max(maxBody, 0), MaxBody)
	return &Reader{src: src, maxBody: uint64(maxBody), buf: make([]byte, minBuffer)}
}

// Buffered is the number of bytes that have been read from the source and not
// yet been taken by Next, the arrived part of a large body not included.
func (r *Reader) Buffered() int { return r.hi - r.lo }

// Full reports that the buffer holds 64 KiB, so that Fill would return ErrFull.
// It happens only if Fill is called without Next, as the server does to notice
// the end of a connection that waits in a reserve.
func (r *Reader) Full() bool { return r.Buffered() == maxBuffer }

// Next takes the next command from the buffer, for a put with its body. False
// means that it has not arrived completely: call Fill and try again; c is then
// of no meaning. Next allocates nothing but bodies.
func (r *Reader) Next(c *Command) bool {
	switch r.state {
	case inLongLine:
		return r.dropLine(c)
	case inBody:
		return r.readBody(c)
	case inBigBody:
		return r.dropBody(c)
	}
	window := r.buf[r.lo:min(r.hi, r.lo+MaxLine)]
	n, clean := lineEnd(window)
	if n < 0 {
		if len(window) < MaxLine {
			return false
		}
		r.state = inLongLine
		return r.dropLine(c)
	}
	r.lo += n + len(crlf)
	*c = Command{}
	if line := window[:n]; clean && bytes.IndexByte(line, 0) < 0 {
		parseLine(c, line)
	} else {
		c.Fault = BadFormat
	}
	if c.Verb == Put && c.Fault == NoFault {
		return r.beginPut(c)
	}
	return true
}

// Begun tells of a put whose line has come but not all of its body: whether it
// counts in cmd-put, and whether it makes the connection a producer, both of
// which beanstalkd does with the line. It tells only once, and the Command that
// Next returns at last does not tell again.
func (r *Reader) Begun() (counted, producer bool) {
	counted, producer = r.put.Counted, r.put.Producer
	r.put.Counted, r.put.Producer = false, false
	return counted, producer
}

var crlf = []byte("\r\n")

// lineEnd finds the first CRLF: the length of the line before it, -1 if it is
// not there (yet). clean is false if the line holds a CR of its own.
func lineEnd(b []byte) (n int, clean bool) {
	n = bytes.IndexByte(b, '\r')
	if n < 0 || n+1 == len(b) {
		return -1, true
	}
	if b[n+1] == '\n' {
		return n, true
	}
	n++
	if more := bytes.Index(b[n:], crlf); more >= 0 {
		return n + more, false
	}
	return -1, false
}

// dropLine throws away a line that is too long and reports it when its CRLF has
// come by.
func (r *Reader) dropLine(c *Command) bool {
	n := bytes.Index(r.buf[r.lo:r.hi], crlf)
	if n < 0 {
		// A CR at the very end may be half of the CRLF: it stays.
		if r.hi > r.lo && r.buf[r.hi-1] == '\r' {
			r.lo = r.hi - 1
		} else {
			r.lo = r.hi
		}
		return false
	}
	r.lo += n + len(crlf)
	r.state = inLine
	*c = Command{Fault: BadFormat}
	return true
}

// beginPut goes on after a put line whose numbers are right. The order of the
// checks is beanstalkd's: a body that is too big is swallowed even if the line
// has junk at its end, while a line with junk leaves its body to be read as
// commands.
func (r *Reader) beginPut(c *Command) bool {
	switch {
	case uint64(c.size) > r.maxBody:
		r.put, r.state = *c, inBigBody
		r.left = uint64(c.size) + uint64(len(crlf))
		return r.dropBody(c)
	case c.junk:
		c.Fault = BadFormat
		return true
	}
	c.Producer = true
	// The usual case: the body came with its line, and nothing is to be kept.
	size := int(c.size)
	if have := r.buf[r.lo:r.hi]; len(have) >= size+len(crlf) {
		r.lo += size + len(crlf)
		c.takeBody(clone(have[:size]), have[size:])
		return true
	}
	r.put, r.state = *c, inBody
	return r.readBody(c)
}

// dropBody throws away a body that is too big, and reports it at its end.
func (r *Reader) dropBody(c *Command) bool {
	n := min(r.left, uint64(r.Buffered()))
	r.lo += int(n)
	r.left -= n
	if r.left > 0 {
		return false
	}
	*c, r.put, r.state = r.put, Command{}, inLine
	c.Fault = JobTooBig
	return true
}

// readBody goes on with a body of which a part is missing. One that fits the
// smallest buffer waits there until it is complete; a larger one is gathered in
// r.body, to which Fill adds as well.
func (r *Reader) readBody(c *Command) bool {
	size := int(r.put.size)
	need := size + len(crlf)
	if r.body == nil {
		if have := r.buf[r.lo:r.hi]; len(have) >= need {
			r.lo += need
			r.endBody(c, clone(have[:size]), have[size:])
			return true
		}
		if need <= minBuffer {
			return false
		}
		r.body = make([]byte, 0, min(need, maxBuffer))
	}
	for len(r.body) < need {
		if r.Buffered() == 0 {
			return false
		}
		tail := r.bodyTail()
		n := copy(tail, r.buf[r.lo:r.hi])
		r.lo += n
		r.body = r.body[:len(r.body)+n]
	}
	r.endBody(c, r.body[:size:size], r.body[size:])
	return true
}

// endBody hands out the put whose body is complete.
func (r *Reader) endBody(c *Command, body, end []byte) {
	*c = r.put
	c.takeBody(body, end)
	r.put, r.body, r.state = Command{}, nil, inLine
}

// takeBody gives a put its body; end is what came after it, at least two bytes.
func (c *Command) takeBody(body, end []byte) {
	if end[0] != '\r' || end[1] != '\n' {
		c.Fault = ExpectedCRLF
		return
	}
	c.Body = body
}

func clone(b []byte) []byte {
	fresh := make([]byte, len(b))
	copy(fresh, b)
	return fresh
}

// bodyTail is where the next bytes of r.body go, never empty while some are
// missing. The room doubles as it is used up, so that a peer that announces a
// gigabyte costs a small multiple of what it sends.
func (r *Reader) bodyTail() []byte {
	if len(r.body) == cap(r.body) {
		need := int(r.put.size) + len(crlf)
		grown := make([]byte, len(r.body), min(2*cap(r.body), need))
		copy(grown, r.body)
		r.body = grown
	}
	return r.body[len(r.body):cap(r.body)]
}

// Fill reads from the source once, and waits as long as the source does. It
// returns the source's error as it is (io.EOF at the end of the stream); bytes
// that came together with an error are delivered first, with the error left to
// the next Fill. No error is final: after a deadline Fill may be called again.
func (r *Reader) Fill() error {
	if err := r.err; err != nil {
		r.err = nil
		return err
	}
	if r.direct() {
		n, err := r.read(r.bodyTail())
		r.body = r.body[:len(r.body)+n]
		return err
	}
	if r.Full() {
		return ErrFull
	}
	r.makeRoom()
	n, err := r.read(r.buf[r.hi:])
	r.hi += n
	r.filled = r.hi == len(r.buf)
	if len(r.buf) > minBuffer && n < len(r.buf)/8 {
		r.quiet++
	} else {
		r.quiet = 0
	}
	return err
}

// direct says that the next bytes can go straight into the body: there is
// nothing in the buffer that belongs before them. The last stretch goes through
// the buffer, so that one read can bring the end of the body and the commands
// after it.
func (r *Reader) direct() bool {
	if r.state != inBody || r.body == nil || r.Buffered() > 0 {
		return false
	}
	missing := int(r.put.size) + len(crlf) - len(r.body)
	return missing >= len(r.buf)
}

// makeRoom moves what is unread to the front of the buffer, and changes the
// buffer's size if the traffic asks for it.
func (r *Reader) makeRoom() {
	old := r.buf
	switch {
	case r.filled && len(r.buf) < maxBuffer:
		r.buf = make([]byte, 2*len(r.buf))
		r.quiet = 0
	case r.quiet >= quietReads && r.Buffered() < minBuffer/2:
		r.buf = make([]byte, minBuffer)
		r.quiet = 0
	}
	r.hi = copy(r.buf, old[r.lo:r.hi])
	r.lo = 0
}

// read is one Read with the error put off if bytes came with it. Sources that
// keep returning nothing at all are given up with io.ErrNoProgress.
func (r *Reader) read(p []byte) (int, error) {
	for range 100 {
		n, err := r.src.Read(p)
		if n > 0 {
			r.err = err
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
