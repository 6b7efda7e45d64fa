package beanstalkd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"redstalk/tube"
)

// A file begins with its version in 4 bytes. Records follow: the length of a tube's name, the
// name, a C struct in the layout of x86-64, and the body. If the length of the name is 0, the
// record is short: it is about a job of an earlier record, and has no body. Numbers are
// little-endian.
const (
	oldest   = 5 // times in microseconds, 8 bytes for the length of the name
	current  = 7
	checked  = 8 // each record is followed by its CRC-32C
	headSize = 4 // of a file
)

// Offsets in the struct. The bytes between the fields are garbage.
const (
	idAt       = 0  // u64
	priAt      = 8  // u32
	delayAt    = 16 // i64, time
	ttrAt      = 24 // i64, time
	bodyAt     = 32 // i32, bytes of the body with its CR LF
	createdAt  = 40 // i64, time since the epoch
	deadlineAt = 48 // the same; only of delayed jobs
	countersAt = 56 // u32 each, in the order of tube.Counter
	stateAt    = 76 // u8

	structSize    = 80
	oldStructSize = 77
)

// The states in a record.
const (
	deleted = iota
	ready
	reserved
	buried
	delayed
)

// maxName is the longest name of a tube, in bytes.
const maxName = 200

// maxID is the largest valid id: many clients read ids as doubles.
const maxID = 1<<53 - 1

// crlf is the length of the end of a body.
const crlf = 2

// checksums is the CRC table of version 8.
var checksums = crc32.MakeTable(crc32.Castagnoli)

// format has the differences between the versions.
type format struct {
	nameLength int   // bytes of the length of a name
	structure  int   // bytes of the struct
	unit       int64 // of times, in nanoseconds
	checked    bool
}

// formatOf returns the format of a version.
func formatOf(version int32) (f format, known bool) {
	switch version {
	case oldest:
		return format{nameLength: 8, structure: oldStructSize, unit: 1000}, true
	case current, checked:
		return format{nameLength: 4, structure: structSize, unit: 1, checked: version == checked}, true
	}
	return f, false
}

// fields is the content of a struct.
type fields struct {
	id              uint64
	pri, delay, ttr uint32 // delay and ttr in seconds
	body            int32  // bytes, with the CR LF
	created, due    int64  // nanoseconds since the epoch; due of delayed jobs
	counters        tube.Counters
	state           uint8
}

// decode reads a struct.
func (f *format) decode(b []byte) (r fields) {
	r.id = binary.LittleEndian.Uint64(b[idAt:])
	r.pri = binary.LittleEndian.Uint32(b[priAt:])
	r.delay = f.seconds(b[delayAt:])
	r.ttr = max(f.seconds(b[ttrAt:]), tube.MinTTR)
	r.body = int32(binary.LittleEndian.Uint32(b[bodyAt:]))
	r.created, r.due = f.instant(b[createdAt:]), f.instant(b[deadlineAt:])
	for c := range r.counters {
		r.counters[c] = binary.LittleEndian.Uint32(b[countersAt+4*c:])
	}
	r.state = b[stateAt]
	return r
}

// seconds reads a duration.
func (f *format) seconds(b []byte) uint32 {
	perSecond := int64(1e9) / f.unit
	return uint32(min(max(int64(binary.LittleEndian.Uint64(b)), 0)/perSecond, math.MaxUint32))
}

// instant reads a time since the epoch in nanoseconds, at most tube.Latest.
func (f *format) instant(b []byte) int64 {
	return min(max(int64(binary.LittleEndian.Uint64(b)), 0), int64(tube.Latest)/f.unit) * f.unit
}

// encode appends the struct of version 7.
func (r *fields) encode(to []byte) []byte {
	var b [structSize]byte
	binary.LittleEndian.PutUint64(b[idAt:], r.id)
	binary.LittleEndian.PutUint32(b[priAt:], r.pri)
	binary.LittleEndian.PutUint64(b[delayAt:], uint64(r.delay)*1e9)
	binary.LittleEndian.PutUint64(b[ttrAt:], uint64(r.ttr)*1e9)
	binary.LittleEndian.PutUint32(b[bodyAt:], uint32(r.body))
	binary.LittleEndian.PutUint64(b[createdAt:], uint64(r.created))
	binary.LittleEndian.PutUint64(b[deadlineAt:], uint64(r.due))
	for c, n := range r.counters {
		binary.LittleEndian.PutUint32(b[countersAt+4*c:], n)
	}
	b[stateAt] = r.state
	return append(to, b[:]...)
}

// check fails if the fields cannot be those of a record. left is how many bytes follow the
// struct in the file.
func (r *fields) check(full bool, left int64) error {
	switch {
	case r.id > maxID:
		return fmt.Errorf("a record has the job id %d, and the largest valid id is %d", r.id, uint64(maxID))
	case r.state > delayed:
		return fmt.Errorf("a record of job %d has the unknown state %d", r.id, r.state)
	case full && r.body < crlf:
		return fmt.Errorf("a record of job %d has a body of %d bytes with CR LF", r.id, r.body)
	case full && int64(r.body) > left:
		return fmt.Errorf("the body of job %d should have %d bytes, and %d are left: %w", r.id, r.body, left, errTorn)
	}
	return nil
}

// errTorn means that the file ends in the middle of a record.
var errTorn = errors.New("the file ends in the middle of a record")

// validName reports whether a tube can have that name.
func validName(name []byte) bool {
	for i, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-' && i > 0:
		case c == '+', c == '/', c == ';', c == '.', c == '$', c == '_', c == '(', c == ')':
		default:
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxName
}
