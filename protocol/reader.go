package protocol

import (
	"bytes"
	"errors"
	"io"
)

const (
	minBuffer = 4 << 10  // the first size of a Reader's buffer
	maxBuffer = 64 << 10 // its largest size, and the most that is allocated because of an announced body size

	// largeBody is the smallest size of a body that does not make a Reader's buffer
	// grow. Reading a smaller body into the buffer, with its line, and copying it costs
	// less than another read.
	largeBody = 16 << 10

	// shrinkAfter is after how many small reads in a row a grown buffer shrinks.
	shrinkAfter = 32
)

// ErrFull is returned by Fill when the buffer has 64 KiB that Next has not consumed
// yet.
var ErrFull = errors.New("protocol: read buffer full")

// streamState says what the next byte of the stream belongs to.
type streamState uint8

const (
	inLine     streamState = iota // a command line
	inLongLine                    // a line that is too long; it is skipped up to its CRLF
	inBody                        // the body of r.pending and its CRLF
	inRefused                     // the body of r.pending and two bytes, which are skipped
)

// Buffer is the memory of one body. Its owner releases it once, when the body is not
// needed any more.
type Buffer interface {
	Bytes() []byte
	Release()
}

// VecReader is a source that fills several slices with one call, in order. It returns
// how many bytes it has read, and must not keep the slices.
type VecReader interface {
	ReadVec(pieces [][]byte) (int, error)
}

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
	vecs    VecReader             // src, if it is a VecReader
	buffers func(size int) Buffer // see UseBuffers; nil: none are used
	maxBody uint64                // bytes, without the CRLF

	buf        []byte // buf[lo:hi] has arrived and is not consumed yet
	lo, hi     int
	filled     bool  // the last read filled buf completely: it grows before the next
	smallReads uint8 // small reads in a row since buf has grown
	err        error // arrived together with bytes; the next Fill returns it

	received uint64 // bytes, so far

	state   streamState
	pending Command // inBody, inRefused: the command whose body is still arriving
	name    []byte  // inBody: backs pending.Name, because buf moves before the body is complete
	left    uint64  // inRefused: bytes still to be skipped

	longHTTP bool // inLongLine: it begins as a line of an HTTP request

	// inBody: memory for a body that is too large to wait for in buf, or for a part of it.
	// Nil: the body is collected in buf.
	body    []byte
	bodyBuf Buffer // owns the memory of body; nil: body is an ordinary slice
	got     int    // how many bytes of the body have arrived in it
	most    int    // the size of the largest body that has arrived completely so far

	vec [2][]byte // for ReadVec; empty between two calls
}

// NewReader reads commands from src. A body of more than maxBody bytes gives
// JobTooBig; exactly maxBody is allowed. A maxBody outside of 0 to [MaxBody] is
// changed to the nearer end of that range.
func NewReader(src io.Reader, maxBody int) *Reader {
	maxBody = min(max(maxBody, 0), MaxBody)
	r := &Reader{src: src, maxBody: uint64(maxBody), buf: make([]byte, minBuffer)}
	r.vecs, _ = src.(VecReader)
	return r
}

// Received returns how many bytes have arrived so far.
func (r *Reader) Received() uint64 { return r.received }

// UseBuffers makes the Reader call get for the memory of bodies. get returns a Buffer of
// that many bytes, or nil if the body should be an ordinary slice.
func (r *Reader) UseBuffers(get func(size int) Buffer) { r.buffers = get }

// LimitBody changes the limit on bodies for the commands that Next finds from now on. For
// maxBody see NewReader.
func (r *Reader) LimitBody(maxBody int) { r.maxBody = uint64(min(max(maxBody, 0), MaxBody)) }

// Close releases the memory of a body that has not arrived completely. The Reader must
// not be used any more.
func (r *Reader) Close() {
	if r.bodyBuf != nil {
		r.bodyBuf.Release()
	}
	r.body, r.bodyBuf = nil, nil
}

// Buffered returns the number of bytes that were read from the source and not yet
// consumed by Next. The part of a large body that has arrived does not count.
func (r *Reader) Buffered() int { return r.hi - r.lo }

// Partial returns, for a body of which a part has arrived, its announced size, the memory
// allocated for it so far, and how much of it has arrived. It returns zeros if there is no
// such body, or if it is so small that it is collected in the buffer.
func (r *Reader) Partial() (size, memory, arrived int) {
	if r.state != inBody || r.body == nil {
		return 0, 0, 0
	}
	return int(r.pending.size), len(r.body), r.got
}

// Full reports whether the buffer has 64 KiB, so that Fill would return ErrFull.
// It happens only if Fill is called again and again without Next. The server
// does that while a connection waits in a reserve, to notice when it is closed.
func (r *Reader) Full() bool { return r.Buffered() == maxBuffer }

// Next takes the next command from the buffer, together with its body if the
// verb has one. False means that the command has not arrived completely: call
// Fill and try again. c has no meaning then.
//
// c.Name is valid until the next call of Next or Fill; c.Body and c.Buffer belong to
// the caller. Next allocates only bodies and tags.
func (r *Reader) Next(c *Command) bool {
	switch r.state {
	case inLongLine:
		return r.dropLine(c)
	case inBody:
		return r.readBody(c)
	case inRefused:
		return r.dropBody(c)
	}
	window := r.buf[r.lo:min(r.hi, r.lo+MaxLine)]
	n, clean := lineEnd(window)
	if n < 0 && len(window) == MaxLine {
		if window = r.longLine(); len(window) > MaxLine {
			n, clean = lineEnd(window)
		}
	}
	if n < 0 {
		if len(window) < r.longest(window) {
			return false
		}
		r.state, r.longHTTP = inLongLine, isHTTP(window)
		return r.dropLine(c)
	}
	r.lo += n + len(crlf)
	*c = Command{}
	line := window[:n]
	if clean && bytes.IndexByte(line, 0) < 0 {
		parseLine(c, line)
	} else {
		c.Fault = BadFormat
	}
	if c.Fault != NoFault && isHTTP(line) {
		*c = Command{Fault: HTTPRequest}
	}
	if table[c.Verb].Body && c.Fault == NoFault {
		return r.lineRead(c)
	}
	return true
}

// longLine returns what has arrived, up to the longest length of such a line.
func (r *Reader) longLine() []byte {
	arrived := r.buf[r.lo:r.hi]
	return arrived[:min(len(arrived), r.longest(arrived))]
}

// longest returns the longest length of a line with this beginning, including CRLF.
func (r *Reader) longest(line []byte) int {
	if len(line) >= MaxLine {
		if most := table[lookup(line)].MaxLine; most > 0 {
			return most
		}
	}
	return MaxLine
}

// Begun is for a command whose line has arrived, but not all of its body. It returns
// its verb, and Command.Counted and Command.Producer as far as the line decides them,
// because beanstalkd counts when it has read the line. It returns these once: they are
// false in later calls, and in the Command that Next returns in the end.
func (r *Reader) Begun() (verb Verb, counted, producer bool) {
	verb, counted, producer = r.pending.Verb, r.pending.Counted, r.pending.Producer
	r.pending.Counted, r.pending.Producer = false, false
	return verb, counted, producer
}

var crlf = []byte("\r\n")

// lineEnd returns the length of the line before the first CRLF, -1 if there is
// no CRLF (yet). clean is false if the line contains another CR.
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

// dropLine skips a line that is too long, and reports it when its CRLF has
// arrived.
func (r *Reader) dropLine(c *Command) bool {
	n := bytes.Index(r.buf[r.lo:r.hi], crlf)
	if n < 0 {
		// A CR at the very end can be half of the CRLF: it stays.
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
	if r.longHTTP {
		c.Fault = HTTPRequest
	}
	return true
}

// lineRead continues with a command whose line is read and whose body follows. The
// order of the checks is beanstalkd's: a body that is too big is skipped even if
// the line has junk at its end, while the body of any other line with junk is
// parsed as commands. The body of a line with invalid tags is skipped.
func (r *Reader) lineRead(c *Command) bool {
	switch {
	case uint64(c.size) > r.maxBody:
		return r.refuse(c, JobTooBig)
	case c.junk:
		c.Fault = BadFormat
		return true
	case c.badTags:
		return r.refuse(c, BadFormat)
	}
	c.Producer = true
	// The usual case: the body has arrived with its line.
	if r.bodyArrived(c.size) {
		r.copyBody(c)
		return true
	}
	r.awaitBody(c)
	return r.readBody(c)
}

// bodyArrived reports whether a body of size bytes and its CRLF are in the buffer.
func (r *Reader) bodyArrived(size uint32) bool { return r.Buffered() >= int(size)+len(crlf) }

// copyBody copies the body of a command from the buffer.
func (r *Reader) copyBody(c *Command) {
	size := int(c.size)
	body := r.buf[r.lo : r.lo+size]
	r.lo += size
	if !r.takeEnd() {
		c.Fault = ExpectedCRLF
		return
	}
	c.Body, c.Buffer = r.newBody(size)
	copy(c.Body, body)
}

// takeEnd consumes the two bytes after a body, and returns whether they are CRLF.
func (r *Reader) takeEnd() bool {
	end := r.buf[r.lo : r.lo+len(crlf)]
	r.lo += len(crlf)
	return end[0] == '\r' && end[1] == '\n'
}

// newBody returns memory for size bytes of a body, which may not be zeroed.
func (r *Reader) newBody(size int) ([]byte, Buffer) {
	if r.buffers != nil {
		if b := r.buffers(size); b != nil {
			return b.Bytes(), b
		}
	}
	return make([]byte, size), nil
}

// awaitBody keeps a command until its body is complete. Fill moves and
// overwrites the buffer before that, so the name is copied.
func (r *Reader) awaitBody(c *Command) {
	r.pending, r.state = *c, inBody
	if c.Name != nil {
		r.name = append(r.name[:0], c.Name...)
		r.pending.Name = r.name
	}
}

// refuse sets the fault of a command, and skips its body.
func (r *Reader) refuse(c *Command, fault Fault) bool {
	c.Fault = fault
	r.pending, r.state = *c, inRefused
	r.left = uint64(c.size) + uint64(len(crlf))
	return r.dropBody(c)
}

// dropBody skips the body of a refused command, and reports the command at its end.
func (r *Reader) dropBody(c *Command) bool {
	n := min(r.left, uint64(r.Buffered()))
	r.lo += int(n)
	r.left -= n
	if r.left > 0 {
		return false
	}
	*c, r.pending, r.state = r.pending, Command{}, inLine
	return true
}

// readBody continues with a body that was not complete. If it fits into the smallest
// buffer, it is collected there. A larger one is collected in r.body, which Fill also
// reads into; its CRLF arrives in the buffer.
func (r *Reader) readBody(c *Command) bool {
	size := int(r.pending.size)
	if r.body == nil {
		if r.bodyArrived(r.pending.size) {
			*c, r.pending, r.state = r.pending, Command{}, inLine
			r.copyBody(c)
			return true
		}
		if size+len(crlf) <= minBuffer {
			return false
		}
		r.beginBody(size)
	}
	for r.got < size && r.Buffered() > 0 {
		n := copy(r.bodySpace(), r.buf[r.lo:r.hi])
		r.lo += n
		r.got += n
	}
	if r.got < size || r.Buffered() < len(crlf) {
		return false
	}
	r.endBody(c)
	return true
}

// beginBody allocates memory for a body. If no body of that size has arrived before, it
// allocates only a part: the announced size is not trusted.
func (r *Reader) beginBody(size int) {
	r.body, r.bodyBuf = r.newBody(min(size, max(r.most, maxBuffer)))
	r.got = 0
	if size > largeBody {
		r.filled = false
	}
}

// endBody returns the pending command, whose body and CRLF have arrived.
func (r *Reader) endBody(c *Command) {
	r.most = max(r.most, r.got)
	*c = r.pending
	c.Body, c.Buffer = r.body, r.bodyBuf
	r.pending, r.body, r.bodyBuf, r.state = Command{}, nil, nil, inLine
	if !r.takeEnd() {
		c.refuseBody()
	}
}

// refuseBody drops a body that is not followed by CRLF.
func (c *Command) refuseBody() {
	if c.Buffer != nil {
		c.Buffer.Release()
	}
	c.Body, c.Buffer, c.Fault = nil, nil, ExpectedCRLF
}

// bodySpace returns the free part of r.body, which is never empty while bytes are missing.
// When it is used up, r.body grows to at most twice its size. So a peer that announces a
// gigabyte makes the Reader allocate a small multiple of what it has sent.
func (r *Reader) bodySpace() []byte {
	if r.got == len(r.body) {
		old, buf := r.body, r.bodyBuf
		r.body, r.bodyBuf = r.newBody(grown(len(old), int(r.pending.size)))
		copy(r.body, old)
		if buf != nil {
			buf.Release()
		}
	}
	return r.body[r.got:]
}

// grown returns the next size of the memory for a body of size bytes after have bytes: the
// size, or half of it, or half of that, and so on. So the last step doubles too, and does
// not copy nearly everything to add a few bytes.
func grown(have, size int) int {
	for size > 2*have {
		size = (size + 1) / 2
	}
	return size
}

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
