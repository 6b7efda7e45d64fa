package protocol

import (
	"bytes"
	"errors"
	"io"
)

const (
	minBuffer = 4 << 10  // the first size of a Reader's buffer
	maxBuffer = 64 << 10 // its largest size, and the most that is allocated because a line announces a body

	// quietReads is after how many small reads in a row a grown buffer shrinks.
	quietReads = 32
)

// ErrFull is returned by Fill when the buffer holds 64 KiB that Next has not
// taken yet.
var ErrFull = errors.New("protocol: read buffer full")

// state says what the next byte of the stream belongs to.
type state uint8

const (
	inLine     state = iota // a command line
	inLongLine              // a line that is too long; it is skipped up to its CRLF
	inBody                  // the body of r.pending and its CRLF
	inBigBody               // a body above the limit; it is skipped
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

	buf    []byte // buf[lo:hi] has arrived and is not taken yet
	lo, hi int
	filled bool  // the last read left no room in buf: it grows before the next
	quiet  uint8 // small reads in a row since buf has grown
	err    error // came together with bytes; the next Fill returns it

	state   state
	pending Command // inBody, inBigBody: the command whose body is still arriving
	name    []byte  // inBody: backs pending.Name, because buf moves before the body is complete
	body    []byte  // inBody: what has arrived of a body that is too large to wait for in buf
	left    uint64  // inBigBody: bytes still to be skipped
}

// NewReader reads commands from src. A body of more than maxBody bytes gives
// JobTooBig; exactly maxBody is fine. A maxBody outside of 0 to [MaxBody] is
// taken for the nearer end of that range.
func NewReader(src io.Reader, maxBody int) *Reader {
	maxBody = min(max(maxBody, 0), MaxBody)
	return &Reader{src: src, maxBody: uint64(maxBody), buf: make([]byte, minBuffer)}
}

// Buffered is the number of bytes that were read from the source and are not
// taken by Next yet. The part of a large body that has arrived does not count.
func (r *Reader) Buffered() int { return r.hi - r.lo }

// Full reports that the buffer holds 64 KiB, so that Fill would return ErrFull.
// It happens only if Fill is called again and again without Next. The server
// does that while a connection waits in a reserve, to notice when it ends.
func (r *Reader) Full() bool { return r.Buffered() == maxBuffer }

// Next takes the next command from the buffer, together with its body if the
// verb has one. False means that the command has not arrived completely: call
// Fill and try again. The content of c has no meaning then.
//
// c.Name is valid until the next call of Next or Fill; c.Body is the caller's to
// keep. Next allocates nothing but bodies.
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
	if table[c.Verb].Body && c.Fault == NoFault {
		return r.lineRead(c)
	}
	return true
}

// Begun is about a command whose line has arrived, but not all of its body. It
// returns its verb, and Command.Counted and Command.Producer as far as the line
// decides them, because beanstalkd counts when it has read the line. It returns
// these once: they are false in later calls, and in the Command that Next returns
// in the end.
func (r *Reader) Begun() (verb Verb, counted, producer bool) {
	verb, counted, producer = r.pending.Verb, r.pending.Counted, r.pending.Producer
	r.pending.Counted, r.pending.Producer = false, false
	return verb, counted, producer
}

var crlf = []byte("\r\n")

// lineEnd returns the length of the line before the first CRLF, -1 if there is
// no CRLF (yet). clean is false if the line holds another CR.
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

// dropLine skips a line that is too long, and reports it once its CRLF has
// arrived.
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

// lineRead goes on with a command whose line is read and whose body follows. The
// order of the checks is beanstalkd's: a body that is too big is skipped even if
// the line has junk at its end, while the body of any other line with junk is
// read as commands.
func (r *Reader) lineRead(c *Command) bool {
	switch {
	case uint64(c.size) > r.maxBody:
		r.pending, r.state = *c, inBigBody
		r.left = uint64(c.size) + uint64(len(crlf))
		return r.dropBody(c)
	case c.junk:
		c.Fault = BadFormat
		return true
	}
	c.Producer = true
	// The usual case: the body has arrived with its line.
	size := int(c.size)
	if have := r.buf[r.lo:r.hi]; len(have) >= size+len(crlf) {
		r.lo += size + len(crlf)
		c.takeBody(clone(have[:size]), have[size:])
		return true
	}
	r.awaitBody(c)
	return r.readBody(c)
}

// awaitBody keeps a command until its body is complete. Fill moves and
// overwrites the buffer before that, so a name is copied.
func (r *Reader) awaitBody(c *Command) {
	r.pending, r.state = *c, inBody
	if c.Name != nil {
		r.name = append(r.name[:0], c.Name...)
		r.pending.Name = r.name
	}
}

// dropBody skips a body that is too big, and reports it at its end.
func (r *Reader) dropBody(c *Command) bool {
	n := min(r.left, uint64(r.Buffered()))
	r.lo += int(n)
	r.left -= n
	if r.left > 0 {
		return false
	}
	*c, r.pending, r.state = r.pending, Command{}, inLine
	c.Fault = JobTooBig
	return true
}

// readBody goes on with a body that is not complete. If it fits into the smallest
// buffer, it waits there. A larger one is collected in r.body, to which Fill adds
// as well.
func (r *Reader) readBody(c *Command) bool {
	size := int(r.pending.size)
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
	if !r.collect(need) {
		return false
	}
	r.endBody(c, r.body[:size:size], r.body[size:])
	return true
}

// collect moves bytes from the buffer to r.body, until that holds need bytes or
// the buffer is empty. It returns whether r.body is complete.
func (r *Reader) collect(need int) bool {
	for len(r.body) < need {
		if r.Buffered() == 0 {
			return false
		}
		tail := r.bodyTail()
		n := copy(tail, r.buf[r.lo:r.hi])
		r.lo += n
		r.body = r.body[:len(r.body)+n]
	}
	return true
}

// endBody hands out the pending command, whose body is complete.
func (r *Reader) endBody(c *Command, body, end []byte) {
	*c = r.pending
	c.takeBody(body, end)
	r.pending, r.body, r.state = Command{}, nil, inLine
}

// takeBody gives a command its body. end is what came after the body, at least
// two bytes.
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

// bodyTail returns the free room in r.body, which is never empty while bytes are
// missing. The room doubles when it is used up: so a peer that announces a
// gigabyte makes the Reader allocate a small multiple of what it has sent.
func (r *Reader) bodyTail() []byte {
	if len(r.body) == cap(r.body) {
		need := int(r.pending.size) + len(crlf)
		grown := make([]byte, len(r.body), min(2*cap(r.body), need))
		copy(grown, r.body)
		r.body = grown
	}
	return r.body[len(r.body):cap(r.body)]
}

// Fill reads from the source once, and waits as long as the source does. It
// returns the source's error unchanged (io.EOF at the end of the stream). If
// bytes come together with an error, they are delivered first, and the next Fill
// returns the error. No error is final: Fill may be called again, for example
// after a read deadline.
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

// direct reports whether the next read can go straight into the body, because
// the buffer is empty. The last part of a body goes through the buffer, so that
// one read can bring the end of the body and the commands after it.
func (r *Reader) direct() bool {
	if r.state != inBody || r.body == nil || r.Buffered() > 0 {
		return false
	}
	missing := int(r.pending.size) + len(crlf) - len(r.body)
	return missing >= len(r.buf)
}

// makeRoom moves what is not taken yet to the front of the buffer. It makes the
// buffer larger or smaller if recent reads ask for it.
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

// read calls Read once. An error that came with bytes is kept for the next Fill.
// If the source returns nothing at all for 100 calls in a row, the error is
// io.ErrNoProgress.
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
