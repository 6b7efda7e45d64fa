package main

import (
	"bytes"
	"errors"
	"fmt"
)

// A word is the first word of a server's answer.
type word uint8

const (
	wordOther word = iota // any answer no load expects; see answer.line
	wordInserted
	wordReserved
	wordDeleted
	wordUsing
	wordWatching
	wordKicked
	wordTimedOut
	wordDeadlineSoon
	wordNotFound
)

// wordOf tells which word the bytes spell.
func wordOf(b []byte) word {
	switch string(b) { // does not allocate
	case "INSERTED":
		return wordInserted
	case "RESERVED":
		return wordReserved
	case "DELETED":
		return wordDeleted
	case "USING":
		return wordUsing
	case "WATCHING":
		return wordWatching
	case "KICKED":
		return wordKicked
	case "TIMED_OUT":
		return wordTimedOut
	case "DEADLINE_SOON":
		return wordDeadlineSoon
	case "NOT_FOUND":
		return wordNotFound
	}
	return wordOther
}

// An answer is one parsed answer. Its slices lie in the read buffer and are
// good until the next read only.
type answer struct {
	word word
	id   uint64 // INSERTED, RESERVED: the job id
	body []byte // RESERVED: the job's body
	line []byte // the line as it came, without CR LF
}

// maxLine bounds an answer's line, in bytes; the longest true one is well
// below it, so what is longer is not the beanstalk protocol.
const maxLine = 1024

// maxBody bounds a job's body, in bytes: the most beanstalkd can be told to
// take (-z).
const maxBody = 1 << 30

var errNoCRLF = errors.New("an answer does not end in CR LF")

// parse reads one answer from the front of buf and gives its length in bytes,
// or 0 if it has not all come yet. An error means that the stream cannot be
// understood any further.
func (a *answer) parse(buf []byte) (int, error) {
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		if len(buf) > maxLine {
			return 0, fmt.Errorf("an answer's line is longer than %d bytes", maxLine)
		}
		return 0, nil
	}
	if end == 0 || buf[end-1] != '\r' {
		return 0, errNoCRLF
	}
	a.line, a.body, a.id = buf[:end-1], nil, 0
	first, rest := a.line, []byte(nil)
	if i := bytes.IndexByte(a.line, ' '); i >= 0 {
		first, rest = a.line[:i], a.line[i+1:]
	}
	a.word = wordOf(first)
	switch a.word {
	case wordInserted:
		id, left, ok := number(rest)
		if !ok || len(left) != 0 {
			return 0, fmt.Errorf("cannot read %q", a.line)
		}
		a.id = id
	case wordReserved:
		return a.parseJob(buf, end+1, rest)
	}
	return end + 1, nil
}

// parseJob reads the id and size that follow RESERVED and the body that begins
// at buf[at:].
func (a *answer) parseJob(buf []byte, at int, rest []byte) (int, error) {
	id, rest, ok := number(rest)
	if !ok || len(rest) < 2 || rest[0] != ' ' {
		return 0, fmt.Errorf("cannot read %q", a.line)
	}
	size, rest, ok := number(rest[1:])
	if !ok || len(rest) != 0 || size > maxBody {
		return 0, fmt.Errorf("cannot read %q", a.line)
	}
	end := at + int(size)
	if len(buf) < end+2 {
		return 0, nil
	}
	if buf[end] != '\r' || buf[end+1] != '\n' {
		return 0, errNoCRLF
	}
	a.id, a.body = id, buf[at:end]
	return end + 2, nil
}

// number reads a decimal number from the front of b and gives what follows it.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + uint64(b[i]-'0')
		i++
	}
	return n, b[i:], i > 0 && i < 20
}

// An inbox holds the bytes read from one connection that are not parsed yet.
type inbox struct {
	buf        []byte
	start, end int // buf[start:end] is unparsed
}

// inboxSize is the first size of an inbox, in bytes; it doubles when a job does
// not fit.
const inboxSize = 16 << 10

// space gives room to read into. The answers parsed before become invalid.
func (in *inbox) space() []byte {
	if in.start == in.end {
		in.start, in.end = 0, 0
	}
	if in.buf == nil {
		in.buf = make([]byte, inboxSize)
	}
	if in.end == len(in.buf) {
		if in.start < len(in.buf)/2 {
			in.buf = append(in.buf, make([]byte, len(in.buf))...)
		}
		in.end = copy(in.buf, in.buf[in.start:in.end])
		in.start = 0
	}
	return in.buf[in.end:]
}

// took tells that n bytes were read into space.
func (in *inbox) took(n int) { in.end += n }

// next parses the next answer into a; false if it has not all come yet.
func (in *inbox) next(a *answer) (bool, error) {
	if in.start == in.end {
		return false, nil
	}
	n, err := a.parse(in.buf[in.start:in.end])
	in.start += n
	return n > 0, err
}
