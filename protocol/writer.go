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
	dst      io.Writer
	buf      []byte
	refs     []ref
	refBytes int    // bytes of all refs
	last     string // word of the last reply
	sent     uint64 // bytes of replies that were passed to dst
	err      error  // of the first flush that failed

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
	Body  bool
	Users Releaser // of a body; may be nil
}

// Release releases the body of the piece, if it is one.
func (p *Piece) Release() {
	if p.Users != nil {
		p.Users.Release()
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
	w.last = word
	w.buf = append(w.buf, word...)
	w.buf = append(w.buf, '\r', '\n')
}

// begin appends the word and the number at the beginning of a line.
func (w *Writer) begin(word string, n uint64) {
	w.last = word
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

// Inserted answers put: "INSERTED id".
func (w *Writer) Inserted(id uint64) { w.number("INSERTED", id) }

// InsertedAs answers a put of a key that a job already has: "INSERTED id STATE", with
// the id and state of that job. state is in capitals, such as READY or GONE.
func (w *Writer) InsertedAs(id uint64, state string) {
	w.begin("INSERTED", id)
	w.buf = append(w.buf, ' ')
	w.buf = append(w.buf, state...)
	w.buf = append(w.buf, '\r', '\n')
}

// Duplicate answers a put that fails because of its key: "DUPLICATE id", with the id of
// the job that has the key.
func (w *Writer) Duplicate(id uint64) { w.number("DUPLICATE", id) }

// BuriedPut answers a put whose job was buried at once because memory or disk is
// full: "BURIED id".
func (w *Writer) BuriedPut(id uint64) { w.number("BURIED", id) }

// Buried answers bury and bury-lease, and a release that could only bury the job: "BURIED".
func (w *Writer) Buried() { w.word("BURIED") }

// Reserved answers the reserve commands: "RESERVED id n", body. The body is not
// always copied: it must not change before buf is released, which the Writer or its
// destination does once; if buf is nil, it must never change.
func (w *Writer) Reserved(id uint64, body []byte, buf Releaser) { w.job("RESERVED", id, body, buf) }

// ReservedBatch answers reserve-batch: "RESERVED_BATCH n"; then n times Reserved.
func (w *Writer) ReservedBatch(n int) { w.number("RESERVED_BATCH", uint64(n)) }

// DeletedBatch answers delete-batch: "DELETED_BATCH deleted missing"; missing is how
// many of the ids were NOT_FOUND.
func (w *Writer) DeletedBatch(deleted, missing int) {
	w.begin("DELETED_BATCH", uint64(deleted))
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(missing), 10)
	w.buf = append(w.buf, '\r', '\n')
}

// Leased answers reserve-lease: "LEASED id lease n", body. For body and buf see
// Reserved.
func (w *Writer) Leased(id, lease uint64, body []byte, buf Releaser) {
	w.begin("LEASED", id)
	w.buf = append(w.buf, ' ')
	w.buf = appendLease(w.buf, lease)
	w.body(body, buf)
}

// Found answers the peek commands and find: "FOUND id n", body. For body and buf see
// Reserved.
func (w *Writer) Found(id uint64, body []byte, buf Releaser) { w.job("FOUND", id, body, buf) }

// FlushedJobs answers flush-tube: "FLUSHED n".
func (w *Writer) FlushedJobs(n uint64) { w.number("FLUSHED", n) }

// Moved answers move-jobs: "MOVED n".
func (w *Writer) Moved(n uint64) { w.number("MOVED", n) }

// Set answers set-policy.
func (w *Writer) Set() { w.word("SET") }

// Deleted answers delete, delete-lease and delete-key.
func (w *Writer) Deleted() { w.word("DELETED") }

// Released answers release and release-lease.
func (w *Writer) Released() { w.word("RELEASED") }

// Touched answers touch and touch-lease.
func (w *Writer) Touched() { w.word("TOUCHED") }

// Kicked answers kick: "KICKED n"; n is how many were kicked.
func (w *Writer) Kicked(n uint64) { w.number("KICKED", n) }

// KickedJob answers kick-job: "KICKED", without a number.
func (w *Writer) KickedJob() { w.word("KICKED") }

// NotFound says that there is no such job or tube, that the job is not in a
// state for the command, or that another connection holds it.
func (w *Writer) NotFound() { w.word("NOT_FOUND") }

// Using answers use and list-tube-used: "USING name".
func (w *Writer) Using(name string) {
	w.last = "USING"
	w.buf = append(w.buf, "USING "...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '\r', '\n')
}

// Watching answers watch and ignore: "WATCHING n"; n is how many tubes the
// connection watches now.
func (w *Writer) Watching(n int) { w.number("WATCHING", uint64(n)) }

// NotIgnored answers an ignore of the only tube watched.
func (w *Writer) NotIgnored() { w.word("NOT_IGNORED") }

// Paused answers pause-tube.
func (w *Writer) Paused() { w.word("PAUSED") }

// TimedOut answers a reserve that got no job within its timeout.
func (w *Writer) TimedOut() { w.word("TIMED_OUT") }

// DeadlineSoon answers a reserve of a connection that holds a job whose TTR is
// about to run out.
func (w *Writer) DeadlineSoon() { w.word("DEADLINE_SOON") }

// Draining answers drain, and a put while the server accepts no new jobs.
func (w *Writer) Draining() { w.word("DRAINING") }

// Rescheduled answers reschedule.
func (w *Writer) Rescheduled() { w.word("RESCHEDULED") }

// Updated answers set-priority.
func (w *Writer) Updated() { w.word("UPDATED") }

// NotDraining answers undrain.
func (w *Writer) NotDraining() { w.word("NOT_DRAINING") }

// BadFormat answers a line that is malformed.
func (w *Writer) BadFormat() { w.word("BAD_FORMAT") }

// UnknownCommand answers a line that begins with no known word.
func (w *Writer) UnknownCommand() { w.word("UNKNOWN_COMMAND") }

// JobTooBig answers a put above the size limit.
func (w *Writer) JobTooBig() { w.word("JOB_TOO_BIG") }

// ExpectedCRLF answers a put whose body does not end in CRLF.
func (w *Writer) ExpectedCRLF() { w.word("EXPECTED_CRLF") }

// OutOfMemory says that there is no room for the request.
func (w *Writer) OutOfMemory() { w.word("OUT_OF_MEMORY") }

// Authenticated answers auth.
func (w *Writer) Authenticated() { w.word("AUTHENTICATED") }

// Unauthorized answers an auth with a wrong user or secret.
func (w *Writer) Unauthorized() { w.word("UNAUTHORIZED") }

// Forbidden says that the user of the connection, or this server, must not do that.
func (w *Writer) Forbidden() { w.word("FORBIDDEN") }

// InternalError says that the server could not carry out the command.
func (w *Writer) InternalError() { w.word("INTERNAL_ERROR") }

// Fault answers a command with a Fault. With NoFault, which is a mistake of the caller,
// it answers INTERNAL_ERROR: a missing reply would shift all later ones.
func (w *Writer) Fault(f Fault) {
	if f.String() == "" {
		w.InternalError()
		return
	}
	w.word(f.String())
}

// OK answers the stats and list commands: "OK n", page. The page is copied, so
// a [Page] can be reused at once.
func (w *Writer) OK(page []byte) {
	w.number("OK", uint64(len(page)))
	w.buf = append(w.buf, page...)
	w.buf = append(w.buf, '\r', '\n')
}
