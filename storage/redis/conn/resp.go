package conn

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"unsafe"
)

// The part of the protocol of Redis, RESP2, that calls need.

// Pieces is a word of a command in pieces, which are sent one after the other without being
// joined.
type Pieces struct{ Head, Body, Rest []byte }

func (p *Pieces) len() int { return len(p.Head) + len(p.Body) + len(p.Rest) }

// errWord: a word of a command has a type that cannot be sent.
var errWord = errors.New("a word of a command is of an unknown type")

// write writes a command. Its words are texts and numbers, or pointers to them.
func (s *socket) write(words []any) error {
	s.writeMark('*', len(words))
	for _, word := range words {
		switch w := word.(type) {
		case string:
			s.writeText(w)
		case *string:
			s.writeText(*w)
		case []byte:
			s.writeBytes(w)
		case Pieces:
			s.writeMark('$', w.len())
			s.out.Write(w.Head)
			s.out.Write(w.Body)
			s.out.Write(w.Rest)
			s.out.WriteString("\r\n")
		case int:
			s.writeNumber(int64(w))
		case int64:
			s.writeNumber(w)
		case uint64:
			s.writeNumber(int64(w))
		case uint32:
			s.writeNumber(int64(w))
		case *uint32:
			s.writeNumber(int64(*w))
		default:
			return fmt.Errorf("%w: %T", errWord, word)
		}
	}
	return nil // Flush returns the error of a failed write
}

// writeMark writes the first line of a text or a command.
func (s *socket) writeMark(mark byte, n int) {
	b := append(s.num[:0], mark)
	b = strconv.AppendInt(b, int64(n), 10)
	s.out.Write(append(b, '\r', '\n'))
}

func (s *socket) writeText(text string) {
	s.writeMark('$', len(text))
	s.out.WriteString(text)
	s.out.WriteString("\r\n")
}

func (s *socket) writeBytes(text []byte) {
	s.writeMark('$', len(text))
	s.out.Write(text)
	s.out.WriteString("\r\n")
}

func (s *socket) writeNumber(n int64) {
	var digits [20]byte
	s.writeBytes(strconv.AppendInt(digits[:0], n, 10))
}

// read reads an answer.
func (s *socket) read() (any, error) {
	mark, text, err := s.readLine()
	switch {
	case err != nil:
		return nil, err
	case mark == '-':
		return nil, ServerError(text)
	case mark != '*':
		return s.readSimple(mark, text)
	}
	n, err := length(text)
	if n < 0 || err != nil {
		return nil, err
	}
	all := make([]any, n)
	for i := range all {
		if mark, text, err = s.readLine(); err != nil {
			return nil, err
		}
		if all[i], err = s.readSimple(mark, text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readLine reads the first line of a value: the mark and the rest, which is valid until the
// next read.
func (s *socket) readLine() (mark byte, text []byte, err error) {
	line, err := s.in.ReadSlice('\n')
	switch {
	case err != nil:
		return 0, nil, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return 0, nil, fmt.Errorf("%w: %.40q", errProtocol, line)
	}
	return line[0], line[1 : len(line)-2], nil
}

// readSimple reads a value that is no list, after its first line.
func (s *socket) readSimple(mark byte, text []byte) (any, error) {
	switch mark {
	case '+':
		return string(text), nil
	case ':':
		return strconv.ParseInt(string(text), 10, 64)
	case '$':
		n, err := length(text)
		if n < 0 || err != nil {
			return nil, err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(s.in, b); err != nil {
			return nil, err
		}
		return unsafe.String(unsafe.SliceData(b), n), nil
	}
	return nil, fmt.Errorf("%w: %c%.40q", errProtocol, mark, text)
}

// maxLength limits the size of a text, in bytes, and the length of a list.
const maxLength = 1 << 30

// length parses the length of a text or list; negative if there is none.
func length(text []byte) (int, error) {
	n, err := strconv.Atoi(string(text))
	if err != nil || n > maxLength {
		return 0, fmt.Errorf("%w: a length of %.40q", errProtocol, text)
	}
	return n, nil
}
