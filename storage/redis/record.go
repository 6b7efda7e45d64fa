package redis

import (
	"encoding/binary"
	"time"
	"unsafe"

	"redstalk/storage"
	"redstalk/tube"
)

// The record of a job is a header of fixed width, the name of its tube, and its body. Some have
// a metadata block after that, see metadata.go. Only the header ever changes, in place. Numbers
// are big-endian. Lua reads and writes the header by headerFields.
//
// The usual life of a job does not touch its record: neither reserving nor deleting it does. So
// the letter R means ready or reserved, and the sorted sets tell which. The reservation that a
// job is in is not counted as a reserve yet; it is added when the job leaves it.
const (
	letterAt     = 0 // the state, see recordLetter
	ttrAt        = letterAt + 1
	priAt        = ttrAt + 4
	delayAt      = priAt + 4
	createdAt    = delayAt + 4 // ms since the epoch
	countersAt   = createdAt + 8
	nameLengthAt = countersAt + 4*int(tube.NumCounters)
	nameAt       = nameLengthAt + 1

	// longestName is how many bytes a tube's name has at most.
	longestName = 200
)

// headerField is a field of the header: its name in Lua, and its format for Lua's struct.pack.
type headerField struct{ name, packed string }

// headerFields are all fields in their order.
var headerFields = func() []headerField {
	fields := []headerField{{"letter", "c1"}, {"ttr", "I4"}, {"pri", "I4"}, {"delay", "I4"}, {"created", "I8"}}
	for c := range tube.NumCounters {
		fields = append(fields, headerField{c.String(), "I4"})
	}
	return append(fields, headerField{"name_length", "B"})
}()

// recordLetter returns the letter of a state in a record without metadata.
func recordLetter(s tube.State) byte {
	switch s {
	case tube.Delayed:
		return 'D'
	case tube.Buried:
		return 'B'
	}
	return 'R' // ready or reserved
}

// appendHead appends the record of a new job up to its body.
func appendHead(b []byte, op *storage.Op, created int64) []byte {
	state := tube.Ready
	if op.Delay > 0 {
		state = tube.Delayed
	}
	b = append(b, recordLetter(state))
	b = binary.BigEndian.AppendUint32(b, max(op.TTR, tube.MinTTR))
	b = binary.BigEndian.AppendUint32(b, op.Pri)
	b = binary.BigEndian.AppendUint32(b, op.Delay)
	b = binary.BigEndian.AppendUint64(b, uint64(created))
	for range tube.NumCounters {
		b = binary.BigEndian.AppendUint32(b, 0)
	}
	b = append(b, byte(len(op.Tube)))
	return append(b, op.Tube...)
}

// record is a job's record as read. It can end after the name.
type record string

// valid returns whether r is long enough to be a record.
func (r record) valid() bool { return len(r) >= nameAt && len(r) >= nameAt+int(r[nameLengthAt]) }

func (r record) uint32(at int) uint32 {
	return uint32(r[at])<<24 | uint32(r[at+1])<<16 | uint32(r[at+2])<<8 | uint32(r[at+3])
}

func (r record) ttr() uint32   { return r.uint32(ttrAt) }
func (r record) pri() uint32   { return r.uint32(priAt) }
func (r record) delay() uint32 { return r.uint32(delayAt) }
func (r record) created() tube.Instant {
	return tube.Instant(r.createdMs()) * tube.Instant(time.Millisecond)
}

// createdMs is when the job was put, in ms by the clock of Redis.
func (r record) createdMs() int64 {
	return int64(uint64(r.uint32(createdAt))<<32 | uint64(r.uint32(createdAt+4)))
}

func (r record) tube() string { return string(r[nameAt : nameAt+int(r[nameLengthAt])]) }

// body returns a slice of r, not a copy: it must never be changed.
func (r record) body() []byte {
	body := string(r[r.bodyAt() : len(r)-r.metadataLength()])
	return unsafe.Slice(unsafe.StringData(body), len(body))
}

func (r record) bodyAt() int { return nameAt + int(r[nameLengthAt]) }

func (r record) counters() (c tube.Counters) {
	for i := range c {
		c[i] = r.uint32(countersAt + 4*i)
	}
	return c
}
