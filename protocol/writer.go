package protocol

import (
	"io"
	"net"
	"strconv"
)

const (
	// byReference is the size in bytes from which a body is not copied to the
	// buffer. Copying a smaller one is cheaper than one more element for writev.
	byReference = 4 << 10
	// keepBuffer is the largest buffer that a Writer or Page keeps for reuse.
	keepBuffer = 64 << 10
	// keepRefs is the same for the list of bodies sent by reference.
	keepRefs = 1 << 10
)

// Writer collects replies, and Flush sends them with one system call. The other
// methods only append and never fail. The memory of a Writer is not bounded
// between two flushes: a caller that answers many commands checks Buffered.
//
// A Writer belongs to one goroutine at a time.
type Writer struct {
	dst  io.Writer
	buf  []byte
	refs []ref
	held int    // bytes of all refs
	last string // word of the last reply
	sent uint64 // bytes of replies that were handed to dst
	err  error  // of the first flush that failed

	// pieces is what one flush sends, if there are refs. bufs is the same for
	// net.Buffers, and the memory behind vec. net.Buffers moves the beginning of
	// vec forward as it writes, so vec alone could not be used again.
	pieces    []Piece
	bufs, vec net.Buffers
}

// ref is a body that is sent between buf[:at] and buf[at:].
type ref struct {
	at    int
	body  []byte
	users Releaser // of body, or nil
}

// Releaser is told once that a body is not needed any more. A [Buffer] is one.
type Releaser interface{ Release() }

// Piece is a part of what a Writer sends.
type Piece struct {
	Bytes []byte
	// Body says that Bytes are a body, which does not change until Users is
	// released. Otherwise they are the Writer's, and change after the call.
	Body  bool
	Users Releaser // of a body; may be nil
}

// Release ends the use of the piece.
func (p *Piece) Release() {
	if p.Users != nil {
		p.Users.Release()
	}
	*p = Piece{}
}

// NewWriter sends replies to dst.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Buffered is the number of bytes that the next Flush will send.
func (w *Writer) Buffered() int { return len(w.buf) + w.held }

// Sent is how many bytes of replies were sent so far, or handed to a destination that sends
// them later.
func (w *Writer) Sent() uint64 { return w.sent }

// Last is the word of the last reply ("RESERVED"), "" before the first. It is
// meant for the log of a verbose server.
func (w *Writer) Last() string { return w.last }

// Flush sends all that was collected. That is one Write if there is no large
// body. If there is one, it is sent in pieces: to a [VecWriter] with one call,
// else as net.Buffers, which is one writev on a TCP or unix socket and one Write
// for each piece elsewhere.
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

// dropRefs forgets the bodies that were sent, or will never be. It releases those that
// are still the Writer's.
func (w *Writer) dropRefs() {
	for i := range w.refs {
		if users := w.refs[i].users; users != nil {
			users.Release()
		}
	}
	clear(w.refs)
	if w.refs = w.refs[:0]; cap(w.refs) > keepRefs {
		w.refs, w.pieces, w.bufs = nil, nil, nil
	}
	w.held = 0
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

// VecWriter is a destination that takes several pieces with one call: all of them, or
// none and an error. It may keep the bodies among them, and releases each piece once,
// also if there is an error. It must not keep the slice, nor what is no body.
type VecWriter interface {
	WriteVec(pieces []Piece) error
}

// sendPieces hands over what was collected. The bodies are the destination's then.
func (w *Writer) sendPieces(to VecWriter) error {
	w.pieces = w.pieces[:0]
	from := 0
	for i := range w.refs {
		ref := &w.refs[i]
		w.pieces = append(w.pieces, Piece{Bytes: w.buf[from:ref.at]}, Piece{ref.body, true, ref.users})
		from, ref.users = ref.at, nil
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

// begin appends a word and a number, with which a line begins.
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

// job appends a word, an id and a body. users is released when the body is sent or
// copied; it may be nil.
func (w *Writer) job(word string, id uint64, body []byte, users Releaser) {
	w.begin(word, id)
	w.body(body, users)
}

// body appends the length of a body, which ends a line, and the body. For users see job.
func (w *Writer) body(body []byte, users Releaser) {
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(len(body)), 10)
	w.buf = append(w.buf, '\r', '\n')
	if len(body) >= byReference {
		w.refs = append(w.refs, ref{len(w.buf), body, users})
		w.held += len(body)
	} else {
		w.buf = append(w.buf, body...)
		if users != nil {
			users.Release()
		}
	}
	w.buf = append(w.buf, '\r', '\n')
}

// Inserted answers put: "INSERTED id".
func (w *Writer) Inserted(id uint64) { w.number("INSERTED", id) }

// InsertedAs answers a put of a key that a job has already: "INSERTED id STATE", id and
// state being that job's. state is in capitals, such as READY or GONE.
func (w *Writer) InsertedAs(id uint64, state string) {
	w.begin("INSERTED", id)
	w.buf = append(w.buf, ' ')
	w.buf = append(w.buf, state...)
	w.buf = append(w.buf, '\r', '\n')
}

// Duplicate answers a put that fails because of its key: "DUPLICATE id", id being the
// job that has the key.
func (w *Writer) Duplicate(id uint64) { w.number("DUPLICATE", id) }

// BuriedPut answers a put whose job was buried at once for want of memory or
// disk: "BURIED id".
func (w *Writer) BuriedPut(id uint64) { w.number("BURIED", id) }

// Buried answers bury and bury-lease, and a release that could only bury the job: "BURIED".
func (w *Writer) Buried() { w.word("BURIED") }

// Reserved answers the reserve commands: "RESERVED id n", body. The body is not
// always copied: it must not change before users is released, which the Writer or its
// destination does once; if users is nil, never.
func (w *Writer) Reserved(id uint64, body []byte, users Releaser) { w.job("RESERVED", id, body, users) }

// ReservedBatch answers reserve-batch: "RESERVED_BATCH n"; then n times Reserved.
func (w *Writer) ReservedBatch(n int) { w.number("RESERVED_BATCH", uint64(n)) }

// DeletedBatch answers delete-batch: "DELETED_BATCH deleted missing", missing being how
// many of the ids were NOT_FOUND.
func (w *Writer) DeletedBatch(deleted, missing int) {
	w.begin("DELETED_BATCH", uint64(deleted))
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(missing), 10)
	w.buf = append(w.buf, '\r', '\n')
}

// Leased answers reserve-lease: "LEASED id lease n", body. For body and users see
// Reserved.
func (w *Writer) Leased(id, lease uint64, body []byte, users Releaser) {
	w.begin("LEASED", id)
	w.buf = append(w.buf, ' ')
	w.buf = appendLease(w.buf, lease)
	w.body(body, users)
}

// Found answers the peek commands and find: "FOUND id n", body. For body and users see
// Reserved.
func (w *Writer) Found(id uint64, body []byte, users Releaser) { w.job("FOUND", id, body, users) }

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

// Kicked answers kick: "KICKED n", n being how many were kicked.
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

// Watching answers watch and ignore: "WATCHING n", n being how many tubes the
// connection watches now.
func (w *Writer) Watching(n int) { w.number("WATCHING", uint64(n)) }

// NotIgnored answers an ignore of the only tube watched.
func (w *Writer) NotIgnored() { w.word("NOT_IGNORED") }

// Paused answers pause-tube.
func (w *Writer) Paused() { w.word("PAUSED") }

// TimedOut answers a reserve that got no job in its time.
func (w *Writer) TimedOut() { w.word("TIMED_OUT") }

// DeadlineSoon answers a reserve of a connection that holds a job whose TTR is
// about to run out.
func (w *Writer) DeadlineSoon() { w.word("DEADLINE_SOON") }

// Draining answers drain, and put when the server takes no new jobs.
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

// JobTooBig answers a put above the limit.
func (w *Writer) JobTooBig() { w.word("JOB_TOO_BIG") }

// ExpectedCRLF answers a put whose body does not end in CRLF.
func (w *Writer) ExpectedCRLF() { w.word("EXPECTED_CRLF") }

// OutOfMemory says that there is no room for what was asked.
func (w *Writer) OutOfMemory() { w.word("OUT_OF_MEMORY") }

// Authenticated answers auth.
func (w *Writer) Authenticated() { w.word("AUTHENTICATED") }

// Unauthorized answers an auth with a wrong user or secret.
func (w *Writer) Unauthorized() { w.word("UNAUTHORIZED") }

// Forbidden says that the user of the connection, or this server, may not do that.
func (w *Writer) Forbidden() { w.word("FORBIDDEN") }

// InternalError says that the server could not do what it should have.
func (w *Writer) InternalError() { w.word("INTERNAL_ERROR") }

// Fault answers a command with a Fault. NoFault, with which it should not be
// called, gives INTERNAL_ERROR: a missing reply would shift all later ones.
func (w *Writer) Fault(f Fault) {
	if f.String() == "" {
		w.InternalError()
		return
	}
	w.word(f.String())
}

// OK answers the stats and list commands: "OK n", page. The page is copied, so
// that a [Page] can be used again at once.
func (w *Writer) OK(page []byte) {
	w.number("OK", uint64(len(page)))
	w.buf = append(w.buf, page...)
	w.buf = append(w.buf, '\r', '\n')
}
