package schema

import (
	"encoding/binary"
	"time"
	"unsafe"

	"redstalk/storage"
	"redstalk/tube"
)

// The record of a job is a header of fixed width, the name of its tube, and its body. Some have
// a metadata block after that, see metadata.go. Only the header ever changes, in place. Numbers
// are big-endian. Lua reads and writes the header by HeaderFields.
//
// The usual life of a job does not touch its record: neither reserving nor deleting it does. So
// the letter R means ready or reserved, and the sorted sets tell which. The reservation that a
// job is in is not counted as a reserve yet; it is added when the job leaves it.
const (
	LetterAt     = 0 // the state, see Letter
	TTRAt        = LetterAt + 1
	PriAt        = TTRAt + 4
	DelayAt      = PriAt + 4
	CreatedAt    = DelayAt + 4 // ms since the epoch
	CountersAt   = CreatedAt + 8
	NameLengthAt = CountersAt + 4*int(tube.NumCounters)
	NameAt       = NameLengthAt + 1

	// LargeFrom is the size from which on a record is large: scripts do not read such a record
	// whole, and the engine does not send it through them. Below it that costs more than it saves.
	LargeFrom = 4 << 10

	// LongestName is how many bytes a tube's name has at most.
	LongestName = 200
)

// HeaderField is a field of the header: its name in Lua, and its format for Lua's struct.pack.
type HeaderField struct{ Name, Packed string }

// HeaderFields are all fields in their order.
var HeaderFields = func() []HeaderField {
	fields := []HeaderField{{"letter", "c1"}, {"ttr", "I4"}, {"pri", "I4"}, {"delay", "I4"}, {"created", "I8"}}
	for c := range tube.NumCounters {
		fields = append(fields, HeaderField{c.String(), "I4"})
	}
	return append(fields, HeaderField{"name_length", "B"})
}()

// Letter returns the letter of a state in a record without metadata.
func Letter(s tube.State) byte {
	switch s {
	case tube.Delayed:
		return 'D'
	case tube.Buried:
		return 'B'
	}
	return 'R' // ready or reserved
}

// AppendHead appends the record of a new job up to its body.
func AppendHead(b []byte, op *storage.Op, created int64) []byte {
	state := tube.Ready
	if op.Delay > 0 {
		state = tube.Delayed
	}
	b = append(b, Letter(state))
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

// Record is a job's record as read. It can end after the name.
type Record string

// Valid returns whether r is long enough to be a record.
func (r Record) Valid() bool { return len(r) >= NameAt && len(r) >= NameAt+int(r[NameLengthAt]) }

func (r Record) uint32(at int) uint32 {
	return uint32(r[at])<<24 | uint32(r[at+1])<<16 | uint32(r[at+2])<<8 | uint32(r[at+3])
}

func (r Record) TTR() uint32   { return r.uint32(TTRAt) }
func (r Record) Pri() uint32   { return r.uint32(PriAt) }
func (r Record) Delay() uint32 { return r.uint32(DelayAt) }
func (r Record) Created() tube.Instant {
	return tube.Instant(r.CreatedMs()) * tube.Instant(time.Millisecond)
}

// CreatedMs is when the job was put, in ms by the clock of Redis.
func (r Record) CreatedMs() int64 {
	return int64(uint64(r.uint32(CreatedAt))<<32 | uint64(r.uint32(CreatedAt+4)))
}

func (r Record) Tube() string { return string(r[NameAt : NameAt+int(r[NameLengthAt])]) }

// Body returns a slice of r, not a copy: it must never be changed.
func (r Record) Body() []byte {
	body := string(r[r.bodyAt() : len(r)-r.MetadataLength()])
	return unsafe.Slice(unsafe.StringData(body), len(body))
}

func (r Record) bodyAt() int { return NameAt + int(r[NameLengthAt]) }

func (r Record) Counters() (c tube.Counters) {
	for i := range c {
		c[i] = r.uint32(CountersAt + 4*i)
	}
	return c
}
