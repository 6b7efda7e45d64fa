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
	maxPut  uint64                // the same for put

	buf        []byte // buf[lo:hi] has arrived and is not consumed yet
	lo, hi     int
	filled     bool  // the last read filled buf completely: it grows before the next
	smallReads uint8 // small reads in a row since buf has grown
	err        error // arrived together with bytes; the next Fill returns it

	received uint64 // bytes, so far

	state   streamState
	tags    *Tags   // memory for those of a command; nil: none has had any
	pending Command // inBody, inRefused: the command whose body is still arriving
	name    []byte  // inBody: backs pending.Name, because buf moves before the body is complete
	left    uint64  // inRefused: bytes still to be skipped

	long *Command // inLongLine: what the line is answered with; nil: BadFormat

	// inBody: memory for a body that is too large to wait for in buf, or for a part of it.
	// Nil: the body is collected in buf.
	body         []byte
	bodyBuf      Buffer // owns the memory of body; nil: body is an ordinary slice
	got          int    // how many bytes of the body have arrived in it
	largestSoFar int    // the size of the largest body that has arrived completely so far

	vec [2][]byte // for ReadVec; empty between two calls
}

// NewReader reads commands from src. A body of more than maxBody bytes gives
// JobTooBig; exactly maxBody is allowed. A maxBody outside of 0 to [MaxBody] is
// changed to the nearer end of that range.
func NewReader(src io.Reader, maxBody int) *Reader {
	maxBody = min(max(maxBody, 0), MaxBody)
	r := &Reader{src: src, maxBody: uint64(maxBody), maxPut: uint64(maxBody), buf: make([]byte, minBuffer)}
	r.vecs, _ = src.(VecReader)
	return r
}

// Received returns how many bytes have arrived so far.
func (r *Reader) Received() uint64 { return r.received }

// UseBuffers makes the Reader call get for the memory of bodies. get returns a Buffer of
// that many bytes, or nil if the body should be an ordinary slice.
func (r *Reader) UseBuffers(get func(size int) Buffer) { r.buffers = get }

// LimitBody changes the limits on the bodies of puts and of other commands that Next finds from now on. See
// maxBody of NewReader.
func (r *Reader) LimitBody(maxPut, maxBody int) {
	r.maxPut, r.maxBody = uint64(min(max(maxPut, 0), MaxBody)), uint64(min(max(maxBody, 0), MaxBody))
}

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
// c.Name is valid until the next call of Next or Fill, c.Tags until the next call of Next; c.Body and c.Buffer belong to
// the caller. Next allocates only bodies, and what tags
// refer to.
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
		r.state, r.long = inLongLine, longLine(window)
		return r.dropLine(c)
	}
	r.lo += n + len(crlf)
	*c = Command{spare: r.tags}
	line := window[:n]
	if clean && bytes.IndexByte(line, 0) < 0 {
		if parseLine(c, line); c.spare != nil {
			r.tags = c.spare
		}
	} else {
		*c = skippedLine(line, "the line has a NUL or a lone CR")
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
		if limit := table[lookup(line)].MaxLine; limit > 0 {
			return limit
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
	*c, r.state = Command{Fault: BadFormat}, inLine
	if r.long != nil {
		*c, r.long = *r.long, nil
	}
	return c.Fault != NoFault || r.lineRead(c)
}

// longLine returns what a line with this beginning is answered with when it is too long, nil for BadFormat.
func longLine(begin []byte) *Command {
	if isHTTP(begin) {
		return &Command{Fault: HTTPRequest}
	}
	if last := bytes.LastIndexByte(begin, ' ') + 1; bytes.IndexByte(begin[last:], ':') < 0 {
		begin = begin[:last] // the last word may be a number of which digits are missing
	}
	if c := skippedLine(begin, "the line is too long"); c.Fault == NoFault {
		skipped := c // so that only this one is allocated
		return &skipped
	}
	return nil
}
