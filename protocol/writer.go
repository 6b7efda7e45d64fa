package protocol

import (
	"io"
	"net"
	"strconv"
)

const (
	// byReference is the smallest size in bytes of a body that is not copied to the
	// buffer. Copying a smaller one is cheaper than one more element for writev.
	byReference = 4 << 10
	// keepBuffer is the largest buffer that a Writer or Page keeps for reuse.
	keepBuffer = 64 << 10
	// keepRefs is the same for the list of bodies sent by reference.
	keepRefs = 1 << 10
)

// Writer collects replies, and Flush sends them with one system call. The other
// methods only append and never fail. The memory of a Writer is not limited
// between two flushes: a caller that answers many commands checks Buffered.
//
// A Writer belongs to one goroutine at a time.
type Writer struct {
	dst           io.Writer
	buf           []byte
	refs          []ref
	refBytes      int    // bytes of all refs
	last          string // word of the last reply
	lastNumber    uint64 // and the number after it
	lastHasNumber bool
	sent          uint64 // bytes of replies that were passed to dst
	err           error  // of the first flush that failed

	// pieces is what one flush sends, if there are refs. bufs is the same for
	// net.Buffers, and the memory behind vec. net.Buffers moves the beginning of
	// vec forward as it writes, so vec alone could not be reused.
	pieces    []Piece
	bufs, vec net.Buffers
}

// ref is a body that is sent between buf[:at] and buf[at:].
type ref struct {
	at   int
	body []byte
	buf  Releaser // of body, or nil
}

// Releaser is called once, when a body is not needed any more. A [Buffer] is one.
type Releaser interface{ Release() }

// Piece is a part of what a Writer sends.
type Piece struct {
	Bytes []byte
	// Body says that Bytes are a body, which does not change until Buffer is released.
	// Otherwise they belong to the Writer, and change after the call.
	Body   bool
	Buffer Releaser // of a body; may be nil
}

// Release releases the body of the piece, if it is one.
func (p *Piece) Release() {
	if p.Buffer != nil {
		p.Buffer.Release()
	}
	*p = Piece{}
}

// NewWriter returns a Writer that sends replies to dst.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Buffered returns the number of bytes that the next Flush will send.
func (w *Writer) Buffered() int { return len(w.buf) + w.refBytes }

// Sent returns how many bytes of replies were sent so far, or passed to a destination that
// sends them later.
func (w *Writer) Sent() uint64 { return w.sent }

// Last returns the word of the last reply ("RESERVED"), "" before the first. It is
// meant for the log of a verbose server.
func (w *Writer) Last() string { return w.last }

// LastNumber returns the number after that word; ok is false if the reply had none. Of a reply with a body it
// is an id.
func (w *Writer) LastNumber() (n uint64, ok bool) { return w.lastNumber, w.lastHasNumber }

// Flush sends all collected replies. Without a large body that is one Write. With
// one, they are sent in pieces: to a [VecWriter] with one call, else as net.Buffers,
// which is one writev on a TCP or unix socket and one Write per piece elsewhere.
//
// After an error the connection cannot be used any more: this and every later
// Flush drops what was collected and returns the first error.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		w.sent += uint64(w.Buffered())
		w.err = w.send()
	}
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	w.buf = w.buf[:0]
	w.dropRefs()
	return w.err
}

// dropRefs forgets the bodies that were sent, or never will be. It releases those that
// still belong to the Writer.
func (w *Writer) dropRefs() {
	for i := range w.refs {
		if buf := w.refs[i].buf; buf != nil {
			buf.Release()
		}
	}
	clear(w.refs)
	if w.refs = w.refs[:0]; cap(w.refs) > keepRefs {
		w.refs, w.pieces, w.bufs = nil, nil, nil
	}
	w.refBytes = 0
}

func (w *Writer) send() error {
	if len(w.refs) == 0 {
		n, err := w.dst.Write(w.buf)
		if err == nil && n < len(w.buf) {
			err = io.ErrShortWrite
		}
		return err
	}
	if v, ok := w.dst.(VecWriter); ok {
		return w.sendPieces(v)
	}
	return w.sendBuffers()
}

// VecWriter is a destination that accepts several pieces with one call: all of them, or
// none and an error. It can keep the bodies among them, and releases each piece once,
// even if there is an error. It must not keep the slice, nor pieces that are no bodies.
type VecWriter interface {
	WriteVec(pieces []Piece) error
}

// sendPieces passes on what was collected. The bodies belong to the destination then.
func (w *Writer) sendPieces(to VecWriter) error {
	w.pieces = w.pieces[:0]
	from := 0
	for i := range w.refs {
		ref := &w.refs[i]
		w.pieces = append(w.pieces, Piece{Bytes: w.buf[from:ref.at]}, Piece{ref.body, true, ref.buf})
		from, ref.buf = ref.at, nil
	}
	w.pieces = append(w.pieces, Piece{Bytes: w.buf[from:]})
	err := to.WriteVec(w.pieces)
	clear(w.pieces)
	return err
}

func (w *Writer) sendBuffers() error {
	w.bufs = w.bufs[:0]
	from := 0
	for _, ref := range w.refs {
		w.bufs = append(w.bufs, w.buf[from:ref.at], ref.body)
		from = ref.at
	}
	w.bufs = append(w.bufs, w.buf[from:])
	w.vec = w.bufs
	n, err := w.vec.WriteTo(w.dst)
	if err == nil && n < int64(w.Buffered()) {
		err = io.ErrShortWrite
	}
	w.vec = nil
	clear(w.bufs)
	return err
}

// word appends a reply that is only a word.
func (w *Writer) word(word string) {
	w.last, w.lastHasNumber = word, false
	w.buf = append(w.buf, word...)
	w.buf = append(w.buf, '\r', '\n')
}

// begin appends the word and the number at the beginning of a line.
func (w *Writer) begin(word string, n uint64) {
	w.last, w.lastNumber, w.lastHasNumber = word, n, true
	w.buf = append(w.buf, word...)
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, n, 10)
}

// number appends a word and a number.
func (w *Writer) number(word string, n uint64) {
	w.begin(word, n)
	w.buf = append(w.buf, '\r', '\n')
}

// job appends a word, an id and a body. buf is released when the body is sent or
// copied; it may be nil.
func (w *Writer) job(word string, id uint64, body []byte, buf Releaser) {
	w.begin(word, id)
	w.body(body, buf)
}

// body appends the length of a body, which ends the line, and the body. For buf see job.
func (w *Writer) body(body []byte, buf Releaser) {
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(len(body)), 10)
	w.buf = append(w.buf, '\r', '\n')
	w.bodyBytes(body, buf)
}

// bodies appends two lengths, which end the line, the body and the second body, which is copied.
func (w *Writer) bodies(body []byte, buf Releaser, second []byte) {
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(len(body)), 10)
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(len(second)), 10)
	w.buf = append(w.buf, '\r', '\n')
	w.bodyBytes(body, buf)
	w.buf = append(w.buf, second...)
	w.buf = append(w.buf, '\r', '\n')
}

// bodyBytes appends a body and its CRLF.
func (w *Writer) bodyBytes(body []byte, buf Releaser) {
	if len(body) >= byReference {
		w.refs = append(w.refs, ref{len(w.buf), body, buf})
		w.refBytes += len(body)
	} else {
		w.buf = append(w.buf, body...)
		if buf != nil {
			buf.Release()
		}
	}
	w.buf = append(w.buf, '\r', '\n')
}
