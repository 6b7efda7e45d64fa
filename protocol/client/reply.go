package client

import (
	"bytes"
	"errors"
	"fmt"
)

// A Word is the first word of a reply.
type Word uint8

// The words that our tools distinguish.
const (
	Other Word = iota // any other word; see Reply.Line
	Inserted
	Reserved
	Found
	OK
	Deleted
	Using
	Watching
	Kicked
	TimedOut
	DeadlineSoon
	NotFound
	Leased
	Ended
	Forbidden
)

// wordOf returns the Word for the bytes.
func wordOf(b []byte) Word {
	switch string(b) { // does not allocate
	case "INSERTED":
		return Inserted
	case "RESERVED":
		return Reserved
	case "FOUND":
		return Found
	case "OK":
		return OK
	case "DELETED":
		return Deleted
	case "USING":
		return Using
	case "WATCHING":
		return Watching
	case "KICKED":
		return Kicked
	case "TIMED_OUT":
		return TimedOut
	case "DEADLINE_SOON":
		return DeadlineSoon
	case "NOT_FOUND":
		return NotFound
	case "LEASED":
		return Leased
	case "ENDED":
		return Ended
	case "FORBIDDEN":
		return Forbidden
	}
	return Other
}

// A Reply is one parsed reply. Its slices are in the buffer it was read into
// and are valid only until the next read.
type Reply struct {
	Word Word
	ID   uint64 // of the job: INSERTED, RESERVED, FOUND, LEASED and ENDED
	Rest []byte // what follows the id: for INSERTED the state of the job that already had the key, if any; for LEASED the lease; for ENDED how the job has ended
	Body []byte // a job's body (RESERVED, FOUND, LEASED), what is known of its end (ENDED) or a page (OK), without CR LF
	Line []byte // the first line, without CR LF
}

// MaxLine is the longest line of a reply, in bytes. Valid lines are well below
// it, so anything longer is not the beanstalk protocol.
const MaxLine = 1024

// MaxBody is the largest body, in bytes: the maximum of beanstalkd's -z.
const MaxBody = 1 << 30

// ErrNoCRLF means that a line or a body of a reply does not end in CR LF.
var ErrNoCRLF = errors.New("a reply does not end in CR LF")

// Parse parses one reply at the front of buf and returns its length in bytes,
// or 0 if it has not arrived completely. After an error the rest of the stream cannot
// be parsed.
func (r *Reply) Parse(buf []byte) (int, error) {
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		if len(buf) > MaxLine {
			return 0, fmt.Errorf("a reply's line is longer than %d bytes", MaxLine)
		}
		return 0, nil
	}
	if end == 0 || buf[end-1] != '\r' {
		return 0, ErrNoCRLF
	}
	r.Line, r.Rest, r.Body, r.ID = buf[:end-1], nil, nil, 0
	first, rest := r.Line, []byte(nil)
	if i := bytes.IndexByte(r.Line, ' '); i >= 0 {
		first, rest = r.Line[:i], r.Line[i+1:]
	}
	r.Word = wordOf(first)
	switch r.Word {
	case Inserted:
		id, left, ok := number(rest)
		if !ok || !isState(left) {
			return 0, r.unreadable()
		}
		r.ID, r.Rest = id, bytes.TrimPrefix(left, []byte(" "))
	case Reserved, Found, Leased, Ended:
		return r.parseJob(buf, end+1, rest)
	case OK:
		return r.parseBody(buf, end+1, rest)
	}
	return end + 1, nil
}

// parseJob parses the id and the size in rest, and the body that begins at
// buf[at:].
func (r *Reply) parseJob(buf []byte, at int, rest []byte) (int, error) {
	id, rest, ok := number(rest)
	if !ok || len(rest) < 2 || rest[0] != ' ' {
		return 0, r.unreadable()
	}
	r.ID = id
	rest = rest[1:]
	if r.Word == Leased || r.Word == Ended {
		if r.Rest, rest, ok = bytes.Cut(rest, []byte(" ")); !ok {
			return 0, r.unreadable()
		}
	}
	return r.parseBody(buf, at, rest)
}

// parseBody parses the size in rest, and the body that begins at buf[at:].
func (r *Reply) parseBody(buf []byte, at int, rest []byte) (int, error) {
	size, rest, ok := number(rest)
	if !ok || len(rest) != 0 || size > MaxBody {
		return 0, r.unreadable()
	}
	end := at + int(size)
	if len(buf) < end+2 {
		return 0, nil
	}
	if buf[end] != '\r' || buf[end+1] != '\n' {
		return 0, ErrNoCRLF
	}
	r.Body = buf[at:end]
	return end + 2, nil
}

// Unexpected returns the error of a caller that expected another reply.
func (r *Reply) Unexpected() error { return fmt.Errorf("unexpected reply %q", r.Line) }

func (r *Reply) unreadable() error { return fmt.Errorf("cannot read %q", r.Line) }

// isState reports whether what follows the id of INSERTED is nothing, or a space and a word
// in capitals.
func isState(b []byte) bool {
	return len(b) == 0 || len(b) > 1 && b[0] == ' ' && len(bytes.Trim(b[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) == 0
}

// number parses a decimal number at the front of b and returns what follows it.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + uint64(b[i]-'0')
		i++
	}
	return n, b[i:], i > 0 && i < 20
}
