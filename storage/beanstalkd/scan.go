package beanstalkd

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// ErrVersion means that a file has an unknown version.
var ErrVersion = errors.New("unknown version")

// scanner reads the records of one file.
type scanner struct {
	format
	in   *bufio.Reader
	at   int64 // bytes read so far
	size int64 // of the file
	sum  uint32
	buf  []byte // for names and structs
}

// entry is a record.
type entry struct {
	fields
	name []byte // nil: the record is short. Valid until the next record
	from int64  // offset of the record
	at   int64  // offset of the body
}

// scan calls do with each record of a file of size bytes. damage says why the records end before
// the file does; it is nil if that is as it should be. Its offset is that of the record.
func scan(file io.Reader, size int64, do func(*entry)) (damage *Damage, err error) {
	s := &scanner{in: bufio.NewReaderSize(file, int(min(size, 1<<20))), size: size, buf: make([]byte, maxName+structSize)}
	if known, err := s.begin(); !known || err != nil {
		return nil, err
	}
	for {
		e := entry{from: s.at}
		switch err := s.next(&e); {
		case errors.Is(err, io.EOF):
			return nil, nil
		case errors.Is(err, errIO):
			return nil, err
		case err != nil:
			damage = &Damage{Offset: e.from, What: err.Error(), Lost: size - e.from}
			if errors.Is(err, errTorn) && e.id <= maxID {
				damage.id = e.id
			}
			return damage, nil
		}
		do(&e)
	}
}

// endsInCRLF is the end of an error text. beanstalkd does not check the end of a body.
const endsInCRLF = "end in CR LF"

// errIO means that the file cannot be read.
var errIO = errors.New("the file cannot be read")

// begin reads the head of the file. It returns false if no records follow it.
func (s *scanner) begin() (more bool, err error) {
	head, err := s.bytes(headSize)
	if errors.Is(err, errTorn) {
		return false, nil // beanstalkd was killed just after it had created the file
	}
	if err != nil {
		return false, err
	}
	version := int32(binary.LittleEndian.Uint32(head))
	if s.format, more = formatOf(version); more {
		return true, nil
	}
	if version == 0 {
		if zeros, err := s.onlyZeros(); zeros || err != nil {
			return false, err // as above
		}
	}
	return false, fmt.Errorf("%w %d: redstalk reads %d and %d of beanstalkd, and %d of a fork", ErrVersion, version, oldest, current, checked)
}

// next reads a record. It returns io.EOF at the end of the records.
func (s *scanner) next(e *entry) error {
	if left := s.size - s.at; left < int64(s.nameLength) {
		return s.end(nil, errTorn)
	}
	s.sum = 0
	length, err := s.length()
	if err != nil {
		return err
	}
	from := s.at
	head, err := s.bytes(length + s.structure)
	if errors.Is(err, errTorn) && length == 0 {
		return s.end(head[:s.at-from], errTorn)
	}
	if err != nil {
		return err
	}
	e.fields = s.decode(head[length:])
	if e.id == 0 {
		return s.end(head, errNoID)
	}
	if length > 0 {
		e.name, e.at = head[:length], s.at
	}
	if err := s.check(e); err != nil {
		return err
	}
	return s.verify(e)
}

// length reads the length of a name.
func (s *scanner) length() (int, error) {
	b, err := s.bytes(s.nameLength)
	if err != nil {
		return 0, err
	}
	n := int64(int32(binary.LittleEndian.Uint32(b)))
	if s.nameLength == 8 {
		n = int64(binary.LittleEndian.Uint64(b))
	}
	if n < 0 || n > maxName {
		return 0, fmt.Errorf("the length of a tube's name is %d", n)
	}
	return int(n), nil
}

// end returns io.EOF if part, and the rest of the file, are zeros and so were never written; else it
// returns otherwise. part is what was read of the record.
func (s *scanner) end(part []byte, otherwise error) error {
	if !zero(part) {
		return otherwise
	}
	switch zeros, err := s.onlyZeros(); {
	case err != nil:
		return err
	case !zeros:
		return otherwise
	}
	return io.EOF
}

// errNoID means that a record is zeros, as after the last record, but something follows.
var errNoID = errors.New("a record of job 0 before the end of the records")

// check checks a record, and skips its body.
func (s *scanner) check(e *entry) error {
	full := e.name != nil
	if err := e.fields.check(full, s.size-s.at); err != nil || !full {
		return err
	}
	if !validName(e.name) {
		return fmt.Errorf("a record of job %d has the invalid tube name %q", e.id, e.name)
	}
	if err := s.skip(int64(e.body) - crlf); err != nil {
		return err
	}
	var end [crlf]byte
	if err := s.read(end[:]); err != nil {
		return err
	}
	if string(end[:]) != "\r\n" {
		return fmt.Errorf("the body of job %d does not %s", e.id, endsInCRLF)
	}
	return nil
}

// verify checks the checksum of a record, if it has one.
func (s *scanner) verify(e *entry) error {
	if !s.checked {
		return nil
	}
	sum, b := s.sum, [4]byte{}
	if err := s.read(b[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b[:]) != sum {
		return fmt.Errorf("the checksum of a record of job %d is wrong", e.id)
	}
	return nil
}

// bytes reads n bytes. They are valid until the next call.
func (s *scanner) bytes(n int) ([]byte, error) {
	b := s.buf[:n]
	return b, s.read(b)
}

// read fills b.
func (s *scanner) read(b []byte) error {
	n, err := io.ReadFull(s.in, b)
	s.at += int64(n)
	if s.checked {
		s.sum = crc32.Update(s.sum, checksums, b[:n])
	}
	return readError(err)
}

// skip skips n bytes.
func (s *scanner) skip(n int64) error {
	if s.checked {
		return s.skipSummed(n)
	}
	for n > 0 {
		done, err := s.in.Discard(int(min(n, 1<<30)))
		s.at, n = s.at+int64(done), n-int64(done)
		if err != nil {
			return readError(err)
		}
	}
	return nil
}

// skipSummed is skip for bytes that are part of a checksum.
func (s *scanner) skipSummed(n int64) error {
	var part [4096]byte
	for n > 0 {
		b := part[:min(n, int64(len(part)))]
		if err := s.read(b); err != nil {
			return err
		}
		n -= int64(len(b))
	}
	return nil
}

// zero reports whether all bytes are zero.
func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// onlyZeros reads the rest of the file, and reports whether all of it is zero.
func (s *scanner) onlyZeros() (bool, error) {
	var part [4096]byte
	for {
		n, err := s.in.Read(part[:])
		if !zero(part[:n]) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, readError(err)
		}
	}
}

func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errTorn
	}
	return fmt.Errorf("%w: %w", errIO, err)
}
